"""Single steps of a reconcile: left-over Secrets, health checks that are not due, shared objects."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import CLUSTER_FINALIZER
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.act.machine_steps import make_control_plane, make_workers
from espalier.clusters.act.secret_steps import find_left_over_secrets, read_left_over_secrets
from espalier.clusters.act.step import ClusterStep
from espalier.clusters.act.steps import add_finalizer, find_children, leave_children, own_children
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.drift import gate
from espalier.clusters.observe.references import Missing
from espalier.kube.transports.wire import Request, Response
from espalier.runtime.controllers.outcome import Continue, Wait
from espalier.runtime.controllers.sources import Expiry
from tests.support.objects.made_clusters import objects
from tests.support.objects.observed_clusters import GARDEN, datacenter, example, laptop, scope
from tests.support.objects.reconciles import Environment, Server, Workload, step


class Secrets(Server):
    """A server with one Secret, which lists find by its name."""

    def __init__(self, name: str, labels: Tree) -> None:
        super().__init__()
        self.name = name
        self.labels = labels

    async def request(self, request: Request) -> Response:
        await super().request(request)
        is_it = request.query.get("fieldSelector") == f"metadata.name={self.name}"
        metadata = {"name": self.name, "namespace": "eksa-system", "uid": "s", "labels": self.labels}
        items = [{"metadata": metadata | {"resourceVersion": "1"}}] if is_it else []
        answer = {"apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "1"}, "items": items}
        return Response(200, json.dumps(answer).encode())


@pytest.mark.parametrize("name", [key.name for key in object_names.secrets("garden")])
@pytest.mark.parametrize(
    ("labels", "is_made", "stops"),
    [
        ({}, False, True),
        (names.labels(Key("team-b", "garden")), False, True),
        (names.labels(GARDEN), False, False),
        ({}, True, False),
    ],
    ids=["nobody's", "another's", "meant for it", "its cluster is there"],
)
def test_leftover_keys_stop_a_cluster_before_creation(name: str, labels: Tree, is_made: bool, stops: bool) -> None:
    async def main() -> None:
        server = Secrets(name, labels)
        p = Environment(server, Workload(), Expiry()).begin(*example(), datacenter(), *(objects() if is_made else ()))
        assert await read_left_over_secrets(p) == Continue()
        outcome = await ClusterStep(find_left_over_secrets)(p)
        if stops:
            assert isinstance(outcome, Wait)
            assert (outcome.reason, outcome.after) == ("ClusterNameTaken", 60.0)
            assert f"eksa-system/{name}" in outcome.message
        else:
            assert outcome == Continue()
            assert bool(server.asked) is not is_made, "a cluster that is made asks nothing"

    asyncio.run(main())


def applied(trees: list[Tree], act: Any) -> list[str]:
    """The health checks that a step applies."""
    outcome, written, _ = step(ClusterStep(act), trees)
    assert outcome == Continue()
    return [body["metadata"]["name"] for body in written if body.get("kind") == "MachineHealthCheck"]


CHECKS = ["garden-kcp-unhealthy", "garden-md-0-worker-unhealthy"]


@pytest.mark.parametrize(
    ("mark", "ready", "there", "due"),
    [
        ("kindnet-1", 1, False, True),
        ("kindnet-1", 0, False, False),
        ("", 1, False, False),
        ("", 0, False, False),
        ("", 0, True, True),
    ],
    ids=["nodes can be ready", "none is ready yet", "no CNI", "neither", "they are there, and are changed"],
)
@pytest.mark.parametrize(("act", "name"), [(make_control_plane, CHECKS[0]), (make_workers, CHECKS[1])])
def test_health_checks_come_when_nodes_can_be_ready(
    act: Any, name: str, mark: str, ready: int, there: bool, due: bool
) -> None:
    """Else they replace all machines."""
    made = objects(control_plane={"readyReplicas": ready})
    made = [item for item in made if there or item["kind"] != "MachineHealthCheck"]
    for tree in made:
        if tree["kind"] == "Cluster":
            tree["metadata"]["annotations"] = {metadata_keys.CNI_ANNOTATION: mark} if mark else {}
        if tree["kind"] == "MachineHealthCheck":
            tree["spec"]["selector"] = {"matchLabels": {"edited": "by-hand"}}
    assert applied([*example(), datacenter(), *made], act) == ([name] if due else [])


def owned(tree: Tree, *uids: str) -> Tree:
    owners = [{"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster", "name": uid} for uid in uids]
    tree["metadata"]["ownerReferences"] = [item | {"uid": uid} for item, uid in zip(owners, uids, strict=True)]
    return tree


def owners_after(act: Any, *trees: Tree) -> list[list[str]]:
    """The uids of the owners in each patch of a step."""
    outcome, written, _ = step(act, trees)
    assert outcome == Continue()
    return [[owner["uid"] for owner in body["metadata"]["ownerReferences"]] for body in written]


def test_linked_objects_are_owned_unless_of_the_record() -> None:
    uid = example()[0]["metadata"]["uid"]
    assert owners_after(own_children, *example(), datacenter()) == [[uid]]
    record = laptop()
    record["metadata"] |= {"namespace": "team-a", "resourceVersion": "2"}
    record["spec"]["datacenterRef"] = {"kind": "DockerDatacenterConfig", "name": "garden"}
    assert owners_after(own_children, *example(), owned(datacenter(), uid, "other"), record) == [["other"]]
    assert owners_after(own_children, *example(), datacenter(), record) == []
    unknown = {"name": "management-cluster", "namespace": "eksa-system", "uid": "m", "resourceVersion": "1"}
    nobody: Tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": unknown, "data": {}}
    assert owners_after(own_children, *example(), datacenter(), nobody) == [], "whose it is is not known"


def test_objects_of_another_cluster_are_left_to_it() -> None:
    cluster, beside = example()[0], example()[0]
    cluster["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    beside["metadata"] |= {"name": "beside", "uid": "other"}
    uid = cluster["metadata"]["uid"]
    assert owners_after(leave_children, cluster, beside, owned(datacenter(), uid, "other")) == [["other"]]
    assert owners_after(leave_children, cluster, beside, owned(datacenter(), uid)) == [[]], "it owns it soon"
    assert owners_after(leave_children, cluster, owned(datacenter(), uid)) == []


class Answering(Server):
    """Answers patches of metadata with the Cluster as it is then."""

    def __init__(self, cluster: Tree) -> None:
        super().__init__()
        self._cluster = cluster

    async def request(self, request: Request) -> Response:
        await super().request(request)
        metadata = self._cluster["metadata"] | json.loads(request.body)["metadata"]
        return Response(200, json.dumps(self._cluster | {"metadata": metadata}).encode())


def test_opened_gate_closes_on_the_former_content() -> None:
    """The reconcile's own write counts, not what it read."""

    async def main() -> None:
        cluster = example()[0]
        before = Environment(Server(), Workload(), Expiry()).begin(cluster, datacenter()).scope.content_hash
        cluster["metadata"].setdefault("annotations", {})[metadata_keys.GATE_ANNOTATION] = before
        server = Answering(cluster)
        p = Environment(server, Workload(), Expiry()).begin(cluster, datacenter())
        await p.open_gate()
        await p.open_gate()
        await p.close_gate()
        noted = [patch["metadata"]["annotations"].get(metadata_keys.GATE_ANNOTATION) for patch in server.written]
        assert noted == [gate.OPENED, before]

    asyncio.run(main())


