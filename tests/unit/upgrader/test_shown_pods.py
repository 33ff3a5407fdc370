"""Static pods of a simulated node as kubectl shows them after an upgrade in place, and after their creation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.simulator.hosts.static_pods import COMPONENTS
from espalier.simulator.workload_controllers.planners.kubelet import running_status
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Node, Pod
from tests.support.environments.simulated_node import NAME, NEW, STEPS, Simulated, simulated
from tests.support.objects.shown_pods import ready_column, shape

PODS = "/api/v1/namespaces/kube-system/pods"
FAULTY = "the pod that mounts this fails"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Simulated]:
    with simulated(tmp_path) as made:
        addresses = [{"type": "InternalIP", "address": "10.0.0.7"}]
        made.cluster.ask("PATCH", f"/api/v1/nodes/{NAME}/status", {"status": {"addresses": addresses}})
        yield made


def created(node: Simulated, pod: Any) -> Any:
    """The status that the simulated kubelet gives a pod when it is created."""
    status, result = node.cluster.ask("GET", f"/api/v1/nodes/{NAME}")
    assert status == 200
    seen = msgspec.json.decode(msgspec.json.encode(result), type=Node)
    snapshot = cast(Snapshot, SimpleNamespace(timestamp="2026-01-01T00:00:00Z"))
    return running_status(snapshot, msgspec.json.decode(msgspec.json.encode(pod), type=Pod), seen, seen.internal_ip)


def test_upgraded_static_pods_are_shown_as_created(node: Simulated) -> None:
    for step in STEPS:
        node.step(step)
    for component in COMPONENTS:
        _, pod = node.cluster.ask("GET", f"{PODS}/{component}-{NAME}")
        assert shape(pod["status"]) == shape(created(node, pod))
        assert ready_column(pod) == "1/1"
        assert pod["status"]["containerStatuses"][0]["image"] == pod["spec"]["containers"][0]["image"]
    _, server = node.cluster.ask("GET", f"{PODS}/kube-apiserver-{NAME}")
    assert server["status"]["containerStatuses"][0]["image"].endswith(NEW)


def test_broken_static_pod_is_shown_as_not_ready(node: Simulated) -> None:
    policy = node.root / "etc/kubernetes/audit-policy.yaml"
    policy.write_text(FAULTY)
    node.fail(file=FAULTY)
    manifest = node.root / "etc/kubernetes/manifests/kube-apiserver.yaml"
    manifest.write_text(manifest.read_text() + "# touched\n")
    assert node.host.run(["systemctl", "restart", "kubelet"])[0] == 0
    _, pod = node.cluster.ask("GET", f"{PODS}/kube-apiserver-{NAME}")
    assert ready_column(pod) == "0/1"
    assert pod["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
