"""Every field of the kinds of upgrades in place, which people may write as well: a value is taken, or refused by name.

Fields of references that nothing reads are told to be ignored. No field is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.kube.objects import Object
from espalier.upgrades import expected, names
from tests.support.objects.observed_upgrades import made
from tests.support.objects.upgrade_objects import SPECS, handlers
from tests.support.providers import field_sweep as sweep
from tests.support.providers.field_sweep import (
    WRONG_TYPES,
    Values,
    all_leaves,
    counted,
    fields,
    is_of_wrong_type,
    named,
    put_everywhere,
)

KINDS = (NodeUpgrade, ControlPlaneUpgrade, MachineDeploymentUpgrade)
HUGE = 1_000_000


def text(most: int) -> Values:
    return Values(["", "x" * most], ["x" * (most + 1)])


def reference(field: str, kind: str, group: str) -> dict[str, Values]:
    """Of a reference to an object that is in the namespace of the system."""
    return {
        f"{field}.name": Values(["a", "x" * 253], ["", "x" * 254]),
        f"{field}.namespace": Values(["", "eksa-system"], ["team-a", "-1", "x" * 254]),
        f"{field}.kind": Values(["", kind], ["Banana", kind.lower(), "x" * 254]),
        f"{field}.apiVersion": Values(["", f"{group}/v1beta1", f"{group}/v1beta2"], ["v1", "x/v1", "x" * 254]),
        f"{field}.uid": text(128),
        f"{field}.resourceVersion": text(128),
        f"{field}.fieldPath": text(1024),
    }


MACHINES = reference("machinesRequireUpgrade[]", "Machine", "cluster.x-k8s.io")
VERSION = Values(
    ["v1.36.3", "v1.36.3-eks-1-36-1", f"v1.36.3-{'x' * 120}"], ["", "1.36.3", "v1", "-1", f"v1.36.3-{'x' * 121}"]
)
ETCD = Values(["v3.6.8", "x" * 128], ["", "a/b", "-1", "x" * 129])
DATA = Values(["", expected.encoded({}), "no base64", "x" * HUGE], ["x" * (HUGE + 1)])
FIELDS: dict[type[KubeObject], dict[str, Values]] = {
    NodeUpgrade: {
        **reference("machine", "Machine", "cluster.x-k8s.io"),
        "kubernetesVersion": VERSION,
        "etcdVersion": ETCD,
        "nodeType": Values(["ControlPlane", "Worker"], ["", "worker"]),
        "firstNodeToBeUpgraded": Values([True, False], []),
        "bootstrapChanges": Values(["", "e30=", "x" * HUGE], ["no base64", "x" * (HUGE + 1)]),
        "certificatesOnly": Values([True, False], []),
    },
    ControlPlaneUpgrade: {
        **reference("controlPlane", "KubeadmControlPlane", "controlplane.cluster.x-k8s.io"),
        **MACHINES,
        "kubernetesVersion": VERSION,
        "etcdVersion": ETCD,
        "controlPlaneSpecData": DATA,
    },
    MachineDeploymentUpgrade: {
        **reference("machineDeployment", "MachineDeployment", "cluster.x-k8s.io"),
        **MACHINES,
        "kubernetesVersion": VERSION,
        "machineSpecData": DATA,
    },
}


def written(kind: type[KubeObject], *paths: str, value: Any) -> Tree:
    resource = kind.resource
    metadata = {"name": "upgrade", "namespace": "eksa-system"}
    tree: Tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    tree["spec"] = copy.deepcopy(SPECS[kind])
    for path in paths:
        put_everywhere(tree["spec"], path, value)
    return tree


def refusals(kind: Any, trees: list[Tree]) -> list[set[str]]:
    """The fields that are refused, by the API server or the webhook."""
    webhook = handlers()[f"/validate-anywhere-eks-amazonaws-com-v1alpha1-{kind.resource.kind.lower()}"]
    return [fields(causes) - {"<nil>"} for causes in sweep.refusals(kind, trees, webhook)]


@pytest.mark.parametrize("kind", KINDS)
def test_value_is_taken_or_refused_by_its_field(kind: type[KubeObject]) -> None:
    for value in WRONG_TYPES:
        wrong = [path for path in all_leaves(kind) if is_of_wrong_type(kind, f"spec.{path}", value)]
        (refused_fields,) = refusals(kind, [written(kind, *wrong, value=value)])
        assert {named(f"spec.{path}") for path in wrong} - refused_fields == set()
    for path, values in FIELDS[kind].items():
        accepted = refusals(kind, [written(kind, path, value=value) for value in values.accepted])
        assert accepted == [set()] * len(values.accepted), path
        refused = refusals(kind, [written(kind, path, value=value) for value in values.refused])
        assert refused == [{named(f"spec.{path}")}] * len(values.refused), path


@pytest.mark.parametrize("kind", [ControlPlaneUpgrade, MachineDeploymentUpgrade])
def test_controller_refuses_reference_to_other_kind(kind: Any) -> None:
    (field,) = (path.partition(".")[0] for path in FIELDS[kind] if path.endswith(".name") and "[]" not in path)
    for name, value in (("namespace", "team-a"), ("kind", "Banana"), ("apiVersion", "v1")):
        upgrade_object: Object = made(written(kind, f"{field}.{name}", value=value))
        (violation,) = names.not_an_owner(upgrade_object.decode(kind))
        assert violation.field == f"spec.{field}.{name}"
        assert violation.found == value


def swept() -> Iterator[tuple[type[KubeObject], str, Values]]:
    for kind, paths in FIELDS.items():
        for path, values in paths.items():
            wrong = [value for value in WRONG_TYPES if is_of_wrong_type(kind, f"spec.{path}", value)]
            yield kind, path, Values(values.accepted, [*values.refused, *wrong])


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_is_left_out(kind: type[KubeObject]) -> None:
    assert [path for path in all_leaves(kind) if path not in FIELDS[kind]] == []


def test_how_many_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    accepted, refused = counted(capsys, "upgrades", KINDS, swept())
    assert accepted > 90
    assert refused > 250
