from __future__ import annotations

from espalier.api.identity import ClusterIdentity, owner_of
from espalier.api.meta import ObjectMeta, OwnerReference
from espalier.api.resource import Key

GARDEN = Key("team-a", "garden")
CLUSTER = OwnerReference(api_version="cluster.x-k8s.io/v1beta2", kind="Cluster", name="garden", uid="u-1")


def labelled(labels: dict[str, str], *owners: OwnerReference) -> ObjectMeta:
    return ObjectMeta(name="garden", namespace="eksa-system", labels=labels, owner_references=list(owners))


def test_requests_by_cluster_and_objects_are_equal() -> None:
    asked = ClusterIdentity.of(GARDEN)
    identity = ClusterIdentity.of_objects("garden", [labelled({}), labelled(asked.labels, CLUSTER)])
    assert identity == asked
    assert hash(identity) == hash(asked)
    assert identity.uid == "u-1"
    assert identity.capi == Key("eksa-system", "garden")
    assert identity.key("garden-md-0") == Key("eksa-system", "garden-md-0")


def test_equal_names_in_two_namespaces_are_different() -> None:
    assert ClusterIdentity.of(GARDEN) != ClusterIdentity.of(Key("team-b", "garden"))
    assert ClusterIdentity.of(GARDEN).capi == ClusterIdentity.of(Key("team-b", "garden")).capi


def test_objects_without_a_cluster_belong_to_nobody() -> None:
    alone = ClusterIdentity.of_objects("garden", [labelled({"cluster.x-k8s.io/cluster-name": "garden"}, CLUSTER)])
    assert alone == ClusterIdentity.unowned("garden")
    assert alone.labels == {"cluster.x-k8s.io/cluster-name": "garden"}
    assert owner_of(alone.labels) is None
    assert owner_of(ClusterIdentity.of(GARDEN).labels) == GARDEN
