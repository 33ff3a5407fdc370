"""The records of clusters that were taken over: whose objects they claim, and that not everybody's record counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusters.design.cluster_objects import adoption
from espalier.clusters.design.cluster_objects.adoption import Adoption
from espalier.clusters.observe.adoptions import Adoptions, read
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden
from espalier.kube.objects import Object, to_bytes
from espalier.runtime.caches.snapshot import Snapshot

CLUSTER = Key("team-a", "garden")


def made(uid: str = "living", name: str = "garden") -> Object:
    metadata = {"namespace": SYSTEM_NAMESPACE, "name": name, "uid": uid}
    resource = capi.Cluster.resource
    return Object(
        to_bytes({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": {}})
    )


def record(owner: str = "living", name: str = "garden-adoption") -> Object:
    recorded = Adoption(*CLUSTER, objects=("KubeadmControlPlane garden", "Cluster garden"))
    reference = {"apiVersion": capi.Cluster.resource.api_version, "kind": "Cluster", "name": "garden", "uid": owner}
    metadata: Tree = {
        "namespace": SYSTEM_NAMESPACE,
        "name": name,
        "labels": {metadata_keys.ADOPTED_LABEL: "garden"},
        "ownerReferences": [reference] if owner else [],
    }
    tree = CONFIG_MAP.body("", "") | {"metadata": metadata, "data": {adoption.FIELD: adoption.text_of(recorded)}}
    return Object(to_bytes(tree))


def adoptions(*objects: Object) -> Adoptions:
    snapshot = Snapshot()
    result = Adoptions(snapshot)
    snapshot.fill(objects)
    return result


def test_record_of_a_living_cluster_claims_its_objects() -> None:
    assert adoptions(record(), made()).claiming(KubeadmControlPlane.resource, "garden") == [CLUSTER]
    assert adoptions(record(), made()).owner_of(capi.Cluster.resource, made()) == CLUSTER
    assert adoptions(record(), made()).claiming(KubeadmControlPlane.resource, "other") == []


@pytest.mark.parametrize(
    "objects",
    [(record(),), (record(), made("another")), (record(""), made()), (record(name="x-adoption"), made())],
    ids=["no cluster", "a cluster made since", "no owner", "another name"],
)
def test_record_of_no_living_cluster_claims_nothing(objects: tuple[Object, ...]) -> None:
    result = adoptions(*objects)
    assert result.claiming(KubeadmControlPlane.resource, "garden") == []
    assert result.owner_of(capi.Cluster.resource, made()) is None


class Limited:
    """A client of somebody who may list some kinds only."""

    def __init__(self, *allowed: Object) -> None:
        self._allowed = allowed

    async def list(self, resource: Resource, _namespace: str, *, labels: str) -> Any:
        items = [object_ for object_ in self._allowed if object_.kind == resource.kind]
        if not items:
            raise Forbidden.of(f"no right to list {resource.plural}, with {labels}")
        return SimpleNamespace(items=items)


@pytest.mark.parametrize(
    ("objects", "unread", "is_known"),
    [
        ((record(), made()), None, True),
        ((record(),), capi.Cluster.resource, False),
        ((made(),), CONFIG_MAP, False),
        ((), CONFIG_MAP, False),
    ],
    ids=["all", "records alone", "clusters alone", "nothing"],
)
async def test_records_that_are_unreadable_are_told(
    objects: tuple[Object, ...], unread: Resource | None, is_known: bool
) -> None:
    told: list[str] = []
    result = await read(cast(Client, Limited(*objects)), told.append)
    assert bool(result.claiming(KubeadmControlPlane.resource, "garden")) is is_known
    named = [f"you may not list {unread.group_resource} in namespace eksa-system"] if unread is not None else []
    assert [text.partition(",")[0] for text in told] == named
