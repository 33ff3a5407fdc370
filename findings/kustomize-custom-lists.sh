#!/usr/bin/env bash
# Library:       sigs.k8s.io/kustomize/api 0.21.1 (`kubectl kustomize`, `kubectl apply -k`, Flux's kustomize-controller).
# Guess:         a patch merges a list of objects with names, as it does for containers; at least where the definition of
#                the kind says `x-kubernetes-list-type: map`.
# What happens:  for kinds that kustomize does not know, the patch's list replaces the other one. A schema under `openapi`
#                changes that if it has `x-kubernetes-patch-merge-key`; what API servers read,
#                `x-kubernetes-list-map-keys`, changes nothing. Output seen:
#                  no schema        general:5
#                  list-map-keys    general:5
#                  patch-merge-key  general:5 builds:1
# For users:     an overlay that gives one group of workers more machines deletes all other groups of the cluster.
# Espalier:      ships a component with the schema: examples/kustomize/espalier, tests/unit/gitops/test_kustomize.py.
#
# Needs Go; the first build of kustomize takes about half a minute.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E2'
package main

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const cluster = `
apiVersion: example.org/v1
kind: Fleet
metadata: {name: a}
spec:
  groups: [{name: general, count: 2}, {name: builds, count: 1}]
`

const patched = `
resources: [fleet.yaml]
patches:
- patch: |
    apiVersion: example.org/v1
    kind: Fleet
    metadata: {name: a}
    spec:
      groups: [{name: general, count: 5}]
`

func schema(marks string) string {
	return `{"definitions": {"org.example.v1.Fleet": {"type": "object",
	  "x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "Fleet"}],
	  "properties": {"spec": {"type": "object", "properties": {"groups": {"type": "array", ` + marks + `,
	    "items": {"type": "object", "properties": {"name": {"type": "string"}}}}}}}}}}`
}

func main() {
	for _, variant := range [][2]string{
		{"no schema", ""},
		{"list-map-keys", `"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]`},
		{"patch-merge-key", `"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"`},
	} {
		text := patched
		files := filesys.MakeFsInMemory()
		if variant[1] != "" {
			text += "openapi: {path: schema.json}\n"
			must(files.WriteFile("/schema.json", []byte(schema(variant[1]))))
		}
		must(files.WriteFile("/fleet.yaml", []byte(cluster)))
		must(files.WriteFile("/kustomization.yaml", []byte(text)))
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/")
		must(err)
		fleet, err := resources.Resources()[0].Map()
		must(err)
		fmt.Printf("%-15s ", variant[0])
		for _, group := range fleet["spec"].(map[string]any)["groups"].([]any) {
			fmt.Printf(" %v:%v", group.(map[string]any)["name"], group.(map[string]any)["count"])
		}
		fmt.Println()
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
E2
go mod init finding 2>/dev/null
go get sigs.k8s.io/kustomize/api/krusty@v0.21.1 2>/dev/null
output=$(go run .)
echo "$output"
expected='no schema        general:5
list-map-keys    general:5
patch-merge-key  general:5 builds:1'
if [ "$output" != "$expected" ]; then
    echo "kustomize merges lists otherwise now"
    exit 1
fi
