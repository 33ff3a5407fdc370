"""The table of fields that a machine can get in place: a row names a field and all below it."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.meta import Tree
from espalier.clusterapi.changes import in_place_fields
from espalier.clusterapi.changes.machine_change import differences
from espalier.providers.docker.cluster_api import INFRASTRUCTURE as DOCKER
from espalier.upgrades.node import cluster_configuration

ROWS = ("bootstrap.clusterConfiguration.apiServer.extraArgs", "bootstrap.clusterConfiguration.featureGates.Known")


def test_a_row_accepts_its_field_and_all_below_it_only() -> None:
    below = "bootstrap.clusterConfiguration.apiServer.extraArgs"
    accepted = (below, f"{below}.v", f"{below}[a.b/c]", f"{below}[0].value", "version", "infrastructure")
    beside = (f"{below}s", "bootstrap.clusterConfiguration.apiServer", "infrastructure.extraMounts")
    assert in_place_fields.refused((*accepted, *beside), ROWS, None) == beside


def test_image_of_provider_is_accepted_by_its_field() -> None:
    fields = ("infrastructure.customImage", "infrastructure.extraMounts")
    assert in_place_fields.refused(fields, (), DOCKER) == ("infrastructure.extraMounts",)


def test_map_on_one_side_is_compared_field_by_field() -> None:
    """A row below the map accepts what it names; what is beside that is refused by its own name."""
    before: Tree = {"featureGates": {"Known": True, "Other": True}}
    after: Tree = {"etcd": {}}
    fields = [f"bootstrap.clusterConfiguration.{field}" for field in differences(before, after)]
    assert in_place_fields.refused(fields, ROWS, None) == ("bootstrap.clusterConfiguration.featureGates.Other",)


@pytest.mark.demand("U25")
def test_fields_unknown_to_the_node_are_refused() -> None:
    fields = (
        "bootstrap.clusterConfiguration.apiServer.certSANs",
        "bootstrap.joinConfiguration.nodeRegistration.taints",
    )
    assert in_place_fields.refused(fields, in_place_fields.CONTROL_PLANE_FIELDS, None) == fields
    assert in_place_fields.refused(fields, in_place_fields.WORKER_FIELDS, None) == fields


PARTS = {
    **dict.fromkeys(("apiServer", "controllerManager", "scheduler"), ("extraArgs", "extraEnvs", "extraVolumes")),
    "etcd.local": ("imageRepository", "imageTag", "extraArgs", "extraEnvs"),
}
"""The fields from which kubeadm renders static pods, and nothing else, by its documentation."""


@pytest.mark.parametrize("field", [f"{component}.{part}" for component, parts in PARTS.items() for part in parts])
def test_static_pod_parts_of_kubeadm_are_accepted(
    field: str,
) -> None:
    name = f"bootstrap.clusterConfiguration.{field}"
    assert in_place_fields.refused([name], in_place_fields.CONTROL_PLANE_FIELDS, None) == ()
    parts: Any = "new"
    for part in reversed(field.split(".")):
        parts = {part: parts}
    present: Tree = {"kubernetesVersion": "v1.36.3", "etcd": {"local": {"dataDir": "/d"}}}
    value: Any = cluster_configuration.wanted(present, cluster_configuration.WantedConfiguration("v1.36.3", "", parts))
    for part in field.split("."):
        value = value[part]
    assert value == "new"
