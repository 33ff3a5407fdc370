"""The use of a workload cluster by people, and how they see that it works."""

from __future__ import annotations

import asyncio
import copy

import yaml

from tests.support.environments.node_versions import OLD
from tests.support.environments.real_environment import Tree
from tests.support.servers.kubectl import Kubectl

PROBE = "espalier.local/probe:1"
NODE_PORT = 30080
URL = "http://web.default.svc.cluster.local"
WEB: Tree = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                    }
                ],
                "containers": [
                    {
                        "name": "web",
                        "image": PROBE,
                        "args": ["serve", ":8080"],
                        "ports": [{"containerPort": 8080}],
                        # It goes on until everybody knows that it goes.
                        "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
                        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
                    }
                ],
            },
        },
    },
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {
        "type": "NodePort",
        "selector": {"app": "web"},
        "ports": [{"port": 80, "targetPort": 8080, "nodePort": NODE_PORT}],
    },
}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}


async def has_nodes(workload: Kubectl, *, control_planes: int, workers: int, version: str = OLD) -> None:
    """Every node is ready, of that version, and runs containerd."""
    await workload("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
    nodes = (await workload.tree("nodes"))["items"]
    roles = [("node-role.kubernetes.io/control-plane" in node["metadata"]["labels"]) for node in nodes]
    assert (roles.count(True), roles.count(False)) == (control_planes, workers)
    for node in nodes:
        info = node["status"]["nodeInfo"]
        assert info["kubeletVersion"] == version
        assert info["containerRuntimeVersion"].startswith("containerd://2.")
        assert node["spec"]["providerID"] == f"docker:////{node['metadata']['name']}"


async def carries_pods(workload: Kubectl) -> None:
    """The pods of the system are ready on every node that there is."""
    # Of the sets, not of pods: one on a node that is gone already would be waited for in vain.
    for name in ("deployment/coredns", "daemonset/kube-proxy", "daemonset/kindnet"):
        await workload("rollout", "status", name, "-n", "kube-system", "--timeout=180s")


async def serves(workload: Kubectl) -> None:
    """Two pods of the Service are ready, wherever they are: on one node if there is only one."""
    anywhere = copy.deepcopy(WEB)
    del anywhere["spec"]["template"]["spec"]["topologySpreadConstraints"]
    await apply(workload, anywhere, SERVICE, BUDGET)
    await workload("rollout", "status", "deployment/web", "--timeout=180s")


async def answers_by_name_across_nodes(workload: Kubectl) -> None:
    """Two pods on two nodes answer through their Service from a third pod."""
    await apply(workload, WEB, SERVICE, BUDGET)
    await workload("rollout", "status", "deployment/web", "--timeout=180s")
    pods = (await workload.tree("pods", "-l", "app=web"))["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    # Not attached: who comes late to a pod that ends at once misses what it said. Asked again where a round fails:
    # kube-proxy of its node may learn of the endpoints a second after the Deployment is ready.
    await workload("run", "asker", f"--image={PROBE}", "--restart=OnFailure", "--", "get", URL, "20", "10ms")
    code, _, complaint = await workload.finish(
        "wait", "pod/asker", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=180s"
    )
    asked = await workload("logs", "asker")
    assert code == 0, f"{complaint}{asked}"
    await workload("delete", "pod", "asker")
    answered = {line.strip() for line in asked.splitlines() if line.startswith("web-")}
    assert answered == {pod["metadata"]["name"] for pod in pods}, asked


async def can_be_looked_into(workload: Kubectl) -> None:
    """`kubectl logs`, `exec` and `port-forward` reach pods on every node."""
    pods = (await workload.tree("pods", "-l", "app=web"))["items"]
    for pod in pods:
        name = pod["metadata"]["name"]
        assert await workload("exec", name, "--", "/probe", "get", "http://localhost:8080") == f"{name}\n"
        await workload("logs", name)
        async with workload.running("port-forward", f"pod/{name}", ":8080") as process:
            assert process.stdout is not None
            line = (await process.stdout.readline()).decode()
            port = int(line.split("127.0.0.1:")[1].split()[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            assert name in (await reader.read()).decode()
            writer.close()


async def apply(kubectl: Kubectl, *objects: Tree) -> None:
    await kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))


async def etcd_members(workload: Kubectl) -> int:
    """How many etcd pods are ready."""
    pods = (await workload.tree("pods", "-n", "kube-system", "-l", "component=etcd"))["items"]
    return sum(
        condition["status"] == "True"
        for pod in pods
        for condition in pod["status"]["conditions"]
        if condition["type"] == "Ready"
    )
