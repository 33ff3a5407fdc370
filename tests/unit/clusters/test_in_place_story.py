"""What is told of machines that are held for an upgrade in place: by its conditions, whatever their reasons are."""

from __future__ import annotations

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.upgrades import IN_PLACE_CONTROL_PLANE, ControlPlaneUpgrade
from espalier.api.meta import Tree
from espalier.clusters import in_place
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
    assert in_place.is_untouched(live, found) is (reason == in_place.STOPPED)
