"""Which changes of a machine and of a Cluster wake those who read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from espalier.api.meta import Tree
from espalier.clusterapi.names import PAUSED
from espalier.kube.objects import Object
from espalier.runtime.controllers.predicates import change_of
from espalier.simulator.capi import predicates

View = Callable[[Object], Any]

OWNED, COUNTED, EXAMINED = predicates.owned_machine, predicates.counted_machine, predicates.health_checked_machine
EVERYBODY = {OWNED, COUNTED, EXAMINED}


def statement(type_: str, status: str, message: str = "", **more: Any) -> Tree:
    return {"type": type_, "status": status, "reason": "Any", "message": message, **more}


def object_of(kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> Object:
    named: Tree = {"name": "garden", "namespace": "eksa-system", "uid": "1", "generation": 1, "labels": {"a": "b"}}
    body = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {**named, **metadata}}
    return Object(msgspec.json.encode(body | {"spec": spec, "status": status}))


def machine(
    metadata: Mapping[str, Any] = {}, spec: Mapping[str, Any] = {}, *statements: Mapping[str, Any], **status: Any
) -> Object:
    conditions = {
        condition["type"]: condition for condition in (statement("Ready", "False"), statement("NodeHealthy", "Unknown"))
    }
    conditions |= {condition["type"]: condition for condition in statements}
    return object_of("Machine", metadata, {"version": "v1", **spec}, {"conditions": [*conditions.values()], **status})


@pytest.mark.parametrize(
    ("new", "woken"),
    [
        (machine({"resourceVersion": "2", "managedFields": []}), set()),
        (machine({"labels": {"a": "c"}}), EVERYBODY),
        (machine({"deletionTimestamp": "2026-01-01T00:00:00Z"}), EVERYBODY),
        (machine({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "2"}]}), EVERYBODY),
        (machine({"annotations": {"x": ""}}), {OWNED, EXAMINED}),
        (machine({}, {"version": "v2"}), {OWNED, COUNTED}),
        (machine({}, {"deletion": {"nodeDrainTimeoutSeconds": 1}}), {OWNED}),
        (machine({"generation": 2}, {"bootstrap": {"dataSecretName": "x"}}), set()),
        (machine({"generation": 2}, {"bootstrap": {"configRef": {"name": "x"}}}), {OWNED}),
        (machine({"generation": 2}, {"providerID": "docker:////x"}), {EXAMINED}),
        (machine({}, {}, nodeRef={"name": "x"}), {OWNED, EXAMINED}),
        (machine({}, {}, statement("Ready", "False", "another", observedGeneration=2)), set()),
        (machine({}, {}, statement("Ready", "True")), {OWNED, COUNTED}),
        (machine({}, {}, statement("Available", "True")), {OWNED, COUNTED}),
        (machine({}, {}, statement("UpToDate", "False")), {OWNED, COUNTED}),
        (machine({}, {}, statement("EtcdPodHealthy", "True")), {OWNED}),
        (machine({}, {}, statement("OwnerRemediated", "False")), {OWNED, EXAMINED}),
        (machine({}, {}, statement("NodeHealthy", "Unknown", "Kubelet stopped posting node status.")), {EXAMINED}),
        (machine({}, {}, phase="Running", addresses=[{"type": "InternalIP", "address": "10.0.0.1"}]), set()),
    ],
)
def test_change_of_a_machine_wakes_the_concerned(new: Object, woken: set[View]) -> None:
    assert {view for view in EVERYBODY if change_of(view)(machine(), new)} == woken


@pytest.mark.parametrize("view", [OWNED, COUNTED, EXAMINED], ids=lambda view: str(view.__name__))
def test_a_machine_that_comes_or_goes_wakes_everybody(view: View) -> None:
    assert change_of(view)(None, machine())
    assert change_of(view)(machine(), None)


def cluster(metadata: Mapping[str, Any] = {}, **status: Any) -> Object:
    return object_of("Cluster", metadata, {}, status)


@pytest.mark.parametrize(
    ("new", "is_woken"),
    [
        (cluster({"resourceVersion": "2"}, phase="Provisioned"), False),
        (cluster({"annotations": {"x": ""}}), False),
        (cluster({"annotations": {PAUSED: ""}}), True),
        (cluster({"generation": 2}), True),
        (cluster({"uid": "2"}), True),
        (cluster(initialization={"infrastructureProvisioned": True}), True),
        (cluster(initialization={"controlPlaneInitialized": True}), True),
    ],
)
def test_awaited_change_wakes_its_controller(new: Object, is_woken: bool) -> None:
    assert change_of(predicates.awaited_cluster)(cluster(), new) is is_woken
