#!/usr/bin/env bash
# Libraries:     gopkg.in/evanphx/json-patch.v4 4.13.0 (what kube-apiserver applies JSON patches with), and kubernetes
#                37.0.2 and lightkube 1.0.1 (clients in Python).
# Guess:         a `test` of the value that was just read passes (RFC 6902: strings are equal if their characters are,
#                numbers if their values are).
# What happens:  texts and numbers are compared as bytes of JSON. kube-apiserver's own text of the object has é as it is,
#                and < > & as \u003c \u003e \u0026; Python's json escapes the first and not the second.
#                Output seen:
#                  kubernetes  value plain    passes
#                  kubernetes  value café     fails
#                  kubernetes  value a<b      fails
#                  kubernetes  value 1        passes
#                  kubernetes  value 1.0      fails
#                  lightkube   value plain    passes
#                  lightkube   value café     passes
#                  lightkube   value a<b      fails
#                  lightkube   value 1        passes
#                  lightkube   value 1.0      fails
# For users:     a patch that is guarded by a test never applies where the value has such a character: a description, a
#                URL with & in it, a selector with <. The answer is 422 and doesn't say why. Guard with resourceVersion.
# Espalier:      its embedded API server compares as kube-apiserver does (src/espalier/apiserver/fields/json_patch.py,
#                tests/contracts/test_json_patches.py); its own patches test names alone, which are ASCII.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2 lightkube==1.0.1
cd "$work"
cat > main.go <<'E'
package main

import (
	"encoding/json"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

func main() {
	var value any
	if json.Unmarshal([]byte(os.Args[1]), &value) != nil {
		panic(os.Args[1])
	}
	object, _ := json.Marshal(map[string]any{"value": value})
	patch, err := jsonpatch.DecodePatch([]byte(os.Args[2]))
	if err != nil {
		panic(err)
	}
	if _, err = patch.Apply(object); err != nil {
		os.Stdout.WriteString("fails")
	} else {
		os.Stdout.WriteString("passes")
	}
}
E
cat > clients.py <<'E'
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import kubernetes
import lightkube
from lightkube.resources.core_v1 import ConfigMap
from lightkube.types import PatchType

bodies = []


class Handler(BaseHTTPRequestHandler):
    def do_PATCH(self):
        bodies.append(self.rfile.read(int(self.headers["content-length"])).decode())
        answer = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
core = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(kubernetes.client.Configuration(host=url)))
config = {
    "clusters": [{"name": "a", "cluster": {"server": url}}],
    "users": [{"name": "a", "user": {}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "current-context": "a",
}
light = lightkube.Client(lightkube.KubeConfig.from_dict(config).get())
clients = {
    "kubernetes": lambda patch: core.patch_namespaced_config_map("a", "b", patch),
    "lightkube": lambda patch: light.patch(ConfigMap, "a", patch, namespace="b", patch_type=PatchType.JSON),
}
expected = {
    "kubernetes": ["passes", "fails", "fails", "passes", "fails"],
    "lightkube": ["passes", "passes", "fails", "passes", "fails"],
}
for client, send in clients.items():
    results = []
    for value in ("plain", "café", "a<b", 1, 1.0):
        send([{"op": "test", "path": "/value", "value": value}])
        results.append(subprocess.check_output(["./applies", json.dumps(value), bodies[-1]], text=True))
        print(f"{client:11} value {value!s:8} {results[-1]}")
    if results != expected[client]:
        sys.exit(f"a test in a patch of {client} has another outcome now")
E
go mod init finding 2>/dev/null
go get gopkg.in/evanphx/json-patch.v4@v4.13.0 2>/dev/null
go mod tidy 2>/dev/null
go build -o applies .
NO_PROXY=127.0.0.1 no_proxy=127.0.0.1 venv/bin/python clients.py
