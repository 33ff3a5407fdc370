#!/usr/bin/env bash
# Libraries:     gopkg.in/evanphx/json-patch.v4 4.13.0 (kube-apiserver's merge patches), its later release 5.9.11, and
#                json-merge-patch 0.3.0 (Python), which does what RFC 7396 says.
# Guess:         a merge patch replaces a list as a whole, so null inside of one is a value and removes nothing.
# What happens:  kube-apiserver's library leaves out fields that are null of objects in a list, and keeps items that are
#                null. Output seen, of a patch of {"hosts": [1]}:
#                  patch             {"hosts":[{"name":"a","vlan":null},null]}
#                  4.13.0            {"hosts":[{"name":"a"},null]}
#                  5.9.11            {"hosts":[{"name":"a"},null]}
#                  json-merge-patch  {"hosts":[{"name":"a","vlan":null},null]}
# For users:     a merge patch can't set a `nullable` field of a custom resource to null within a list, and a controller
#                that compares what it has sent with what is stored sends the same patch for ever.
# Espalier:      its embedded API server does as kube-apiserver does, and the patches that it makes have no such null:
#                src/espalier/apiserver/fields/patches.py (`merge`), src/espalier/kube/merge_patch.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check json-merge-patch==0.3.0
cd "$work"
old='{"hosts":[1]}'
patch='{"hosts":[{"name":"a","vlan":null},null]}'
cat > main.go <<'E'
package main

import (
	"fmt"
	"os"

	five "github.com/evanphx/json-patch/v5"
	four "gopkg.in/evanphx/json-patch.v4"
)

func main() {
	for _, merge := range []func(old, patch []byte) ([]byte, error){four.MergePatch, five.MergePatch} {
		merged, err := merge([]byte(os.Args[1]), []byte(os.Args[2]))
		if err != nil {
			panic(err)
		}
		fmt.Println(string(merged))
	}
}
E
cat > merge.py <<'E'
import json
import sys

import json_merge_patch

old, patch = map(json.loads, sys.argv[1:])
print(json.dumps(json_merge_patch.merge(old, patch), separators=(",", ":")))
E
go mod init finding 2>/dev/null
go get gopkg.in/evanphx/json-patch.v4@v4.13.0 github.com/evanphx/json-patch/v5@v5.9.11 2>/dev/null
mapfile -t merged < <(go run . "$old" "$patch")
python=$(venv/bin/python merge.py "$old" "$patch")
echo "patch             $patch"
echo "4.13.0            ${merged[0]}"
echo "5.9.11            ${merged[1]}"
echo "json-merge-patch  $python"
if [ "$python" != "$patch" ]; then
    echo "json-merge-patch doesn't do what RFC 7396 says"
    exit 1
fi
for result in "${merged[@]}"; do
    if [ "$result" != '{"hosts":[{"name":"a"},null]}' ]; then
        echo "null in lists of merge patches is treated otherwise now"
        exit 1
    fi
done
