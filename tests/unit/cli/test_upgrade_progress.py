"""How far an in-place upgrade is: its nodes and their steps, the time so far, and an estimate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from rich.console import Console

from espalier.api.capi.machine import Machine
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import UPGRADE_SECONDS
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.cli.clusters.reports import waiting
from espalier.cli.kit.failures import Overdue
from espalier.cli.kit.printing.progress import Progress
from espalier.clusterapi.contract import CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL
from espalier.clusters.effects.upgrade_progress import UpgradeProgress, progress_of
from espalier.kube.client import Client
from espalier.kube.errors import error_of
from espalier.kube.objects import Object, to_bytes
from espalier.runtime.virtual import Simulation, run

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OLD, NEW = "v1.35.4-eks-1-35-1", "v1.36.3-eks-1-36-1"
MACHINE = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachine", "name": "a"}
IN_PLACE = {"upgradeRolloutStrategy": {"type": "InPlace"}}


def before(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def cluster_tree(*, workers: Tree = IN_PLACE) -> Tree:
    return {
        "apiVersion": Cluster.resource.api_version,
        "kind": "Cluster",
        "metadata": {"name": "garden", "namespace": "default", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": {
            "controlPlaneConfiguration": {"count": 3, **IN_PLACE},
            "workerNodeGroupConfigurations": [{"name": "md-0", "count": 2, **workers}],
            "datacenterRef": {"kind": "DockerDatacenterConfig", "name": "garden"},
            "kubernetesVersion": "1.36",
        },
    }


def machine_tree(name: str, version: str = OLD, *, seconds: str = "", kubelet: str = "") -> Tree:
    group = {DEPLOYMENT_NAME_LABEL: "garden-md-0"} if name.startswith("md") else {CONTROL_PLANE_LABEL: ""}
    return {
        "metadata": {"name": name, "labels": group, "annotations": {UPGRADE_SECONDS: seconds} if seconds else {}},
        "spec": {"clusterName": "garden", "version": version, "bootstrap": {}, "infrastructureRef": MACHINE},
        "status": {"nodeInfo": {"kubeletVersion": kubelet or version}},
    }


def node_tree(machine: str, step: str = "", *, age: float = 0) -> Tree:
    ready = {"type": "Ready", "reason": "Any", "status": "False" if step else "True", "message": step}
    return {
        "metadata": {
            "name": f"{machine}-node-upgrader",
            "creationTimestamp": (NOW - timedelta(seconds=age)).isoformat(),
        },
        "spec": {"machine": {"name": machine}, "kubernetesVersion": NEW, "nodeType": "Worker"},
        "status": {"completed": not step, "conditions": [ready]},
    }


def group_tree(*machines: str, age: float = 0) -> Tree:
    return {
        "metadata": {"name": "garden-cp-upgrade", "creationTimestamp": before(age)},
        "spec": {
            "controlPlane": {"name": "garden"},
            "machinesRequireUpgrade": [{"name": name} for name in machines],
            "kubernetesVersion": NEW,
            "controlPlaneSpecData": "e30=",
        },
    }


def progress(
    machines: list[Tree], nodes: list[Tree], groups: list[Tree], *, workers: Tree = IN_PLACE
) -> UpgradeProgress | None:
    return progress_of(
        msgspec.convert(cluster_tree(workers=workers), Cluster),
        msgspec.convert(machines, list[Machine]),
        msgspec.convert(groups, list[ControlPlaneUpgrade]),
        msgspec.convert(nodes, list[NodeUpgrade]),
        NOW,
    )


FIVE = ["a", "b", "c", "md-1", "md-2"]


def test_a_cluster_without_upgrades_has_no_progress() -> None:
    assert progress([machine_tree(name) for name in FIVE], [], []) is None


def test_nodes_that_wait_for_their_group_are_counted() -> None:
    machines = [machine_tree("a", NEW, seconds="10"), *map(machine_tree, FIVE[1:])]
    nodes = [node_tree("a", age=14), node_tree("b", "step 5 of 8 on node b: draining", age=4)]
    state = progress(machines, nodes, [group_tree("a", "b", "c", age=20)])
    assert state is not None
    assert (state.done, state.total) == (1, 5)
    # Two of the control plane and two workers remain, each 10 s; 4 s of the first are over.
    assert state.sentence(NOW) == (
        "1 of 5 nodes are upgraded; step 5 of 8 on node b: draining; 20s so far; about 36s left"
    )
    assert state.sentence(NOW + timedelta(seconds=30)).endswith("50s so far; about 6s left")


@pytest.mark.parametrize("kubelet", [NEW, "v1.36.3", "v1.36.3-eks-d91a302"])
def test_nodes_of_a_finished_group_stay_counted(kubelet: str) -> None:
    finished = [machine_tree(name, NEW, seconds="10", kubelet=kubelet) for name in FIVE[:3]]
    machines = [*finished, *map(machine_tree, FIVE[3:])]
    state = progress(machines, [node_tree("md-1", "step 1 of 8")], [])
    assert state is not None
    assert (state.done, state.total) == (3, 5)


def test_releases_of_one_patch_are_told_apart() -> None:
    """Kubelets name the same build, or builds that name no release; Machines name releases."""
    build = "v1.36.3-eks-d91a302"
    finished = [machine_tree(name, NEW, seconds="10", kubelet=build) for name in FIVE[:3]]
    machines = [*finished, *(machine_tree(name, "v1.36.3-eks-1-36-0", kubelet=build) for name in FIVE[3:])]
    state = progress(machines, [node_tree("md-1", "step 1 of 8")], [])
    assert state is not None
    assert (state.done, state.total) == (3, 5)


def test_groups_that_are_replaced_are_not_counted() -> None:
    state = progress(
        [*map(machine_tree, FIVE)], [node_tree("a", "step 1 of 8")], [group_tree("a", "b", "c")], workers={}
    )
    assert state is not None
    assert (state.done, state.total) == (0, 3)


def test_group_is_no_other_whose_name_begins_alike() -> None:
    """Group md is upgraded in place, md-0 is not: its MachineDeployment is none of md in failure domain 0."""
    tree = cluster_tree(workers={})
    tree["spec"]["workerNodeGroupConfigurations"].append({"name": "md", "count": 1, **IN_PLACE})
    result = progress_of(
        msgspec.convert(tree, Cluster),
        msgspec.convert([*map(machine_tree, FIVE)], list[Machine]),
        [],
        msgspec.convert([node_tree("a", "step 1 of 8")], list[NodeUpgrade]),
        NOW,
    )
    assert result is not None
    assert (result.done, result.total) == (0, 3)


def test_change_of_the_same_version_ends_with_its_node() -> None:
    machines = [machine_tree(name, NEW) for name in FIVE]
    state = progress(machines, [node_tree("a"), node_tree("b", "step 1 of 8")], [group_tree("a", "b", "c")])
    assert state is not None
    assert (state.done, state.total) == (1, 3)


@pytest.mark.parametrize("is_of_version", [True, False], ids=["of the version", "of the same version"])
def test_machines_that_a_change_leaves_are_not_counted(*, is_of_version: bool) -> None:
    """A control plane that was created with this version, or was upgraded to it before another field was changed."""
    seconds = "" if is_of_version else "10"
    machines = [machine_tree(name, NEW, seconds=seconds) for name in FIVE[:3]]
    machines += [machine_tree("md-1", NEW), machine_tree("md-2", OLD if is_of_version else NEW)]
    nodes = [node_tree("md-1", "step 7 of 8"), node_tree("md-2")]
    for node in nodes:
        node["spec"]["bootstrapChanges"] = "" if is_of_version else "e30="
    state = progress(machines, nodes, [])
    assert state is not None
    assert (state.done, state.total) == (1, 2)


def test_what_is_no_time_is_no_beginning() -> None:
    group = group_tree("a", "b", "c")
    group["metadata"]["creationTimestamp"] = "never"
    state = progress([*map(machine_tree, FIVE)], [node_tree("a", "step 1 of 8", age=5)], [group])
    assert state is not None
    assert state.began == NOW - timedelta(seconds=5)


def test_an_assumed_estimate_says_so() -> None:
    state = progress([*map(machine_tree, FIVE)], [node_tree("a", "step 1 of 8")], [group_tree("a", "b", "c")])
    assert state is not None
    assert state.sentence(NOW).endswith("about 16m left, assuming 200 s for each node")


def test_the_last_node_leaves_no_estimate() -> None:
    state = progress([machine_tree(name, NEW) for name in FIVE], [node_tree(name) for name in FIVE], [])
    assert state is not None
    assert state.sentence(NOW) == "5 of 5 nodes are upgraded; 0s so far"


class Upgrading:
    """An API server on which one node takes a step per minute, for users who may read it or not."""

    def __init__(self, *, may_read: bool) -> None:
        self.may_read, self.step = may_read, 1

    async def list(self, resource: Resource, *_: Any, **__: Any) -> SimpleNamespace:
        if resource == Cluster.resource:
            ready = {
                "type": "Ready",
                "status": "False",
                "reason": Reason.IN_PLACE_UPGRADE_IN_PROGRESS,
                "message": "0 of 1",
                "observedGeneration": 1,
            }
            return self._listed(cluster_tree() | {"status": {"conditions": [ready]}})
        if not self.may_read:
            raise error_of(403, b"")
        trees = {
            Machine.resource: [machine_tree("a")],
            NodeUpgrade.resource: [self._node()],
            MachineDeploymentUpgrade.resource: [],
            ControlPlaneUpgrade.resource: [group_tree("a")],
        }
        return self._listed(*trees[resource])

    async def watch(self, resource: Resource, *_: Any, **__: Any) -> AsyncIterator[Any]:
        while resource == NodeUpgrade.resource and self.step < 3:
            await asyncio.sleep(60)
            self.step += 1
            yield SimpleNamespace(type="MODIFIED", object=Object(to_bytes(self._node())))
        await asyncio.get_running_loop().create_future()

    def _node(self) -> Tree:
        tree = node_tree("a", f"step {self.step} of 8")
        tree["metadata"] |= {"uid": "n", "resourceVersion": str(self.step)}
        return tree

    def _listed(self, *trees: Tree) -> SimpleNamespace:
        return SimpleNamespace(items=[Object(to_bytes(tree)) for tree in trees], resource_version="1")


@pytest.mark.parametrize("may_read", [True, False])
def test_a_command_shows_each_step_to_who_may_read_it(*, may_read: bool) -> None:
    out = StringIO()
    client = cast(Client, Upgrading(may_read=may_read))

    async def main(_: Simulation) -> None:
        with Progress(Console(file=out, width=500)) as shown, pytest.raises(Overdue):
            await waiting.until_ready(client, Key("default", "garden"), generation=1, timeout=600, progress=shown)

    run(main, epoch=NOW, seed=1)
    lines = [line.strip().split("; ")[:2] for line in out.getvalue().splitlines()]
    steps = [["0 of 1 nodes are upgraded", f"step {step} of 8"] for step in (1, 2, 3)]
    assert lines == [["0 of 1"], *(steps if may_read else [])]
