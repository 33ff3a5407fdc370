"""What is told of machines that are held for an upgrade in place: by its conditions, whatever their reasons are."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.rollouts import ControlPlaneUpgradeRolloutStrategy
from espalier.api.eksa.upgrades import (
    IN_PLACE_CONTROL_PLANE,
    ControlPlaneUpgrade,
    FrontEnd,
    MachineDeploymentUpgrade,
    NodeUpgrade,
)
from espalier.api.meta import Tree
from espalier.clusters import in_place
from espalier.kube.objects import Object
from espalier.runtime.outcome import Wait
from tests.unit.clusters.made import objects
from tests.unit.clusters.seen import as_object


def held() -> KubeadmControlPlane:
    [tree] = [one for one in objects() if one["kind"] == "KubeadmControlPlane"]
    tree["metadata"].setdefault("annotations", {})[IN_PLACE_CONTROL_PLANE] = "true"
    return as_object(tree).decode(KubeadmControlPlane)


def upgrade(live: KubeadmControlPlane, **statuses: str) -> Tree:
    """An upgrade of it with these conditions, all of a reason that nobody knows."""
    told = {"Ready": "False", **statuses}
    return {
        "apiVersion": ControlPlaneUpgrade.resource.api_version,
        "kind": ControlPlaneUpgrade.resource.kind,
        "metadata": {
            "name": f"{live.metadata.name}-cp-upgrade",
            "namespace": live.metadata.namespace,
            "uid": "upgrade",
            "resourceVersion": "5",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "K", "name": live.metadata.name, "uid": live.metadata.uid}
            ],
        },
        "spec": {
            "controlPlane": {"name": live.metadata.name},
            "machinesRequireUpgrade": [],
            "kubernetesVersion": "v1.36.3",
            "controlPlaneSpecData": "",
        },
        "status": {
            "conditions": [
                {"type": type_, "status": status, "reason": "OfAnotherVersion", "message": "so it is"}
                for type_, status in told.items()
            ]
        },
    }


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        ({"Progressing": "True", "Accepted": "True"}, in_place.UPGRADING),
        ({"Progressing": "Unknown", "Accepted": "True"}, in_place.UPGRADING),
        ({"Progressing": "False", "Accepted": "True"}, in_place.FAILED),
        ({"Progressing": "False", "Accepted": "False"}, in_place.STOPPED),
        ({}, in_place.UPGRADING),
    ],
)
def test_what_is_told_follows_conditions_and_no_reason(statuses: Tree, reason: str) -> None:
    live = held()
    found = (as_object(upgrade(live, **statuses)),)
    assert in_place.story(live, found) == Wait(reason, "so it is")


STEPS = ("UpgraderPodCreated", "BinariesCopied", "ContainerdUpgraded", "CNIPluginsUpgraded", "KubeadmUpgraded")


def node_upgrade(done: int, progressing: str, node_type: str = "ControlPlane", *, completed: bool = False) -> Object:
    """The upgrade of a node of which so many steps are done, the pod's creation counted as one."""
    conditions = [
        *({"type": step, "status": "True", "reason": "Done"} for step in STEPS[:done]),
        {"type": "Progressing", "status": progressing, "reason": "So"},
    ]
    return as_object(
        {
            "apiVersion": NodeUpgrade.resource.api_version,
            "kind": NodeUpgrade.resource.kind,
            "metadata": {"name": "one-node-upgrader", "namespace": "eksa-system", "uid": "1", "resourceVersion": "5"},
            "spec": {"machine": {"name": "one"}, "kubernetesVersion": "v1.36.3", "nodeType": node_type},
            "status": {"conditions": conditions, "completed": completed},
        }
    )


@pytest.mark.parametrize(
    ("found", "is_untouched"),
    [
        ([], True),
        ([node_upgrade(0, "False")], True),  # no image for the version
        ([node_upgrade(1, "False")], True),  # the image can't be pulled, or the copy failed
        ([node_upgrade(3, "False")], True),  # the CNI plugins could not be replaced
        ([node_upgrade(1, "True")], False),  # it goes on: kubeadm may run by the time that this is read
        ([node_upgrade(4, "False")], False),  # kubeadm failed: nobody knows how far it came
        ([node_upgrade(5, "False")], False),
        ([node_upgrade(0, "True", completed=True)], False),
        ([node_upgrade(5, "True", "Worker")], True),
    ],
)
def test_a_way_back_follows_from_steps(found: list[Object], is_untouched: bool) -> None:
    assert in_place.is_untouched([], found) is is_untouched


def test_there_is_no_way_back_once_a_node_was_upgraded() -> None:
    live = held()
    tree = upgrade(live)
    tree["status"]["upgraded"] = 1
    assert not in_place.is_untouched([as_object(tree)], [])


def test_workers_that_were_upgraded_do_not_bar_the_way_back_of_the_control_plane() -> None:
    tree = {
        "apiVersion": MachineDeploymentUpgrade.resource.api_version,
        "kind": MachineDeploymentUpgrade.resource.kind,
        "metadata": {"name": "md-upgrade", "namespace": "eksa-system", "uid": "2", "resourceVersion": "5"},
        "spec": {
            "machineDeployment": {"name": "md"},
            "machinesRequireUpgrade": [],
            "kubernetesVersion": "v1.36.3",
            "machineSpecData": "",
        },
        "status": {"upgraded": 1},
    }
    assert in_place.is_untouched([as_object(tree)], [])


def asked(
    replicas: int, front_end: FrontEnd = FrontEnd.HOOKS, kind: str | None = "InPlace", fallback: str | None = None
) -> str:
    """Why another version may not be written to a control plane of so many machines yet; empty when it may."""
    [tree] = [one for one in objects() if one["kind"] == "KubeadmControlPlane"]
    tree["spec"]["replicas"] = replicas
    live = as_object(tree).decode(KubeadmControlPlane)
    tree["spec"]["version"] = "v1.36.3"
    wanted = as_object(tree).decode(KubeadmControlPlane)
    strategy = msgspec.convert({"type": kind, "fallback": fallback}, ControlPlaneUpgradeRolloutStrategy)
    found = in_place.obstacle(wanted, live, strategy if kind else None, front_end, None)
    return found.reason if found else ""


def test_a_control_plane_that_hooks_would_have_rolled_is_not_written() -> None:
    assert asked(1) == in_place.TOO_FEW
    assert asked(1, fallback="RollingUpdate") == "", "it is to be rolled then"
    assert asked(3) == in_place.NOT_ASKED
    assert asked(3, fallback="RollingUpdate") == in_place.NOT_ASKED


def test_what_is_upgraded_by_annotations_already_does_not_wait_for_hooks() -> None:
    live = held()
    wanted = msgspec.structs.replace(live, spec=msgspec.structs.replace(live.spec, version="v1.36.3"))
    strategy = ControlPlaneUpgradeRolloutStrategy(type="InPlace")
    assert in_place.obstacle(wanted, live, strategy, FrontEnd.HOOKS, None) is None
    assert in_place.obstacle(wanted, None, strategy, FrontEnd.HOOKS, None) is None, "a new one is made as it is asked"


def test_what_is_not_upgraded_by_hooks_does_not_wait_for_them() -> None:
    for replicas in (1, 3):
        assert asked(replicas, FrontEnd.ANNOTATIONS) == ""
        assert asked(replicas, kind="RollingUpdate") == ""
        assert asked(replicas, kind=None) == ""
