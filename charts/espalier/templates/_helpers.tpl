{{- define "espalier.image" -}}
{{- $image := .Values.image -}}
{{- $missing := "image.repository: found none, allowed is the name of the image that you pushed, such as registry.example.com/espalier; give it by --set image.repository=NAME" -}}
{{- required $missing $image.repository -}}
{{- if or $image.tag (not $image.digest) }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}
{{- define "espalier.webhookSecret" -}}
{{- $issued := ternary "espalier-webhook-certificate" "" .Values.webhooks.certManager.enabled -}}
{{- .Values.webhooks.secretName | default $issued -}}
{{- end -}}
{{- define "espalier.amount" -}}
{{- $unit := regexFind "([numkMGTPE]|[KMGTPE]i)$" . -}}
{{- $factor := get (dict "n" 1e-09 "u" 1e-06 "m" 0.001 "k" 1000.0 "M" 1000000.0 "G" 1000000000.0 "T" 1000000000000.0 "P" 1000000000000000.0 "E" 1e+18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1.152921504606847e+18) $unit | default 1 -}}
{{- mulf (trimSuffix $unit . | float64) $factor -}}
{{- end -}}
