#!/usr/bin/env bash
# Library:       helm.sh/helm/v3 3.19.5.
# Guess:         `helm lint` fails for values with which `helm template` and `helm install` fail.
# What happens:  while it lints, `required` and `fail` only print a line and go on with an empty text: it ends with 0,
#                `--strict` or not. A wrong value that values.schema.json refuses does fail. Output seen:
#                  template: Error: execution error at (example/templates/a.yaml:1:4): name: found none
#                  lint:     [INFO] Missing required value: name: found none ... 1 chart(s) linted, 0 chart(s) failed
# For users:     values that pass a pipeline's `helm lint` may be refused at the installation. Render them in it, too.
# Espalier:      its chart refuses by its schema what a schema can say, and tests of refusals render:
#                tests/unit/cli/test_chart.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export HOME="$work" GOPATH="${GOPATH:-$(go env GOPATH)}" GOCACHE="${GOCACHE:-$(go env GOCACHE)}"
CGO_ENABLED=0 GOBIN="$work/bin" go install -trimpath helm.sh/helm/v3/cmd/helm@v3.19.5
helm="$work/bin/helm"
mkdir -p "$work/example/templates"
cd "$work"
echo '{"apiVersion": "v2", "name": "example", "version": "1.0.0", "icon": "https://example.com/icon.png"}' > example/Chart.yaml
echo '{"number": 1}' > example/values.yaml
echo '{"properties": {"number": {"type": "integer"}}}' > example/values.schema.json
echo '{{- required "name: found none" .Values.name }}{{ fail "never" }}' > example/templates/a.yaml
failed=0
rendered=$("$helm" template example 2>&1) && { echo "helm template: rendered, expected is an error"; failed=1; }
linted=$("$helm" lint --strict example 2>&1) || { echo "helm lint: failed, expected is 0"; failed=1; }
"$helm" lint example --set number=x > /dev/null 2>&1 && { echo "helm lint: passed what the schema refuses"; failed=1; }
[[ $rendered == *"name: found none"* ]] || failed=1
[[ $linted == *"Missing required value: name: found none"* ]] || failed=1
echo "template: $rendered"
echo "lint:     $linted"
exit $failed
