"""The manifest of the example becomes a real cluster: created, used, scaled, upgraded, deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from tests.journeys import kubectl_story as story
from tests.support.footprint import Footprint, footprint
from tests.support.kubectl import Kubectl
from tests.support.real_world import RealLaptop, Tree, conditions, real_laptop, why_not

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(why_not("1.35.4")), reason=why_not("1.35.4"))]

PROBE = "espalier.local/probe:1"
WORKER = {"matchExpressions": [{"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}]}
WEB = {
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
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
}


@pytest.fixture
def before(tmp_path: Path) -> Footprint:
    return footprint(tmp_path / "home")


async def test_the_example_becomes_a_real_cluster_that_works_and_goes(tmp_path: Path, before: Footprint) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with real_laptop(home) as laptop:
        await laptop.management("apply", "-f", str(story.EXAMPLE))
        await laptop.ready("garden")
        workload = await laptop.workload("garden")
        await has_nodes(workload, control_planes=1, workers=2)
        await carries_pods(workload)
        await answers_by_name_across_nodes(workload)
        await can_be_looked_into(workload)
        await laptop.management("delete", "-f", str(story.EXAMPLE), "--wait")
        assert await laptop.nodes() == []
    home.rmdir()
    home.mkdir()
    assert footprint(home) == before


async def has_nodes(workload: Kubectl, *, control_planes: int, workers: int, version: str = "v1.35.4") -> None:
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
    """The pods of the system are ready, those of CoreDNS and kube-proxy among them."""
    for app in ("k8s-app=kube-dns", "k8s-app=kube-proxy", "k8s-app=kindnet"):
        await workload("wait", "-n", "kube-system", "--for=condition=Ready", "pods", "-l", app, "--timeout=180s")


async def answers_by_name_across_nodes(workload: Kubectl) -> None:
    """Two pods on two nodes answer through their Service from a third pod."""
    await apply(workload, WEB, SERVICE)
    await workload("rollout", "status", "deployment/web", "--timeout=180s")
    pods = (await workload.tree("pods", "-l", "app=web"))["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    asked = await workload(
        *("run", "asker", f"--image={PROBE}", "--restart=Never", "--attach", "--rm", "--quiet", "--"),
        *("get", "http://web.default.svc.cluster.local", "20", "10ms"),
    )
    assert {line.strip() for line in asked.splitlines() if line.startswith("web-")} == {
        pod["metadata"]["name"] for pod in pods
    }


async def can_be_looked_into(workload: Kubectl) -> None:
    """`kubectl logs`, `exec` and `port-forward` reach pods on every node."""
    pods = (await workload.tree("pods", "-l", "app=web"))["items"]
    for pod in pods:
        name = pod["metadata"]["name"]
        assert await workload("exec", name, "--", "/probe", "get", "http://localhost:8080") == f"{name}\n"
        await workload("logs", name)
        async with workload.running("port-forward", f"pod/{name}", ":8080") as process:
            assert process.stdout is not None
            said = (await process.stdout.readline()).decode()
            port = int(said.split("127.0.0.1:")[1].split()[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            assert name in (await reader.read()).decode()
            writer.close()


async def apply(kubectl: Kubectl, *objects: Tree) -> None:
    await kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))


__all__ = ["RealLaptop", "conditions"]
