#!/usr/bin/env bash
# Libraries:     k8s.io/apimachinery 0.36.3, pkg/util/yaml (what `kubectl apply -f` reads files with), and
#                sigs.k8s.io/kustomize/api 0.21.1 (what `kubectl apply -k` and Flux read them with).
# Guess:         a file of several objects is the same objects to both, or an error.
# What happens:  JSON objects one after the other are all read by the first, and only the first of them by kustomize;
#                after the end mark of YAML (`...`) neither reads on if there is no `---`. No error. Output seen:
#                  file                  kubectl  kustomize
#                  YAML, parted by ---   a b      a b
#                  JSON, parted by ---   a b      a b
#                  JSON, line by line    a b      a
#                  YAML, parted by ...   a        a
# For users:     output of `jq -c '.items[]'` or jsonnet's stream is applied in full with -f. With a kustomization beside
#                it, or in a repository of Flux, all but one object are missing, and pruning deletes those that were there
#                from before. Write a List, or --- between objects.
# Espalier:      refuses such files and names the line: src/espalier/api/trees/yaml_trees.py.
#
# Needs Go; the first build takes about a minute.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E'
package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	written := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
	json := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s"}}` + "\n"
	for _, file := range []struct{ name, object, between string }{
		{"YAML, parted by ---", written, "---\n"},
		{"JSON, parted by ---", json, "---\n"},
		{"JSON, line by line", json, ""},
		{"YAML, parted by ...", written, "...\n"},
	} {
		text := fmt.Sprintf(file.object+file.between+file.object, "a", "b")
		fmt.Printf("%-21s %-8s %s\n", file.name, kubectl(text), kustomize(text))
	}
}

func kubectl(text string) string {
	names := []string{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return strings.Join(names, " ")
		} else if err != nil {
			return "error"
		}
		names = append(names, object.GetName())
	}
}

func kustomize(text string) string {
	files := filesys.MakeFsInMemory()
	for name, content := range map[string]string{"/kustomization.yaml": "resources: [things.yaml]\n", "/things.yaml": text} {
		if err := files.WriteFile(name, []byte(content)); err != nil {
			panic(err)
		}
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/")
	if err != nil {
		return "error"
	}
	names := []string{}
	for _, resource := range resources.Resources() {
		names = append(names, resource.GetName())
	}
	return strings.Join(names, " ")
}
E
go mod init finding 2>/dev/null
go get k8s.io/apimachinery/pkg/util/yaml@v0.36.3 k8s.io/apimachinery/pkg/apis/meta/v1/unstructured@v0.36.3 \
    sigs.k8s.io/kustomize/api/krusty@v0.21.1 2>/dev/null
output=$(go run .)
printf '%-21s %-8s %s\n' file kubectl kustomize
echo "$output"
expected='YAML, parted by ---   a b      a b
JSON, parted by ---   a b      a b
JSON, line by line    a b      a
YAML, parted by ...   a        a'
if [ "$output" != "$expected" ]; then
    echo "objects of a file are read otherwise now"
    exit 1
fi
