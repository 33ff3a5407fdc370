#!/usr/bin/env bash
# Libraries:     kubernetes 37.0.2, kubernetes-asyncio 36.1.0, kr8s 0.20.15 and lightkube 1.0.1 (clients in Python), and
#                k8s.io/client-go 0.36.3, tools/clientcmd (what kubectl reads kubeconfigs with).
# Guess:         with two files in KUBECONFIG each talks to the same cluster: kubectl's documentation says that the first
#                file that sets a value wins.
# What happens:  two take the current context of the last file, a third takes the last of two contexts of one name, and
#                the fourth takes the list for the name of one file. Output seen, with KUBECONFIG=east.yaml:west.yaml,
#                each with a context of its own and one that is named `admin`:
#                                      current context           context admin
#                  client-go           https://east.example.com  https://east.example.com
#                  kubernetes          https://west.example.com  https://east.example.com
#                  kubernetes-asyncio  https://west.example.com  https://east.example.com
#                  kr8s                https://east.example.com  https://west.example.com
#                  lightkube           ConfigError               ConfigError
# For users:     `kubectl get` shows one cluster, and a script that is started in the same shell changes another; two
#                clusters of kubeadm have contexts of one name. Write one file before (`kubectl config view --flatten`),
#                and give contexts of several clusters names of their own.
# Espalier:      merges as kubectl does: `Kubeconfig.load` in src/espalier/kube/connection/kubeconfig.py,
#                tests/unit/kube/test_kubeconfig.py.
#
# Needs Go; the first build takes about half a minute. Nothing is sent.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
    kubernetes==37.0.2 kubernetes-asyncio==36.1.0 kr8s==0.20.15 lightkube==1.0.1
cd "$work"
for name in east west; do
    cat > "$name.yaml" <<E
apiVersion: v1
kind: Config
current-context: $name
clusters:
- name: $name
  cluster: {server: "https://$name.example.com"}
users:
- name: $name
  user: {token: of-$name}
contexts:
- name: $name
  context: {cluster: $name, user: $name}
- name: admin
  context: {cluster: $name, user: $name}
E
done
cat > main.go <<'E'
package main

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		panic(err)
	}
	servers := []string{}
	for _, name := range []string{config.CurrentContext, "admin"} {
		servers = append(servers, config.Clusters[config.Contexts[name].Cluster].Server)
	}
	fmt.Printf("%-19s %-25s %s\n", "client-go", servers[0], servers[1])
}
E
cat > clients.py <<'E'
import asyncio
import os

import kubernetes
import kubernetes_asyncio
import lightkube
from kr8s._auth import KubeAuth


async def of_kubernetes(context):
    kubernetes.config.load_kube_config(context=context)
    return kubernetes.client.Configuration.get_default_copy().host


async def of_kubernetes_asyncio(context):
    await kubernetes_asyncio.config.load_kube_config(context=context)
    return kubernetes_asyncio.client.Configuration.get_default_copy().host


async def of_kr8s(context):
    return (await KubeAuth(kubeconfig=os.environ["KUBECONFIG"], context=context)).server


async def of_lightkube(context):
    try:
        return lightkube.KubeConfig.from_env().get(context).cluster.server
    except lightkube.ConfigError:
        return "ConfigError"


for name, server_of in {
    "kubernetes": of_kubernetes,
    "kubernetes-asyncio": of_kubernetes_asyncio,
    "kr8s": of_kr8s,
    "lightkube": of_lightkube,
}.items():
    current, named = (asyncio.run(server_of(context)) for context in (None, "admin"))
    print(f"{name:19} {current:25} {named}")
E
go mod init finding 2>/dev/null
go get k8s.io/client-go/tools/clientcmd@v0.36.3 2>/dev/null
go build -o client-go .
export KUBECONFIG=east.yaml:west.yaml
output=$(./client-go && venv/bin/python clients.py)
printf '%-19s %-25s %s\n' '' 'current context' 'context admin'
echo "$output"
expected="client-go           https://east.example.com  https://east.example.com
kubernetes          https://west.example.com  https://east.example.com
kubernetes-asyncio  https://west.example.com  https://east.example.com
kr8s                https://east.example.com  https://west.example.com
lightkube           ConfigError               ConfigError"
if [ "$output" != "$expected" ]; then
    echo "several kubeconfigs are merged otherwise now"
    exit 1
fi
