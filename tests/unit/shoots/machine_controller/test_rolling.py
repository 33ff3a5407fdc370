"""Rollouts resize and delete sets by the machines as they are."""

from __future__ import annotations

import random

import pytest

from espalier.api.cloud import VirtualMachine
from espalier.api.gardener.machines import Machine, MachineDeployment, MachineSet
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.objects import Object, encode_json
from espalier.shoots.local_provider import machine_objects
from espalier.shoots.machine_controller.plan import DeleteObject, Resize, Snapshot, plan

Sets = dict[str, tuple[int, int, int]]
"""By class: replicas, machines that run, and machines that don't yet."""


def stored(resource: Resource, name: str, owner: Object | None, spec: Tree) -> Object:
    metadata: Tree = {"name": name, "namespace": "shoot", "uid": f"uid-{name}"}
    if owner is not None:
        metadata["ownerReferences"] = [machine_objects.controlled_by(owner)]
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
    return Object(encode_json(body))


def template(class_: str) -> Tree:
    return {"spec": {"class": {"kind": "MachineClass", "name": class_}}}


def rolled(replicas: int, sets: Sets, **rolling: int | str) -> list[tuple[str, int | str]]:
    """The sets that a deployment of class `new` resizes, with their new replicas, and those that it deletes."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    deployment = stored(
        MachineDeployment.resource,
        "pool",
        None,
        {"replicas": replicas, "strategy": strategy, "template": template("new")},
    )
    of_sets, machines, virtual = list[Object](), list[Object](), list[VirtualMachine]()
    for class_, (wanted, running, pending) in sets.items():
        spec = {"replicas": wanted, "template": template(class_)}
        of_sets.append(stored(MachineSet.resource, class_, deployment, spec))
        for number in range(running + pending):
            made = VirtualMachine(
                id=f"{class_}-{number}",
                name=f"{class_}-{number}",
                network="n",
                size="s",
                image="linux",
                state="Running" if number < running else "Pending",
            )
            virtual.append(made)
            spec = template(class_)["spec"] | {"providerID": machine_objects.provider_id(made)}
            machines.append(stored(Machine.resource, made.name, of_sets[-1], spec))
    actions = plan(Snapshot([deployment], of_sets, machines, virtual), random.Random(1))
    names = {set_.metadata.uid: set_.name for set_ in of_sets}
    result = list[tuple[str, int | str]]()
    for action in actions:
        if isinstance(action, Resize):
            result.append((action.set.name, action.replicas))
        if isinstance(action, DeleteObject) and action.object.metadata.uid in names:
            result.append((action.object.name, "deleted"))
    return result


@pytest.mark.parametrize(
    ("sets", "rolling", "expected"),
    [
        pytest.param({"old": (3, 3, 0), "new": (0, 0, 0)}, {}, [("new", 1)], id="the surge comes first"),
        pytest.param({"old": (3, 3, 0), "new": (1, 0, 1)}, {}, [], id="nothing goes while it boots"),
        pytest.param({"old": (3, 3, 0), "new": (1, 1, 0)}, {}, [("old", 2)], id="one that runs replaces one"),
        pytest.param(
            {"old": (3, 3, 0), "new": (0, 0, 0)}, {"maxSurge": 0, "maxUnavailable": 0}, [("new", 1)], id="no share: one"
        ),
        pytest.param(
            {"old": (3, 3, 0), "new": (0, 0, 0)}, {"maxSurge": 0, "maxUnavailable": 1}, [("old", 2)], id="no surge"
        ),
        pytest.param({"old": (3, 1, 2), "new": (1, 0, 1)}, {}, [("old", 1)], id="broken ones go first"),
        pytest.param({"old": (0, 0, 0), "new": (3, 3, 0)}, {}, [("old", "deleted")], id="an empty set is deleted"),
        pytest.param({"old": (0, 1, 0), "new": (3, 3, 0)}, {}, [], id="a set with machines is kept"),
        pytest.param(
            {"old": (1, 1, 0), "older": (1, 1, 0), "new": (2, 2, 0)},
            {},
            [("old", 0)],
            id="what may go is counted once",
        ),
        pytest.param(
            {"old": (1, 1, 0), "older": (1, 1, 0), "new": (3, 3, 0)},
            {},
            [("old", 0), ("older", 0)],
            id="each gives what it has",
        ),
    ],
)
def test_rollout_resizes_sets_within_its_limits(
    sets: Sets, rolling: Tree, expected: list[tuple[str, int | str]]
) -> None:
    assert sorted(rolled(3, sets, **rolling)) == sorted(expected)