@pytest.mark.parametrize("there", [[], ["example.com/backup"], [CLUSTER_FINALIZER]])
def test_a_cluster_is_held_once(there: list[str]) -> None:
    cluster = example()[0]
    cluster["metadata"]["finalizers"] = there

    async def main() -> None:
        server = Answering(cluster)
        p = Environment(server, Workload(), Expiry()).begin(cluster, datacenter())
        assert await add_finalizer(p) == Continue()
        assert len(server.asked) == (CLUSTER_FINALIZER not in there)
        assert {*there, CLUSTER_FINALIZER} == set(p.scope.cluster.metadata.finalizers)

    asyncio.run(main())


def test_health_checks_without_a_cni_do_not_wait() -> None:
    made = [object_ for object_ in objects() if object_["kind"] != "MachineHealthCheck"]
    for tree in made:
        if tree["kind"] == "Cluster":
            tree["metadata"]["annotations"] = {}
    cluster = example()[0]
    cluster["spec"]["clusterNetwork"].pop("cniConfig")
    assert applied([cluster, datacenter(), *made], make_workers) == [CHECKS[1]]


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (Missing("spec.a", "Secret eksa-system/a", is_credentials=True), Reason.CLUSTER_INVALID),
        (Missing("spec.a", "DockerDatacenterConfig a"), Reason.MISSING_DEPENDENT_OBJECTS),
    ],
    ids=["a Secret", "an object that rules are about"],
)
def test_waiting_cluster_still_tells_what_is_wrong(missing: Missing, reason: str) -> None:
    """Whoever made the Secret would only learn then that the Cluster has to be changed."""
    wrong = scope(*example(controlPlaneConfiguration={"count": 2}), laptop())
    results = find_children(msgspec.structs.replace(wrong, missing=(missing,)))
    assert isinstance(results, Wait)
    assert results.reason == reason
    right = scope(*example(), laptop())
    results = find_children(msgspec.structs.replace(right, missing=(missing,)))
    assert isinstance(results, Wait)
    assert results.reason in (Reason.CREDENTIALS_NOT_PERMITTED, Reason.MISSING_DEPENDENT_OBJECTS)
