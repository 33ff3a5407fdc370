#!/usr/bin/env bash
# Library:       kubernetes 37.0.2 (the official Python client).
# Guess:         a list of operations as the body of a patch is sent as a JSON patch, for objects of a CRD as well.
# What happens:  only the methods of built-in kinds choose the content type by the body. CustomObjectsApi sends each
#                body as a merge patch, where a list means that the whole document becomes that list (RFC 7396).
#                Output seen:
#                  ConfigMap:     application/json-patch+json   [{"op": "add", "path": "/data", "value": {}}]
#                  custom object: application/merge-patch+json  [{"op": "add", "path": "/data", "value": {}}]
# For users:     code that tests a value and replaces it in one patch (`op: test`) works for a Deployment and fails for
#                a Cluster. Pass `_content_type="application/json-patch+json"`.
# Espalier:      names the type at each patch of its own client, src/espalier/kube/client.py (`PatchType`).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2
env -u HTTP_PROXY -u http_proxy "$work/venv/bin/python" - <<'E'
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from kubernetes import client

ANSWER = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "example"}}'
requests = []


class Handler(BaseHTTPRequestHandler):
    """Records what arrives; the answer does not matter."""

    def do_PATCH(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        requests.append((self.headers["Content-Type"], body))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
Thread(target=server.serve_forever, daemon=True).start()
configuration = client.Configuration()
configuration.host = f"http://127.0.0.1:{server.server_port}"
api = client.ApiClient(configuration)
patch = [{"op": "add", "path": "/data", "value": {}}]
place = ("example.com", "v1", "default", "examples", "example")

client.CoreV1Api(api).patch_namespaced_config_map("example", "default", patch)
client.CustomObjectsApi(api).patch_namespaced_custom_object(*place, patch)
client.CustomObjectsApi(api).patch_namespaced_custom_object(
    *place, patch, _content_type="application/json-patch+json"
)
for name, (type_, body) in zip(("ConfigMap:", "custom object:", "... with type:"), requests, strict=True):
    print(f"{name:14} {type_:29} {body}")
types = [type_.removeprefix("application/") for type_, _ in requests]
if types != ["json-patch+json", "merge-patch+json", "json-patch+json"]:
    sys.exit("the content types of patches have changed")
E
