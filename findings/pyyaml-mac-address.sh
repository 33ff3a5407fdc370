#!/usr/bin/env bash
# Libraries:     PyYAML 6.0.3, and sigs.k8s.io/yaml 1.6.0 (the reader of kubectl and of Kubernetes' controllers).
# Guess:         both read YAML 1.1, so an unquoted MAC address is text to both or to neither.
# What happens:  PyYAML takes a MAC address for a number of base 60 if each of its parts is decimal, the first doesn't
#                begin with 0, and the others are below 60; so it depends on the digits. sigs.k8s.io/yaml reads text.
#                Output seen:
#                  PyYAML:           {'macs': [41135085296, '52:54:00:12:34:60', '00:50:56:12:34:56']}
#                  sigs.k8s.io/yaml: {"macs":["52:54:00:12:34:56","52:54:00:12:34:60","00:50:56:12:34:56"]}
# For users:     a Python program that reads or rewrites manifests of machines (Tinkerbell's Hardware, NetworkData)
#                changes some addresses into integers: of random ones one in 4000, but one in 80 of those that begin
#                with 52:54:00 as those of QEMU's machines do. Quote MAC addresses.
# Espalier:      reads plain scalars by its own rules, src/espalier/api/trees/scalars.py; tests/unit/api/test_scalars.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pyyaml==6.0.3
cd "$work"
cat > macs.yaml <<'E'
macs:
- 52:54:00:12:34:56
- 52:54:00:12:34:60
- 00:50:56:12:34:56
E
cat > main.go <<'E'
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	text, err := os.ReadFile("macs.yaml")
	if err != nil {
		panic(err)
	}
	json, err := yaml.YAMLToJSON(text)
	if err != nil {
		panic(err)
	}
	fmt.Print(string(json))
}
E
go mod init finding 2>/dev/null
go get sigs.k8s.io/yaml@v1.6.0 2>/dev/null
kubernetes=$(go run .)
python=$(venv/bin/python -c 'import yaml; print(yaml.safe_load(open("macs.yaml")))')
echo "PyYAML:           $python"
echo "sigs.k8s.io/yaml: $kubernetes"
if [ "$python" != "{'macs': [41135085296, '52:54:00:12:34:60', '00:50:56:12:34:56']}" ]; then
    echo "PyYAML reads MAC addresses otherwise now"
    exit 1
fi
if [ "$kubernetes" != '{"macs":["52:54:00:12:34:56","52:54:00:12:34:60","00:50:56:12:34:56"]}' ]; then
    echo "sigs.k8s.io/yaml reads MAC addresses otherwise now"
    exit 1
fi
