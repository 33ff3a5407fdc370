"""How a cluster goes: what is deleted, once, and what is waited for until nothing holds the Cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from espalier.api.eksa.vocabulary.group import CLUSTER_FINALIZER
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION as PAUSED
from espalier.api.meta import Tree
from espalier.clusterapi.contract import PAUSED_ANNOTATION
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.controller import deletion_obstacle
from espalier.clusters.act.deletion_steps import delete_cluster, delete_leftovers, remove_finalizer
from espalier.runtime.controllers.outcome import Continue, Done, Outcome, Wait
from espalier.runtime.controllers.sources import Expiry
from tests.support.objects.made_clusters import objects
from tests.support.objects.observed_clusters import datacenter, example
from tests.support.objects.reconciles import NOT_FOUND, Environment, Server, Workload

NOW = "2026-01-01T00:00:00Z"


def going(**metadata: object) -> Tree:
    cluster = example()[0]
    cluster["metadata"] |= {"deletionTimestamp": NOW, "finalizers": [CLUSTER_FINALIZER], **metadata}
    return cluster


def taken(step: Callable[[ClusterContext], Awaitable[Outcome]], *trees: Tree) -> tuple[Outcome, list[tuple[str, str]]]:
    """How the step ends, and what it deletes, with the uid that it names."""

    async def main() -> tuple[Outcome, list[tuple[str, str]]]:
        server = Server({"DELETE": NOT_FOUND})
        outcome = await step(Environment(server, Workload(), Expiry()).begin(*trees))
        deletions = [item for item in server.asked if item.method == "DELETE"]
        results = [("/".join(deletion.path.split("/")[-2:]), _uid(deletion.body)) for deletion in deletions]
        return outcome, results

    return asyncio.run(main())


def _uid(body: bytes) -> str:
    return str(json.loads(body)["preconditions"]["uid"])


def of_kind(kind: str, trees: list[Tree]) -> Tree:
    return next(tree for tree in trees if tree["kind"] == kind)


def test_cluster_api_is_asked_once_to_delete() -> None:
    there = objects()
    outcome, deleted = taken(delete_cluster, going(), datacenter(), *there)
    assert deleted == [("clusters/garden", "uid-Cluster-garden")]
    assert isinstance(outcome, Wait)
    assert outcome.reason == "Deleting"
    of_kind("Cluster", there)["metadata"]["deletionTimestamp"] = NOW
    outcome, deleted = taken(delete_cluster, going(), datacenter(), *there)
    assert (type(outcome), deleted) == (Wait, [])
    gone = [item for item in there if item["kind"] != "Cluster"]
    assert taken(delete_cluster, going(), datacenter(), *gone) == (Continue(), [])


@pytest.mark.parametrize(
    ("workers", "control_planes", "expected"),
    [(2, 1, "2 worker machines"), (1, 1, "1 worker machine "), (0, 1, "1 control plane machine "), (0, 0, "infra")],
)
def test_deletion_reports_remaining_objects_in_order(workers: int, control_planes: int, expected: str) -> None:
    there = objects(control_plane={"replicas": control_planes}, workers={"replicas": workers})
    outcome, _ = taken(delete_cluster, going(), datacenter(), *there)
    assert isinstance(outcome, Wait)
    assert expected in outcome.message


@pytest.mark.parametrize(
    ("status", "message", "told"), [("True", "drains", True), ("False", "no", False), ("True", "", False)]
)
def test_deletion_message_of_cluster_api_is_passed_on(status: str, message: str, told: bool) -> None:
    there = objects()
    condition = {"type": "Deleting", "status": status, "reason": "Deleting", "message": message}
    of_kind("Cluster", there)["status"]["conditions"] = [condition]
    outcome, _ = taken(delete_cluster, going(), datacenter(), *there)
    assert isinstance(outcome, Wait)
    assert ("Cluster API reports: " + message in outcome.message) is told


def test_pause_that_holds_deletion_up_is_reason() -> None:
    there = objects()
    of_kind("KubeadmControlPlane", there)["metadata"]["annotations"] = {PAUSED_ANNOTATION: ""}
    outcome, _ = taken(delete_cluster, going(), datacenter(), *there)
    assert isinstance(outcome, Wait)
    assert outcome.reason == "ClusterAPIPaused"


def secret(*owners: Tree) -> Tree:
    labels = {"cluster.x-k8s.io/cluster-name": "garden"}
    metadata = {"name": "garden-ca", "namespace": "eksa-system", "uid": "s", "resourceVersion": "1", "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata | {"ownerReferences": list(owners)}}


OWNER = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "name": "garden"}


def test_objects_left_by_cluster_api_are_deleted() -> None:
    left = [object_ for object_ in objects() if object_["kind"] in ("MachineHealthCheck", "KubeadmConfigTemplate")]
    outcome, deleted = taken(delete_leftovers, going(), datacenter(), *left)
    assert {path for path, _ in deleted} == {
        "machinehealthchecks/garden-kcp-unhealthy",
        "machinehealthchecks/garden-md-0-worker-unhealthy",
        "kubeadmconfigtemplates/garden-md-0-1",
    }
    assert isinstance(outcome, Wait)
    assert all(name.split("/")[1] in outcome.message for name, _ in deleted)


def test_secrets_of_the_garbage_collector_are_awaited() -> None:
    outcome, deleted = taken(delete_leftovers, going(), datacenter(), secret(OWNER | {"uid": "gone"}))
    assert isinstance(outcome, Wait)
    assert "Secret garden-ca" in outcome.message
    assert deleted == []
    assert taken(delete_leftovers, going(), datacenter(), secret()) == (Continue(), [])
    assert taken(delete_leftovers, going(), datacenter()) == (Continue(), [])


def test_own_finalizer_goes_last() -> None:
    async def main(cluster: Tree) -> list[Tree]:
        server = Server()
        assert (
            await remove_finalizer(Environment(server, Workload(), Expiry()).begin(cluster, datacenter())) == Continue()
        )
        return server.written

    (patch,) = asyncio.run(main(going(finalizers=["example.com/backup", CLUSTER_FINALIZER])))
    assert patch["metadata"]["finalizers"] == ["example.com/backup"]
    assert asyncio.run(main(going(finalizers=["example.com/backup"]))) == []


def test_cluster_held_by_others_is_still_torn_down() -> None:
    """A tenant who takes the finalizer away does not leave machines behind, nor is told that all is gone."""

    async def main(*there: Tree, finalizers: list[str]) -> Outcome:
        cluster = going(finalizers=finalizers)
        return deletion_obstacle(Environment(Server(), Workload(), Expiry()).begin(cluster, datacenter(), *there).scope)

    assert asyncio.run(main(*objects(), finalizers=["example.com/backup"])) == Continue()
    held = asyncio.run(main(finalizers=["example.com/backup"]))
    assert isinstance(held, Wait)
    assert held.message.endswith("waiting for other controllers to remove their finalizers: example.com/backup")
    assert asyncio.run(main(*objects(), finalizers=[])) == Done()


def test_objects_of_a_paused_cluster_stay() -> None:
    async def main(*there: Tree) -> Outcome:
        cluster = going(finalizers=["example.com/backup"], annotations={PAUSED: "true"})
        return deletion_obstacle(Environment(Server(), Workload(), Expiry()).begin(cluster, datacenter(), *there).scope)

    held = asyncio.run(main(*objects()))
    assert isinstance(held, Wait)
    assert held.message.startswith("the objects of the cluster are kept; waiting for other controllers")


def test_orphans_are_named_with_their_finalizers() -> None:
    there = [object_ for object_ in objects() if object_["kind"] != "Cluster"]
    control_plane = of_kind("KubeadmControlPlane", there)
    control_plane["metadata"] |= {"deletionTimestamp": NOW, "finalizers": ["kubeadm.example.com/held"]}
    outcome, _ = taken(delete_leftovers, going(), datacenter(), *there)
    assert isinstance(outcome, Wait)
    assert outcome.message.endswith(
        "if they remain, remove finalizers kubeadm.example.com/held of KubeadmControlPlane eksa-system/garden"
    )
    del control_plane["metadata"]["finalizers"]
    outcome, _ = taken(delete_leftovers, going(), datacenter(), *there)
    assert isinstance(outcome, Wait)
    assert "remove finalizers" not in outcome.message
