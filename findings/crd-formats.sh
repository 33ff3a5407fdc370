#!/usr/bin/env bash
# Libraries:     k8s.io/kube-openapi of 2026-03-17, pkg/validation/strfmt (what kube-apiserver 1.36 checks a `format` in
#                the schema of a CRD with), and jsonschema-rs 0.60.3 (a validator of JSON Schema, in Python).
# Guess:         a `format` of strings means in a CRD what JSON Schema says.
# What happens:  a duration is Go's; other formats are wider, but a hostname without a dot is refused for its hyphen.
#                Output seen:
#                  format    text                              kube-apiserver  JSON Schema
#                  duration  1h30m                             true            false
#                  hostname  node-1                            false           true
#                  hostname  node-1.example.com                true            true
#                  uri       /healthz                          true            false
#                  uuid      01234567012340120123012345678901  true            false
# For users:     manifests that are validated against a CRD's schema in CI, with its formats on, fail there and are
#                accepted by the cluster, or the other way round: nobody can write a name like ip-10-0-0-1 into a field
#                of format hostname. For names of nodes, give a pattern.
# Espalier:      its embedded API server has checks of its own, src/espalier/apiserver/schema/formats.py, compared in
#                tests/contracts/test_formats.py. Its own kinds have patterns.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check jsonschema-rs==0.60.3
cd "$work"
cat > texts <<'E'
duration 1h30m
hostname node-1
hostname node-1.example.com
uri /healthz
uuid 01234567012340120123012345678901
E
cat > main.go <<'E'
package main

import (
	"fmt"
	"os"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

func main() {
	file, err := os.Open("texts")
	if err != nil {
		panic(err)
	}
	var format, text string
	for {
		if _, err := fmt.Fscan(file, &format, &text); err != nil {
			return
		}
		fmt.Println(strfmt.Default.ContainsName(format) && strfmt.Default.Validates(format, text))
	}
}
E
cat > validate.py <<'E'
import jsonschema_rs

for line in open("texts"):
    format_, text = line.split()
    validator = jsonschema_rs.Draft202012Validator({"format": format_}, validate_formats=True)
    print(str(validator.is_valid(text)).lower())
E
go mod init finding 2>/dev/null
go get k8s.io/kube-openapi/pkg/validation/strfmt@v0.0.0-20260317180543-43fb72c5454a 2>/dev/null
go run . > kubernetes.txt
venv/bin/python validate.py > schema.txt
printf '%-9s %-33s %-15s %s\n' format text kube-apiserver "JSON Schema"
paste -d' ' texts kubernetes.txt schema.txt | while read -r format text kubernetes schema; do
    printf '%-9s %-33s %-15s %s\n' "$format" "$text" "$kubernetes" "$schema"
done
if [ "$(tr '\n' ' ' < kubernetes.txt)" != "true false true true true " ]; then
    echo "kube-apiserver checks formats otherwise now"
    exit 1
fi
if [ "$(tr '\n' ' ' < schema.txt)" != "false true true false false " ]; then
    echo "jsonschema-rs checks formats otherwise now"
    exit 1
fi
