#!/usr/bin/env bash
# Library:       k8s.io/apimachinery 0.36.3: `resource.Quantity`, the type of amounts in the kinds of Kubernetes and
#                Gardener, and `unstructured`, which objects of a CRD are kept in.
# Guess:         what is read from an API is the text that was written, or at least a text in the same unit.
# What happens:  a Quantity is written anew: with the largest unit that leaves no fraction and, where none does, as
#                thousandths, of bytes as well. An exponent stays, and less than a billionth is rounded up. A field of a
#                CRD stays as it was. Output seen:
#                  written  Quantity       CRD
#                  1024Mi   1Gi            1024Mi
#                  1.5Gi    1536Mi         1.5Gi
#                  0.1Gi    107374182400m  0.1Gi
#                  0.5      500m           0.5
#                  100000k  100M           100000k
#                  1e3      1e3            1e3
#                  0.5n     1n             0.5n
# For users:     a controller that compares texts writes for ever, though its tests with a CRD show nothing, and a client
#                that knows bytes with Ki, Mi and Gi alone can't read a memory request of 107374182400m. Compare amounts.
# Espalier:      compares amounts: `amount` in src/espalier/api/text/quantities.py.
#
# Needs Go; the first build of apimachinery takes about half a minute.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E'
package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type sized struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Size       resource.Quantity `json:"size"`
}

func main() {
	for _, text := range []string{"1024Mi", "1.5Gi", "0.1Gi", "0.5", "100000k", "1e3", "0.5n"} {
		object := []byte(`{"apiVersion": "example.com/v1", "kind": "Thing", "size": "` + text + `"}`)
		fmt.Printf("%-8s %-14s %s\n", text, again(object, &sized{}), again(object, &unstructured.Unstructured{}))
	}
}

// The size after an object was read into a type and written.
func again(object []byte, typed any) string {
	var read struct {
		Size string `json:"size"`
	}
	err := json.Unmarshal(object, typed)
	if err == nil {
		object, err = json.Marshal(typed)
	}
	if err == nil {
		err = json.Unmarshal(object, &read)
	}
	if err != nil {
		panic(err)
	}
	return read.Size
}
E
go mod init finding 2>/dev/null
go get k8s.io/apimachinery/pkg/api/resource@v0.36.3 k8s.io/apimachinery/pkg/apis/meta/v1/unstructured@v0.36.3 2>/dev/null
output=$(go run .)
printf '%-8s %-14s %s\n' written Quantity CRD
echo "$output"
expected="1024Mi   1Gi            1024Mi
1.5Gi    1536Mi         1.5Gi
0.1Gi    107374182400m  0.1Gi
0.5      500m           0.5
100000k  100M           100000k
1e3      1e3            1e3
0.5n     1n             0.5n"
if [ "$output" != "$expected" ]; then
    echo "quantities are rewritten otherwise now"
    exit 1
fi
