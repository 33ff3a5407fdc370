"""Changes that hooks accept or refuse: every field of machines, beside a version that can be made in place."""

from __future__ import annotations

import base64
import copy
import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.meta import Tree
from espalier.clusterapi.changes.in_place_fields import is_within
from espalier.clusters.design.provider import infrastructures
from espalier.providers.registry import PROVIDERS
from espalier.upgrades.hooks import classify, wire
from espalier.upgrades.hooks.classify import InPlaceChanges
from espalier.upgrades.hooks.wire import MachineObjects, SetObjects
from tests.support.histories.hook_requests import compared, machine_objects, patched, set_objects
from tests.support.histories.in_place_changes import CONTROL_PLANE_CHANGES, WORKER_CHANGES


def of_machine(current: Tree, desired: Tree) -> tuple[InPlaceChanges, dict[str, Any]]:
    """The judgement, and the answer that it makes when the rest is left to Cluster API."""
    objects = (msgspec.convert(current, MachineObjects), msgspec.convert(desired, MachineObjects))
    changes = classify.of_machine(*objects, infrastructures(PROVIDERS))
    return changes, msgspec.json.decode(wire.accepted(wire.CAN_UPDATE_MACHINE, changes.patches))


def of_set(current: Tree, desired: Tree) -> tuple[InPlaceChanges, dict[str, Any]]:
    objects = (msgspec.convert(current, SetObjects), msgspec.convert(desired, SetObjects))
    changes = classify.of_set(*objects, infrastructures(PROVIDERS))
    return changes, msgspec.json.decode(wire.accepted(wire.CAN_UPDATE_MACHINE_SET, changes.patches))


def nested(refused: tuple[str, ...]) -> list[tuple[str, str]]:
    """Fields that are refused within another refused field: nobody reads the same thing twice."""
    return [pair for pair in itertools.permutations(refused, 2) if is_within(*pair)]


@pytest.mark.parametrize("kind", ["DockerMachine", "OtherMachine"])
def test_an_infrastructure_that_stays_refuses_nothing(kind: str) -> None:
    """Of a kind that no provider here has as well: only its version changes."""
    current, desired = machine_objects(kubernetesVersion="1.35"), machine_objects(kubernetesVersion="1.36")
    for objects in (current, desired):
        objects["infrastructureMachine"] |= {"kind": kind, "spec": {"flavor": "m1"}}
    in_place_changes, _ = of_machine(current, desired)
    assert in_place_changes.refused == ()


@pytest.mark.parametrize("versions", [("1.34", "1.35"), ("1.35", "1.36")])
def test_other_version_leaves_nothing_to_replace(versions: tuple[str, str]) -> None:
    current, desired = (machine_objects(kubernetesVersion=version) for version in versions)
    in_place_changes, answer = of_machine(current, desired)
    assert (in_place_changes.refused, in_place_changes.obstacle, in_place_changes.sentence("m")) == ((), "", "")
    assert compared(current) != compared(desired)
    assert compared(patched(current, answer)) == compared(desired)
    current, desired = (set_objects(version, kubernetesVersion=version) for version in versions)
    in_place_changes, answer = of_set(current, desired)
    assert (in_place_changes.refused, in_place_changes.obstacle) == ((), "")
    assert compared(patched(current, answer)) == compared(desired)


def test_patches_name_exactly_what_can_be_made() -> None:
    in_place_changes, answer = of_machine(
        machine_objects(kubernetesVersion="1.35"), machine_objects(kubernetesVersion="1.36")
    )
    paths = {
        name: [operation.path for operation in operations] for name, operations in in_place_changes.patches.items()
    }
    assert paths == {
        "machine": ["/spec/version"],
        "infrastructureMachine": ["/spec/customImage"],
        "bootstrapConfig": [
            "/spec/clusterConfiguration/etcd/local/imageTag",
            "/spec/clusterConfiguration/featureGates",
        ],
    }
    operations = msgspec.json.decode(base64.b64decode(answer["machinePatch"]["patch"]))
    assert operations == [{"op": "add", "path": "/spec/version", "value": "v1.36.3-eks-1-36-1"}]
    assert answer["machinePatch"]["patchType"] == "JSONPatch"


