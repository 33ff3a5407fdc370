#!/usr/bin/env bash
# Libraries:     gopkg.in/evanphx/json-patch.v4 4.13.0 (what kube-apiserver applies JSON patches with), jsonpatch 1.48
#                (Python), and github.com/evanphx/json-patch/v5 5.9.11 (what many webhooks are tested with).
# Guess:         `replace` of a field that isn't there is an error, and `copy` from one is, as RFC 6902 says.
# What happens:  with kube-apiserver's library the one adds the field, and the other adds null. Output seen:
#                  replace /spec/replicsa  kube-apiserver {"spec":{"replicas":1,"replicsa":5}}  v5 error  Python error
#                  copy from /spec/absent  kube-apiserver {"spec":{"replicas":null}}            v5 error  Python error
# For users:     a patch with a misspelt path, or one for a field that an older version doesn't have, is answered with
#                200; the API server prunes the field from objects of a CRD, so nothing has changed and nothing is said.
#                A test that applies patches with Python or v5 doesn't show it. Put a `test` of the field before.
# Espalier:      its embedded API server does as kube-apiserver (src/espalier/apiserver/fields/json_patch.py,
#                tests/contracts/test_json_patches.py).
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check jsonpatch==1.48
cd "$work"
cat > main.go <<'E'
package main

import (
	"fmt"

	v4 "gopkg.in/evanphx/json-patch.v4"
	v5 "github.com/evanphx/json-patch/v5"
)

func main() {
	object := []byte(`{"spec":{"replicas":1}}`)
	for _, text := range []string{
		`[{"op":"replace","path":"/spec/replicsa","value":5}]`,
		`[{"op":"copy","from":"/spec/absent","path":"/spec/replicas"}]`,
	} {
		patch4, _ := v4.DecodePatch([]byte(text))
		patch5, _ := v5.DecodePatch([]byte(text))
		result4, err4 := patch4.Apply(object)
		_, err5 := patch5.Apply(object)
		fmt.Println(string(result4), err4, err5 != nil)
	}
}
E
go mod init finding 2>/dev/null
go get gopkg.in/evanphx/json-patch.v4@v4.13.0 github.com/evanphx/json-patch/v5@v5.9.11 2>/dev/null
go mod tidy 2>/dev/null
kubernetes=$(go run .)
python=$(venv/bin/python - <<'E'
import jsonpatch

for operation in (
    {"op": "replace", "path": "/spec/replicsa", "value": 5},
    {"op": "copy", "from": "/spec/absent", "path": "/spec/replicas"},
):
    try:
        print(jsonpatch.apply_patch({"spec": {"replicas": 1}}, [operation]))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        print(type(error).__name__)
E
)
echo "Go (result, error of v4, v5 has an error):"
echo "$kubernetes"
echo "Python:"
echo "$python"
expected='{"spec":{"replicas":1,"replicsa":5}} <nil> true
{"spec":{"replicas":null}} <nil> true'
if [ "$kubernetes" != "$expected" ]; then
    echo "a field that isn't there is replaced or copied otherwise now"
    exit 1
fi
if [ "$python" != $'JsonPatchPathNotFound\nJsonPatchPathNotFound' ]; then
    echo "Python's jsonpatch has other errors now"
    exit 1
fi
