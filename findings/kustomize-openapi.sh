#!/usr/bin/env bash
# Libraries:     sigs.k8s.io/kustomize/api 0.21.1 (`kubectl kustomize`, `kubectl apply -k`), and
#                github.com/fluxcd/pkg/kustomize 1.35.7, with which Flux's kustomize-controller 1.9 calls it.
# Guess:         a schema under `openapi` adds a kind to those that kustomize knows.
# What happens:  in Flux. In kustomize itself the first build of a process decides for all: if it is one with a schema,
#                that takes the place of all others, and a patch of a Deployment replaces the list of its containers,
#                without an error, in folders without a schema as well; if not, schemas change nothing for built-in
#                kinds. Output seen, of two builds of a process each:
#                  kustomize: plain, schema   app:2 proxy:1   app:2 proxy:1
#                  kustomize: schema, plain   app:2           app:2
#                  Flux: plain, schema        app:2 proxy:1   app:2 proxy:1
#                  Flux: schema, plain        app:2 proxy:1   app:2 proxy:1
# For users:     with kubectl, a schema for a kind of one's own takes containers out of the pods of Deployments in its
#                folder; a program in Go that builds many folders does so to others. Keep what needs a schema in a folder
#                without built-in kinds, and start a process for each build.
# Espalier:      says so beside its own schema: docs/gitops.md, examples/kustomize.
#
# Needs Go; the first build of both takes about a minute.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E2'
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/fluxcd/pkg/kustomize"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {template: {spec: {containers: [{name: app, image: "app:1"}, {name: proxy, image: "proxy:1"}]}}}
`

const plain = `
resources: [deployment.yaml]
patches:
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: a}
    spec: {template: {spec: {containers: [{name: app, image: "app:2"}]}}}
`

const schema = `{"definitions": {"org.example.v1.Fleet": {"type": "object",
  "x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "Fleet"}]}}}`

func main() {
	for _, kind := range os.Args[2:] {
		folder, err := os.MkdirTemp(".", "folder-")
		must(err)
		folder, err = filepath.Abs(folder)
		must(err)
		text := plain
		if kind == "schema" {
			text += "openapi: {path: schema.json}\n"
		}
		for name, content := range map[string]string{
			"deployment.yaml": deployment, "kustomization.yaml": text, "schema.json": schema,
		} {
			must(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
		}
		var resources resmap.ResMap
		if os.Args[1] == "Flux" {
			resources, err = kustomize.Build(filesys.MakeFsOnDisk(), folder)
		} else {
			resources, err = krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
		}
		must(err)
		containers, err := resources.Resources()[0].GetFieldValue("spec.template.spec.containers")
		must(err)
		shown := ""
		for _, container := range containers.([]any) {
			shown += fmt.Sprintf(" %v", container.(map[string]any)["image"])
		}
		fmt.Printf("  %-14s", shown)
	}
	fmt.Println()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
E2
go mod init finding 2>/dev/null
go get sigs.k8s.io/kustomize/api/krusty@v0.21.1 github.com/fluxcd/pkg/kustomize@v1.35.7 2>/dev/null
go build -o builds .
output=$(for builder in kustomize Flux; do
    for kinds in "plain schema" "schema plain"; do
        printf '%-25s' "$builder: ${kinds/ /, }"
        ./builds "$builder" $kinds | sed 's/ *$//'
    done
done)
echo "$output"
expected='kustomize: plain, schema    app:2 proxy:1   app:2 proxy:1
kustomize: schema, plain    app:2           app:2
Flux: plain, schema         app:2 proxy:1   app:2 proxy:1
Flux: schema, plain         app:2 proxy:1   app:2 proxy:1'
if [ "$output" != "$expected" ]; then
    echo "schemas are taken otherwise now"
    exit 1
fi