@pytest.mark.demand("U25")
@pytest.mark.parametrize(("change", "field"), CONTROL_PLANE_CHANGES)
def test_other_control_plane_fields_are_refused(change: Tree, field: str) -> None:
    count = {"count": 1}
    current = machine_objects(kubernetesVersion="1.35", controlPlaneConfiguration=count)
    desired = machine_objects(kubernetesVersion="1.36", controlPlaneConfiguration=count | change)
    in_place_changes, answer = of_machine(current, desired)
    assert any(field in refused for refused in in_place_changes.refused)
    assert field in in_place_changes.sentence("Machine garden-abcde")
    assert nested(in_place_changes.refused) == []
    left = compared(patched(current, answer))
    assert left != compared(desired), "Cluster API sees that something is left, and replaces the machine"
    assert left["machine"] == compared(desired)["machine"], "the version is none of that"


@pytest.mark.parametrize(("change", "field"), WORKER_CHANGES)
def test_other_worker_fields_are_refused_by_name(change: Tree, field: str) -> None:
    group = {"name": "md-0", "count": 2}
    current = set_objects("old", kubernetesVersion="1.35", workerNodeGroupConfigurations=[group])
    desired = set_objects("new", kubernetesVersion="1.36", workerNodeGroupConfigurations=[group | change])
    in_place_changes, answer = of_set(current, desired)
    assert any(field in refused for refused in in_place_changes.refused)
    assert nested(in_place_changes.refused) == []
    assert compared(patched(current, answer)) != compared(desired)


@pytest.mark.parametrize(
    ("name", "path", "field"),
    [
        ("machine", ("spec", "failureDomain"), "failureDomain"),
        ("infrastructureMachine", ("spec", "extraMounts"), "infrastructure.extraMounts"),
        ("infrastructureMachine", ("spec", "bootstrapTimeout"), "infrastructure.bootstrapTimeout.changed"),
        ("bootstrapConfig", ("spec", "ntp"), "bootstrap.ntp.changed"),
        ("bootstrapConfig", ("spec", "clusterConfiguration", "dns"), "bootstrap.clusterConfiguration.dns"),
    ],
)
def test_fields_that_ours_never_set_are_refused(name: str, path: tuple[str, ...], field: str) -> None:
    current = machine_objects(kubernetesVersion="1.35")
    desired = copy.deepcopy(current)
    place = desired[name]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = {"changed": "yes"} if path[-1] != "failureDomain" else "b"
    in_place_changes, _ = of_machine(current, desired)
    assert in_place_changes.refused == (field,)


@pytest.mark.parametrize(
    ("version", "sentence"),
    [("v1.37.0", "go to v1.36 first"), ("v1.34.4", "kubeadm does not downgrade"), ("latest", "must be like v1.36.3")],
)
def test_unreachable_version_is_refused(version: str, sentence: str) -> None:
    current, desired = machine_objects(kubernetesVersion="1.35"), machine_objects(kubernetesVersion="1.35")
    desired["machine"]["spec"]["version"] = version
    in_place_changes, answer = of_machine(current, desired)
    assert sentence in in_place_changes.sentence("Machine garden-abcde")
    assert in_place_changes.refused == (), "the sentence about versions says more than the field"
    assert compared(patched(current, answer)) == compared(current)


def test_requested_machines_have_no_report() -> None:
    judgement, answer = of_machine(machine_objects(kubernetesVersion="1.35"), machine_objects(kubernetesVersion="1.35"))
    assert judgement == InPlaceChanges({})
    assert [name for name in answer if name.endswith("Patch")] == []


BEFORE, AFTER = machine_objects(kubernetesVersion="1.35"), machine_objects(kubernetesVersion="1.36")
SPECS = st.recursive(
    st.sampled_from([None, "", "a", 1, True, [], ["a"]]),
    lambda inner: st.dictionaries(
        st.sampled_from(["a", "b/c", "d~e", "customImage", "version", "ntp"]), inner, max_size=3
    ),
    max_leaves=8,
)
TREES = st.dictionaries(st.sampled_from(["customImage", "clusterConfiguration", "format", "x"]), SPECS, max_size=4)


@given(TREES, TREES, TREES, TREES)
def test_whatever_differs_is_patched_or_named(before: Tree, after: Tree, old: Tree, new: Tree) -> None:
    current, desired = copy.deepcopy(BEFORE), copy.deepcopy(AFTER)
    for objects, infrastructure, config in ((current, before, old), (desired, after, new)):
        objects["infrastructureMachine"]["spec"] = infrastructure
        objects["bootstrapConfig"]["spec"] = {"ntp": config}
    in_place_changes, answer = of_machine(current, desired)
    if not in_place_changes.refused:
        assert compared(patched(current, answer)) == compared(desired)
