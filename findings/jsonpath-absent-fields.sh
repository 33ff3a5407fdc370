#!/usr/bin/env bash
# Libraries:     k8s.io/client-go 0.36.3, util/jsonpath (JSONPath of kubectl's output and of the columns that a CRD
#                prints), and jsonpath-rfc9535 1.0.1, jsonpath-ng 1.16.0 and python-jsonpath 2.2.2 (Python).
# Guess:         a filter for what is not equal also selects what doesn't have the field, as RFC 9535 says.
# What happens:  in kubectl's, an object without the field passes no filter. Output seen, of nodes a (unschedulable:
#                true), b (without the field, as the API writes a node that takes pods) and c (unschedulable: false):
#                  filter of .items                     client-go  jsonpath-rfc9535  jsonpath-ng  python-jsonpath
#                  ?(@.spec.unschedulable == true)      a          a                 a            a
#                  ?(@.spec.unschedulable != true)      c          b c               b c          b c
# For users:     `kubectl get nodes -o jsonpath` with the second filter lists no node that takes pods, since the API
#                leaves false out, and so does each check that looks for what isn't Ready yet: an object without status
#                is missing. The answer is empty and no error. Use jq, or print the field and filter afterwards.
# Espalier:      its columns and `-o jsonpath` do as kubectl: src/espalier/api/trees/json_path.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
    jsonpath-rfc9535==1.0.1 jsonpath-ng==1.16.0 python-jsonpath==2.2.2
cd "$work"
cat > nodes.json <<'E'
{"items": [
    {"metadata": {"name": "a"}, "spec": {"unschedulable": true}},
    {"metadata": {"name": "b"}, "spec": {}},
    {"metadata": {"name": "c"}, "spec": {"unschedulable": false}}
]}
E
cat > main.go <<'E'
// Prints what kubectl's JSONPath finds in nodes.json; the path is the argument.
package main

import (
	"encoding/json"
	"os"

	"k8s.io/client-go/util/jsonpath"
)

func main() {
	text, err := os.ReadFile("nodes.json")
	if err != nil {
		panic(err)
	}
	var nodes any
	if err := json.Unmarshal(text, &nodes); err != nil {
		panic(err)
	}
	path := jsonpath.New("nodes").AllowMissingKeys(true)
	if err := path.Parse(os.Args[1]); err != nil {
		panic(err)
	}
	if err := path.Execute(os.Stdout, nodes); err != nil {
		panic(err)
	}
}
E
cat > compare.py <<'E'
import json
import subprocess

import jsonpath
import jsonpath_rfc9535
from jsonpath_ng.ext import parse

nodes = json.load(open("nodes.json"))
print(f"{'filter of .items':36} client-go  jsonpath-rfc9535  jsonpath-ng  python-jsonpath")
for condition in ("?(@.spec.unschedulable == true)", "?(@.spec.unschedulable != true)"):
    path = f".items[{condition}].metadata.name"
    columns = (
        subprocess.run(["./kubectl", f"{{{path}}}"], capture_output=True, text=True, check=True).stdout,
        " ".join(node.value for node in jsonpath_rfc9535.find(f"${path}", nodes)),
        " ".join(match.value for match in parse(f"${path}").find(nodes)),
        " ".join(jsonpath.findall(f"${path}", nodes)),
    )
    print(f"{condition:36} {columns[0]:10} {columns[1]:17} {columns[2]:12} {columns[3]}")
E
go mod init finding 2>/dev/null
go get k8s.io/client-go/util/jsonpath@v0.36.3 2>/dev/null
go build -o kubectl .
output=$(venv/bin/python compare.py)
echo "$output"
expected="filter of .items                     client-go  jsonpath-rfc9535  jsonpath-ng  python-jsonpath
?(@.spec.unschedulable == true)      a          a                 a            a
?(@.spec.unschedulable != true)      c          b c               b c          b c"
if [ "$output" != "$expected" ]; then
    echo "a filter has another verdict on absent fields now"
    exit 1
fi
