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
