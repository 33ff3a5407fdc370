"""Who has claimed a control plane, and which references lead to a Machine."""

from __future__ import annotations

import pytest

from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade, ObjectReference
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE, IN_PLACE_DEPLOYMENT
from espalier.api.meta import Tree
from espalier.kube.objects import Object, encode_json
from espalier.upgrades import names


def node_upgrade(*owners: Tree) -> Object:
    metadata = {"name": "one", "uid": "1", "ownerReferences": list(owners)}
    kind = NodeUpgrade.resource
    return Object(encode_json({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}))


def owner(kind: str, *, controller: bool) -> Tree:
    return {"apiVersion": "a/v1", "kind": kind, "name": "whole", "uid": "2", "controller": controller}


@pytest.mark.parametrize(
    ("owners", "claim"),
    [
        ([], "one 1"),
        ([owner(ControlPlaneUpgrade.resource.kind, controller=True)], "whole 2"),
        ([owner(ControlPlaneUpgrade.resource.kind, controller=False)], "one 1"),
        ([owner(MachineDeploymentUpgrade.resource.kind, controller=True)], "one 1"),
    ],
)
def test_claim_names_the_controlling_upgrade(owners: list[Tree], claim: str) -> None:
    assert names.claim(node_upgrade(*owners)) == claim


@pytest.mark.parametrize(
    ("reference", "fields"),
    [
        ({}, []),
        ({"namespace": "eksa-system", "kind": "Machine", "api_version": "cluster.x-k8s.io/v1beta2"}, []),
        ({"api_version": "cluster.x-k8s.io/v1beta1"}, []),  # whoever wrote it may know an earlier version
        ({"namespace": "elsewhere"}, ["m.namespace"]),
        ({"kind": "Banana"}, ["m.kind"]),
        ({"api_version": "v1"}, ["m.apiVersion"]),
    ],
)
def test_reference_leads_to_a_machine(reference: dict[str, str], fields: list[str]) -> None:
    violations = names.not_a_machine("m", ObjectReference(name="one", **reference))
    assert [violation.field for violation in violations] == fields


@pytest.mark.parametrize("mark", [IN_PLACE_CONTROL_PLANE, IN_PLACE_DEPLOYMENT])
def test_groups_have_an_annotation_each(mark: str) -> None:
    for value, is_annotated in (("true", True), ("false", False)):
        annotated = Object(encode_json({"kind": "K", "metadata": {"name": "k", "annotations": {mark: value}}}))
        assert names.is_annotated(annotated) is is_annotated


def test_upgrades_are_called_like_what_they_upgrade() -> None:
    upgrade_names = names.control_plane_upgrade("c"), names.deployment_upgrade("c"), names.node_upgrade("c")
    assert upgrade_names == ("c-cp-upgrade", "c-md-upgrade", "c-node-upgrader")


@pytest.mark.parametrize(("name", "node"), [("a-node-upgrader", "a"), ("-node-upgrader", None), ("a", None)])
def test_the_node_of_an_upgrader_is_known_by_its_name(name: str, node: str | None) -> None:
    assert names.node_of(name) == node
