#!/usr/bin/env bash
# Libraries:     kubernetes 37.0.2, lightkube 1.0.1 and kr8s 0.20.15 (Kubernetes clients in Python).
# Guess:         each takes the same token of a user of a kubeconfig, also where `token` and `tokenFile` are given.
# What happens:  with both, lightkube sends the file's token, kubernetes and kr8s send that of `token`. With a file alone,
#                kr8s sends none. Output seen:
#                              token and tokenFile  tokenFile alone
#                  kubernetes  inline               file
#                  lightkube   file                 file
#                  kr8s        inline               none
# For users:     a kubeconfig whose `token` was a first, short-lived one works with one program for ever and with
#                another until that expires. One with a file alone makes kr8s anonymous: the answer is 403 for
#                system:anonymous, or an empty result where anonymous requests are allowed.
# Espalier:      the file wins, and is read again each minute: src/espalier/kube/connection/access.py, credentials.py.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2 lightkube==1.0.1 kr8s==0.20.15
cd "$work"
cat > clients.py <<'E'
import asyncio
import json
import os
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer

import kr8s
import kubernetes
import lightkube
from lightkube.resources.core_v1 import Namespace

warnings.simplefilter("ignore")
tokens = []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        tokens.append(self.headers.get("authorization", "none").removeprefix("Bearer "))
        head = {"kind": "NamespaceList", "apiVersion": "v1", "metadata": {}, "items": []}
        answer = json.dumps({**head, "major": "1", "minor": "35", "gitVersion": "v1.35.0"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


def with_kubernetes(file):
    kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(file)).list_namespace()


def with_lightkube(file):
    list(lightkube.Client(lightkube.KubeConfig.from_file(file).get()).list(Namespace))


async def with_kr8s(file):
    await (await kr8s.asyncio.api(kubeconfig=file)).version()


def written(name, user):
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    with open(name, "w") as file:
        json.dump(config, file)
    return name


with open("token", "w") as file:
    file.write("file")
path = os.path.abspath("token")
files = [written("both", {"token": "inline", "tokenFile": path}), written("alone", {"tokenFile": path})]
clients = {
    "kubernetes": with_kubernetes,
    "lightkube": with_lightkube,
    "kr8s": lambda file: asyncio.run(with_kr8s(file)),
}
results = {}
for client, ask in clients.items():
    for file in files:
        ask(file)
        results.setdefault(client, []).append(tokens[-1])
    print(f"{client:11} {results[client][0]:20} {results[client][1]}")
if results != {
    "kubernetes": ["inline", "file"],
    "lightkube": ["file", "file"],
    "kr8s": ["inline", "none"],
}:
    sys.exit("a client takes another token now")
E
NO_PROXY=127.0.0.1 no_proxy=127.0.0.1 venv/bin/python clients.py
