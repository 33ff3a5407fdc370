#!/usr/bin/env bash
# Libraries:     PyYAML 6.0.3, and sigs.k8s.io/yaml 1.6.0 (the reader of kubectl, kubelet, kubeadm and Helm).
# Guess:         PyYAML's `safe_dump` quotes text that would be read as something else; it does so for 0x1F, 1_000, on.
# What happens:  it quotes what PyYAML would read as something else. It takes 1e3, 08, 0o17 and y for text, so it leaves
#                them plain, and Go reads numbers and a boolean. Output seen:
#                  written:          - '0x1F'  - 'on'  - 1234e56  - 1e3  - 08  - 0o17  - y
#                  PyYAML:           ['0x1F', 'on', '1234e56', '1e3', '08', '0o17', 'y']
#                  sigs.k8s.io/yaml: ["0x1F","on",1.234e+59,1000,8,15,true]
# For users:     an annotation with the short hash of a commit (1234e56), a zone 08 or an answer y, written by a program
#                in Python that reads its own output without a fault, is refused by kubectl or, in a field without a
#                type, stored as another value: of hashes of 7 digits about one in a hundred looks like a number so.
# Espalier:      writes all YAML with src/espalier/api/trees/yaml_text.py, which quotes them; tests/unit/api/test_yaml_text.py,
#                tests/envtest/test_yaml_of_kubectl.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pyyaml==6.0.3
cd "$work"
cat > main.go <<'E'
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	text, err := os.ReadFile("texts.yaml")
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
python=$(venv/bin/python - <<'E'
import yaml

text = yaml.safe_dump(["0x1F", "on", "1234e56", "1e3", "08", "0o17", "y"])
with open("texts.yaml", "w") as file:
    file.write(text)
print(yaml.safe_load(text))
E
)
kubernetes=$(go run .)
echo "written:          $(tr '\n' ' ' < texts.yaml)"
echo "PyYAML:           $python"
echo "sigs.k8s.io/yaml: $kubernetes"
if [ "$python" != "['0x1F', 'on', '1234e56', '1e3', '08', '0o17', 'y']" ]; then
    echo "PyYAML doesn't read what it wrote"
    exit 1
fi
if [ "$kubernetes" != '["0x1F","on",1.234e+59,1000,8,15,true]' ]; then
    echo "the texts are written or read otherwise now"
    exit 1
fi
