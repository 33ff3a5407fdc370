#!/usr/bin/env bash
# Library:       github.com/fluxcd/pkg/kustomize 1.35.7, with which Flux's kustomize-controller 1.9 replaces variables
#                (`postBuild.substitute` of a Kustomization).
# Guess:         quotes around a variable in a manifest make its value text, whatever it is.
# What happens:  the object is written as YAML again before variables are replaced, and "${version}" needs no quotes
#                there; what comes in is then read as YAML. Quotes must be in the value. Output seen, of field: "${value}":
#                  value      field
#                  1.36       1.36 (float64)
#                  1.30       1.3 (float64)
#                  no         false (bool)
#                  0123       83 (int)
#                  1234e56    1.234e+59 (float64)
#                  a #1       a (string)
#                  "1.30"     1.30 (string)
# For users:     a version, a short hash of a commit or a zone that is correct in Git and quoted is refused by the API
#                server as a number, or is another one in a field of any type; and each value must be looked at, since
#                1.36.3 works. In the list of variables write '"1.30"'.
# Espalier:      its webhook's message names this cause (src/espalier/api/manifests/schema.py), and so does docs/gitops.md.
#
# Needs Go; the first build takes two to three minutes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E'
package main

import (
	"context"
	"fmt"

	"github.com/fluxcd/pkg/kustomize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/provider"
)

const object = `apiVersion: example.com/v1
kind: Thing
metadata: {name: a}
field: "${value}"
`

func main() {
	for _, value := range []string{"1.36", "1.30", "no", "0123", "1234e56", "a #1", `"1.30"`} {
		resource, err := provider.NewDefaultDepProvider().GetResourceFactory().FromBytes([]byte(object))
		if err != nil {
			panic(err)
		}
		kustomization := unstructured.Unstructured{Object: map[string]any{}}
		err = unstructured.SetNestedStringMap(
			kustomization.Object, map[string]string{"value": value}, "spec", "postBuild", "substitute")
		if err != nil {
			panic(err)
		}
		// The dry run reads no ConfigMaps and Secrets; there are none here.
		result, err := kustomize.SubstituteVariables(
			context.Background(), nil, kustomization, resource, kustomize.SubstituteWithDryRun(true))
		if err != nil {
			panic(err)
		}
		tree, err := result.Map()
		if err != nil {
			panic(err)
		}
		fmt.Printf("%-10s %v (%T)\n", value, tree["field"], tree["field"])
	}
}
E
go mod init finding 2>/dev/null
go get github.com/fluxcd/pkg/kustomize@v1.35.7 sigs.k8s.io/kustomize/api/provider@v0.21.1 2>/dev/null
output=$(go run .)
printf '%-10s %s\n' value field
echo "$output"
expected='1.36       1.36 (float64)
1.30       1.3 (float64)
no         false (bool)
0123       83 (int)
1234e56    1.234e+59 (float64)
a #1       a (string)
"1.30"     1.30 (string)'
if [ "$output" != "$expected" ]; then
    echo "variables are replaced otherwise now"
    exit 1
fi
