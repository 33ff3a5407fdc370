"""Whose an object is: every combination of what it says of itself; and which names are looked up."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable

import pytest

from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineHealthCheck
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.cluster_objects.object_names import ClusterOwnership
from espalier.clusters.observe.observe import written
from espalier.kube.client import Client
from espalier.kube.errors import Conflict, Invalid
from espalier.kube.transports.wire import Response
from espalier.providers.docker.cluster_api import DockerMachineTemplate
from espalier.providers.registry import PROVIDERS
from espalier.runtime.controllers.writer import NameTaken, Writer
from tests.support.objects.observed_clusters import GARDEN, applied, as_object, observer
from tests.support.objects.reconciles import NOT_FOUND, Server
from tests.support.servers.admission_reviews import SPEC, ask, edited, garden

WRITTEN = written(PROVIDERS)
OF_CLUSTER = [resource for resource in WRITTEN if object_names.is_of_cluster(resource)]
UID = "uid-of-the-gardens-cluster"
OTHER = Key("team-b", "other")


def owner(name: str, uid: str, kind: str = "Cluster", group: str = "cluster.x-k8s.io/v1beta2") -> Tree:
    return {"apiVersion": group, "kind": kind, "name": name, "uid": uid}


LABELS: list[tuple[Tree, str]] = [
    ({}, ""),
    (names.labels(GARDEN), "ours"),
    (names.labels(OTHER), "theirs"),
    (names.labels(Key(OTHER.namespace, GARDEN.name)), "theirs"),
    ({CLUSTER_NAME_LABEL: OTHER.name}, ""),
    ({CLUSTER_NAMESPACE_LABEL: OTHER.namespace}, ""),
]
OWNERS: list[tuple[list[Tree], str]] = [
    ([], ""),
    ([owner("garden", UID)], "ours"),
    ([owner("garden", "of one before it")], ""),
    ([owner("garden", "")], ""),
    ([owner("other", "u")], "theirs"),
    ([owner("garden", UID), owner("other", "u")], "theirs"),
    ([owner("other", "u", group="cluster.x-k8s.io/v1beta1")], "theirs"),
    ([owner("other", "u", kind="KubeadmControlPlane")], ""),
    ([owner("other", "u", group="anywhere.eks.amazonaws.com/v1alpha1")], ""),
    ([owner("other", UID, kind="ConfigMap", group="v1")], ""),
]
NAMED: list[tuple[Tree, str]] = [
    ({}, ""),
    ({"clusterName": ""}, ""),
    ({"clusterName": "garden"}, ""),
    ({"clusterName": "other"}, "theirs"),
]
"""Objects named by the spec of a MachineDeployment or a MachineHealthCheck."""


@pytest.mark.parametrize("uid", [UID, ""], ids=["with a Cluster", "without one"])
@pytest.mark.parametrize("resource", WRITTEN, ids=[resource.kind for resource in WRITTEN])
def test_ownership_needs_a_proof_and_no_contradiction(resource: Resource, uid: str) -> None:
    belongs = ClusterOwnership(GARDEN, uid)
    specs = NAMED if resource in (MachineDeployment.resource, MachineHealthCheck.resource) else NAMED[:1]
    for (labels, by_label), (owners, by_owner), (spec, by_name) in itertools.product(LABELS, OWNERS, specs):
        metadata = {"name": "x", "namespace": "eksa-system", "labels": labels, "ownerReferences": owners}
        tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        namespaces = {by_label, by_owner if uid or by_owner != "ours" else "", by_name}
        if uid and resource in OF_CLUSTER:
            namespaces.add("ours")  # by its name: EKS Anywhere labels none of them
        holder = belongs(resource, as_object(tree))
        assert (not holder) is ("ours" in namespaces and "theirs" not in namespaces), (labels, owners, spec, holder)
        if "theirs" in namespaces:
            assert "other" in holder or str(Key(OTHER.namespace, GARDEN.name)) in holder
        elif holder:
            assert "without the labels of any Cluster" in holder


def needed(resource: Resource, known: Iterable[str] = ()) -> list[str]:
    return list(object_names.needed("garden", ["md-0", "md-1"], resource, known))


def test_next_writable_names_are_read() -> None:
    workers = ["garden-md-0-1", "garden-md-1-1"]
    assert [resource.kind for resource in OF_CLUSTER] == [
        *("Cluster", "DockerCluster", "VSphereCluster", "TinkerbellCluster", "NutanixCluster", "CloudStackCluster"),
        *("AWSSnowCluster", "KubeadmControlPlane"),
    ]
    for resource in OF_CLUSTER:
        assert needed(resource) == ["garden"]
    assert needed(MachineDeployment.resource) == ["garden-md-0", "garden-md-1"]
    assert needed(DockerMachineTemplate.resource) == ["garden-control-plane-1", *workers]
    assert needed(KubeadmConfigTemplate.resource) == workers
    known = ["garden-md-0-7", "garden-md-1-30", "garden-control-plane-3", "other-md-0-99", "garden-md-0-x", "a"]
    assert needed(KubeadmConfigTemplate.resource, known) == [
        *(f"garden-md-0-{number}" for number in range(1, 9)),
        *(f"garden-md-1-{number}" for number in range(10, 32)),
    ]


def test_clusters_that_could_need_a_name_are_all_found() -> None:
    assert list(object_names.prefixes("core-md-0-1")) == ["core", "core-md", "core-md-0", "core-md-0-1"]
    assert list(object_names.prefixes("core")) == ["core"]


# Writes.


def control_plane(**metadata: object) -> Tree:
    described = {"name": "garden", "namespace": "eksa-system", "labels": names.labels(GARDEN)}
    resource = KubeadmControlPlane.resource
    return applied({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": described | metadata})


def writer(server: Server, *seen: Tree) -> Writer:
    return observer(*seen).writer(Client(server))


def delete(server: Server, *seen: Tree, of: Tree | None = None) -> None:
    asked = as_object(of or control_plane())
    asyncio.run(writer(server, *seen).delete(KubeadmControlPlane.resource, asked, ClusterOwnership(GARDEN, "")))


@pytest.mark.parametrize("seen", [(), (control_plane(),)], ids=["unseen", "seen"])
def test_deletion_is_of_exactly_object_that_was_judged(seen: tuple[Tree, ...]) -> None:
    server = Server({"DELETE": Response(200, json.dumps(control_plane()).encode())})
    delete(server, *seen)
    (request,) = server.asked
    assert json.loads(request.body)["preconditions"] == {"uid": "uid-KubeadmControlPlane-garden"}
    assert request.path.endswith("/namespaces/eksa-system/kubeadmcontrolplanes/garden")
    delete(Server({"DELETE": NOT_FOUND}), *seen)
    conflict = Response(409, b'{"kind":"Status","reason":"Conflict","code":409}')
    with pytest.raises(Conflict):
        delete(Server({"DELETE": conflict}), *seen)


def test_deletion_is_never_sent_for_a_foreign_object() -> None:
    theirs, server = control_plane(labels=names.labels(OTHER)), Server()
    for seen, of in (((theirs,), control_plane()), ((), theirs), ((theirs,), theirs)):
        with pytest.raises(NameTaken, match=r"KubeadmControlPlane.* eksa-system/garden .made for Cluster team-b/other"):
            delete(server, *seen, of=of)
    assert server.asked == []


@pytest.mark.parametrize(
    "details",
    [{}, {"details": {"causes": []}}, {"details": {"causes": [{"field": "spec.replicas"}]}}],
    ids=["without details", "without causes", "of another field"],
)
def test_other_refusals_are_reported_unchanged(details: Tree) -> None:
    refusal = {"kind": "Status", "reason": "Invalid", "code": 422, **details}
    server = Server({"PATCH": Response(422, json.dumps(refusal).encode())})
    body: Tree = {"metadata": {"name": "garden", "namespace": "eksa-system"}}
    with pytest.raises(Invalid):
        asyncio.run(writer(server).apply(KubeadmControlPlane.resource, body, ClusterOwnership(GARDEN, "")))


# What admission says of names.

GROUPS = SPEC + "workerNodeGroupConfigurations"


def with_groups(*groups: str, cluster: str = "garden", count: int = 1) -> Tree:
    return edited({GROUPS: [{"name": group, "count": count} for group in groups]}, garden(cluster))


def test_names_that_others_need_are_refused_when_new() -> None:
    other = edited({"metadata.uid": "o", "metadata.namespace": "team-b"}, with_groups("md-0", cluster="garden-web"))
    before, after = with_groups("web-md-0"), with_groups("web-md-0", count=2)
    assert '"garden-web-md-0", like those of cluster team-b/garden-web' in ask(before, None, other).message
    assert ask(after, before, other).allowed, "it stands: the controller sees whose the objects are"
    message = ask(with_groups("fine", "web-md-0"), with_groups("fine"), other).message
    assert "spec.workerNodeGroupConfigurations[1].name" in message
    assert "[0]" not in message


@pytest.mark.parametrize(
    ("labels", "owners", "refused"),
    [
        (names.labels(OTHER), [], True),
        ({}, [], False),
        (names.labels(GARDEN), [owner("other", "u")], False),
        (names.labels(GARDEN), [], False),
    ],
    ids=["of a cluster", "nobody's", "ours by label", "ours"],
)
def test_names_of_invisible_objects_are_refused(labels: Tree, owners: list[Tree], refused: bool) -> None:
    """Their namespace is not watched. What was made for none is left to the controller: it may be gone by then."""
    for resource, name in (
        (KubeadmConfigTemplate.resource, "garden-md-0-1"),
        (MachineDeployment.resource, "garden-md-0"),
    ):
        metadata = {"name": name, "namespace": "eksa-system", "labels": labels, "ownerReferences": owners}
        there = applied({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata})
        answer = ask(with_groups("fine", "md-0"), None, there)
        assert answer.allowed is not refused
        assert ("like those of cluster team-b/other" in answer.message) is refused
        assert ("spec.workerNodeGroupConfigurations[1].name" in answer.message) is refused
        assert "spec.workerNodeGroupConfigurations[0]" not in answer.message
        assert "metadata.name" not in answer.message
        assert ask(with_groups("md-1"), None, there).allowed
