"""What is said of an upgrade of several machines, on as much of its scope as is looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.eksa.upgrades import MachineDeploymentUpgrade
from espalier.api.meta import Tree
from espalier.kube.objects import Object, encode_json
from espalier.upgrades import expected
from espalier.upgrades.group import deployment as deployment_group
from espalier.upgrades.group.deployment import DeploymentGroup, Sets
from espalier.upgrades.group.group import GroupScope, shared_problem

BEFORE: Tree = {"version": "v1.36.3", "bootstrap": {}}
EDITED: Tree = {"version": "v1.36.3", "bootstrap": {"dataSecretName": "other"}}


def made(tree: Tree) -> Object:
    return Object(encode_json(tree))


def scope(*, controlled: bool, version: str = "v1.36.3") -> GroupScope:
    """An upgrade for a MachineDeployment that is paused, as it was before an edit."""
    owners = [{"apiVersion": "v1", "kind": "K", "name": "md", "uid": "1", "controller": True}] if controlled else []
    upgrade: Tree = {
        "apiVersion": MachineDeploymentUpgrade.resource.api_version,
        "kind": MachineDeploymentUpgrade.resource.kind,
        "metadata": {"name": "md-md-upgrade", "namespace": "eksa-system", "ownerReferences": owners},
        "spec": {
            "machineDeployment": {"name": "md"},
            "machinesRequireUpgrade": [],
            "kubernetesVersion": version,
            "machineSpecData": expected.encoded(BEFORE),
        },
    }
    found = made(upgrade)
    decoded = found.decode(MachineDeploymentUpgrade)
    paused = {"cluster.x-k8s.io/paused": "in-place-upgrade"}
    owner = made({"kind": "MachineDeployment", "metadata": {"name": "md", "uid": "1", "annotations": paused}})
    reference, data = decoded.spec.machine_deployment, decoded.spec.machine_spec_data
    return GroupScope(found, decoded, reference, data, "garden", None, owner, (), ())


@pytest.mark.parametrize(
    ("controlled", "asked_for", "version", "reason"),
    [
        (True, BEFORE, "v1.36.3", ""),
        (True, EDITED, "v1.36.3", "OwnerEdited"),
        (True, BEFORE, "v1.35.4", "OwnerEdited"),
        (False, BEFORE, "v1.36.3", ""),
        (False, EDITED, "v1.36.3", "SpecDataDiffers"),
        (False, BEFORE, "v1.35.4", "VersionDiffers"),
    ],
)
def test_who_wrote_an_upgrade_has_to_write_it_anew_when_its_owner_is_edited(
    controlled: bool, asked_for: Tree, version: str, reason: str
) -> None:
    """Those that were made for an annotation are made anew by their controller: nobody has to act."""
    found = shared_problem(scope(controlled=controlled, version=version), "MachineDeployment md", "v1.36.3", asked_for)
    assert (found.reason if found else "") == reason


@pytest.mark.parametrize(("replicas", "missing"), [(None, 1), (1, 1), (0, 0), (2, 2)])
def test_a_set_without_a_number_of_machines_asks_for_one(
    replicas: int | None, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = {"apiGroup": "i", "kind": "DockerMachineTemplate", "name": "t"}
    template = {"spec": {"clusterName": "garden", "bootstrap": {}, "infrastructureRef": reference}}
    spec: Tree = {"clusterName": "garden", "selector": {}, "template": template}
    latest = made(
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "MachineSet",
            "metadata": {"name": "md-a"},
            "spec": spec | ({} if replicas is None else {"replicas": replicas}),
        }
    )
    monkeypatch.setattr(deployment_group, "sets_of", lambda _objects, _owner: Sets(latest, (), ()))
    view: Any = SimpleNamespace(workload=object(), capi_objects=object())
    seen: Any = SimpleNamespace(cluster_view=view, owner=latest, members=())
    assert len(DeploymentGroup().missing(seen)) == missing


def test_nothing_is_missing_of_a_cluster_that_does_not_answer() -> None:
    view: Any = SimpleNamespace(workload=None, capi_objects=object())
    seen: Any = SimpleNamespace(cluster_view=view, owner=object(), members=())
    assert DeploymentGroup().missing(seen) == []
