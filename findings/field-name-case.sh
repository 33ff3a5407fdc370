#!/usr/bin/env bash
# Libraries:     sigs.k8s.io/yaml 1.6.0 (with which programs in Go read files of their own into types), and
#                sigs.k8s.io/json of 2025-07-30 (with which API servers, kubelet and kubeadm read objects).
# Guess:         both are strict about names of fields: what `UnmarshalStrict` accepts the API accepts.
# What happens:  sigs.k8s.io/yaml takes names in any case, as Go's encoding/json does, and two spellings of a field for
#                one; then the one in lower case counts. The API knows one spelling. Output seen, replicas and error:
#                  written                     sigs.k8s.io/yaml  sigs.k8s.io/json
#                  {replicas: 3}               3                 3
#                  {Replicas: 3}               3                 0, unknown field "Replicas"
#                  {replicas: 1, REPLICAS: 3}  1                 1, unknown field "REPLICAS"
# For users:     a manifest that a tool with the same types has validated is refused when it is applied or, by a client
#                that doesn't ask for strict validation, loses the field without a word. Validate against the CRD.
# Espalier:      knows one spelling and suggests it: src/espalier/api/manifests/schema.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E'
package main

import (
	"fmt"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

type spec struct {
	Replicas int `json:"replicas"`
}

func main() {
	for _, text := range []string{"{replicas: 3}", "{Replicas: 3}", "{replicas: 1, REPLICAS: 3}"} {
		var byYAML, byJSON spec
		if err := yaml.UnmarshalStrict([]byte(text), &byYAML); err != nil {
			panic(err)
		}
		object, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			panic(err)
		}
		problems, err := json.UnmarshalStrict(object, &byJSON)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%-27s %-17d %d", text, byYAML.Replicas, byJSON.Replicas)
		for _, problem := range problems {
			fmt.Printf(", %v", problem)
		}
		fmt.Println()
	}
}
E
go mod init finding 2>/dev/null
go get sigs.k8s.io/yaml@v1.6.0 sigs.k8s.io/json@v0.0.0-20250730193827-2d320260d730 2>/dev/null
output=$(go run .)
printf '%-27s %-17s %s\n' written sigs.k8s.io/yaml sigs.k8s.io/json
echo "$output"
expected='{replicas: 3}               3                 3
{Replicas: 3}               3                 0, unknown field "Replicas"
{replicas: 1, REPLICAS: 3}  1                 1, unknown field "REPLICAS"'
if [ "$output" != "$expected" ]; then
    echo "names of fields are read otherwise now"
    exit 1
fi
