#!/usr/bin/env bash
# Libraries:     kubernetes 37.0.2, lightkube 1.0.1, kubernetes-asyncio 36.1.0 and kr8s 0.20.15 (clients in Python),
#                aiohttp 3.14.5, obstore 0.12.1, and Go's net/http (kubectl, controllers, kubelet).
# Guess:         a range in NO_PROXY, such as that of the cluster's Services, holds for each of them.
# What happens:  some take it for a name that nothing matches, and ask the proxy. Output seen, of requests to
#                http://192.0.2.10:8080 with a proxy:
#                  NO_PROXY            192.0.2.10  192.0.2.0/24
#                  net/http            direct      direct
#                  kubernetes          direct      direct
#                  lightkube           direct      direct
#                  obstore             direct      direct
#                  kubernetes-asyncio  direct      proxy
#                  kr8s                direct      proxy
#                  aiohttp             direct      proxy
# For users:     EKS Anywhere's proxyConfiguration, and most clusters behind a proxy, exclude Pods and Services by their
#                ranges, and in a pod the API server is an address of these. A controller with one client goes on; one
#                with another asks the proxy for 10.96.0.1, and gets 403 or a timeout. Name that address as well.
# Espalier:      its clients of API servers, of registries and of GitHub's API read NO_PROXY as Go does:
#                src/espalier/kube/connection/proxies.py, tests/unit/kube/test_proxies.py.
#
# Needs Go (its standard library only). 192.0.2.0/24 is nobody's: a direct request is given up after a second.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2 lightkube==1.0.1 \
    kubernetes-asyncio==36.1.0 kr8s==0.20.15 aiohttp==3.14.5 obstore==0.12.1
cd "$work"
cat > main.go <<'E'
// Makes a request to the address that is its argument.
package main

import (
	"net/http"
	"os"
	"time"
)

func main() {
	client := http.Client{Timeout: time.Second}
	_, _ = client.Get(os.Args[1])
}
E
cat > ask.py <<'E'
import asyncio
import os
import subprocess
import threading
import warnings
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import aiohttp
import kr8s.asyncio
import kubernetes
import kubernetes_asyncio
import lightkube
import lightkube.config.kubeconfig
import lightkube.config.models
import obstore
from lightkube.resources.core_v1 import Node

warnings.simplefilter("ignore")
TARGET = "http://192.0.2.10:8080"


class Proxy(BaseHTTPRequestHandler):
    asked = False

    def do_GET(self):
        Proxy.asked = True
        self.send_error(403)

    do_CONNECT = do_GET

    def log_message(self, *arguments):
        pass


def net_http():
    subprocess.run(["./get", TARGET], check=True)


def of_kubernetes():
    configuration = kubernetes.client.Configuration(host=TARGET)
    kubernetes.client.VersionApi(kubernetes.client.ApiClient(configuration)).get_code(_request_timeout=1)


def of_lightkube():
    models = lightkube.config.models
    config = lightkube.config.kubeconfig.KubeConfig.from_one(
        cluster=models.Cluster(server=TARGET), user=models.User(token="t"), context_name="c"
    )
    lightkube.Client(config=config, timeout=1).get(Node, "a")


def of_obstore():
    store = obstore.store.S3Store(
        "bucket", endpoint=TARGET, region="r", access_key_id="a", secret_access_key="s",
        client_options={"allow_http": True, "timeout": "1s"}, retry_config={"max_retries": 0},
    )
    obstore.get(store, "key")


async def of_kubernetes_asyncio():
    configuration = kubernetes_asyncio.client.Configuration(host=TARGET)
    async with kubernetes_asyncio.client.ApiClient(configuration) as client:
        await kubernetes_asyncio.client.VersionApi(client).get_code(_request_timeout=1)


async def of_kr8s():
    async with asyncio.timeout(2):
        await kr8s.asyncio.api(url=TARGET, kubeconfig="/nowhere", serviceaccount="/nowhere")


async def of_aiohttp():
    async with aiohttp.ClientSession(trust_env=True, timeout=aiohttp.ClientTimeout(1)) as session:
        await session.get(TARGET)


def way(request, no_proxy):
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = no_proxy
    Proxy.asked = False
    with suppress(Exception):
        asyncio.run(request()) if asyncio.iscoroutinefunction(request) else request()
    return "proxy" if Proxy.asked else "direct"


server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["HTTP_PROXY"] = os.environ["http_proxy"] = f"http://127.0.0.1:{server.server_port}"
print("NO_PROXY            192.0.2.10  192.0.2.0/24")
requests = (net_http, of_kubernetes, of_lightkube, of_obstore, of_kubernetes_asyncio, of_kr8s, of_aiohttp)
names = ("net/http", "kubernetes", "lightkube", "obstore", "kubernetes-asyncio", "kr8s", "aiohttp")
for name, request in zip(names, requests):
    if way(request, "") != "proxy":
        raise SystemExit(f"{name} doesn't ask the proxy that the environment names")
    print(f"{name:19} {way(request, '192.0.2.10'):11} {way(request, '192.0.2.0/24')}")
E
go mod init finding 2>/dev/null
go build -o get .
output=$(env -u HTTPS_PROXY -u https_proxy -u ALL_PROXY -u all_proxy venv/bin/python ask.py)
echo "$output"
expected="NO_PROXY            192.0.2.10  192.0.2.0/24
net/http            direct      direct
kubernetes          direct      direct
lightkube           direct      direct
obstore             direct      direct
kubernetes-asyncio  direct      proxy
kr8s                direct      proxy
aiohttp             direct      proxy"
if [ "$output" != "$expected" ]; then
    echo "NO_PROXY is read otherwise now"
    exit 1
fi
