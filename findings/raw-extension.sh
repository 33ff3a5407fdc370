#!/usr/bin/env bash
# Library:       k8s.io/apimachinery 0.36.1, pkg/runtime (`RawExtension`), as API servers written in Go have it in their
#                types: gardener-apiserver for the states of a ShootState.
# Guess:         a RawExtension is kept byte for byte: whoever reads it gets what was written, so a digest of the text
#                tells whether it has changed.
# What happens:  the numbers stay as they were written, but spaces go, and <, > and & become escapes. Output seen:
#                  written {"state":{"a": 1.10, "b": "<&>"}}
#                  read    {"state":{"a":1.10,"b":"\u003c\u0026\u003e"}}
# For users:     a controller that compares texts, or digests of them, writes again and again: what it reads is never
#                what it wrote. Compare values.
# Espalier:      compares values: src/espalier/shoots/state/digests.py (`of_value`). Texts are compared only where a
#                state is in Secrets, which have it as base64 (`of_text`).
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E'
package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

type state struct {
	State *runtime.RawExtension `json:"state,omitempty"`
}

func main() {
	written := `{"a": 1.10, "b": "<&>"}`
	var read state
	if err := json.Unmarshal([]byte(`{"state": `+written+`}`), &read); err != nil {
		panic(err)
	}
	text, err := json.Marshal(read)
	if err != nil {
		panic(err)
	}
	fmt.Printf("written {\"state\":%s}\nread    %s\n", written, text)
}
E
go mod init finding 2>/dev/null
go get k8s.io/apimachinery/pkg/runtime@v0.36.1 2>/dev/null
output=$(go run .)
printf '%s\n' "$output"
expected='written {"state":{"a": 1.10, "b": "<&>"}}
read    {"state":{"a":1.10,"b":"\u003c\u0026\u003e"}}'
if [ "$output" != "$expected" ]; then
    echo "a RawExtension is kept otherwise now"
    exit 1
fi
