"""Conclusions of a reconcile from its scope: about re-created Clusters, releases, shared objects."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmConfigTemplate
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects.adoption import Adoption
from espalier.clusters.design.drift.gate import Gate
from espalier.clusters.design.release_objects import release_content
from espalier.clusters.observe.scope import ClusterAPIObjects
from tests.support.objects.made_clusters import kubeconfig, objects
from tests.support.objects.observed_clusters import GARDEN, as_object, datacenter, example, laptop, observer, scope

IDENTITY = "laptop/uid-0"
"""Of the example under the management cluster that is there."""


def noting(annotation: str, value: str) -> Tree:
    cluster = example()[0]
    cluster["metadata"]["annotations"] = {annotation: value} if value else {}
    return cluster


@pytest.mark.parametrize(
    ("noted", "is_made", "again"),
    [
        ("laptop/before", False, True),
        ("laptop/before", True, False),
        ("hub/before", False, False),
        (IDENTITY, False, False),
        ("", False, False),
    ],
    ids=["again", "its objects are there", "from another management cluster", "the same", "never made"],
)
def test_cluster_is_recreated_when_nothing_is_left(noted: str, is_made: bool, again: bool) -> None:
    cluster = noting(metadata_keys.IDENTITY_ANNOTATION, noted)
    observed = scope(cluster, datacenter(), *(objects() if is_made else ()))
    assert observed.identity == IDENTITY
    assert observed.is_made_again is again


def test_unknown_manager_recreates_no_cluster() -> None:
    marker = {"name": "management-cluster", "namespace": "eksa-system", "resourceVersion": "1", "uid": "m"}
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": marker, "data": {}}
    observed = scope(noting(metadata_keys.IDENTITY_ANNOTATION, "/before"), datacenter(), nobody)
    assert observed.identity == ""
    assert not observed.is_made_again


def test_named_record_alone_manages() -> None:
    second: dict[str, Any] = laptop()
    second["metadata"] |= {"namespace": "team-a", "uid": "second"}
    seen = observer(*example(), second, naming_laptop(), datacenter())
    keys = (Key("default", "laptop"), Key("team-a", "laptop"), GARDEN)
    scopes = {key: seen.scope(key) for key in keys}
    assert {key: item.is_management for key, item in scopes.items() if item} == dict(
        zip(keys, (True, False, False), strict=True)
    )
    named = naming_laptop()
    named["data"] = GARDEN._asdict()
    observed = scope(*example(), datacenter(), named)
    assert not observed.is_management, "it does not manage itself"


def naming_laptop() -> Tree:
    metadata = {"name": "management-cluster", "namespace": "eksa-system", "resourceVersion": "1", "uid": "m"}
    data = {"namespace": "default", "name": "laptop"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_replaced_release_is_known_to_its_clusters() -> None:
    there = scope(*example(), datacenter()).release_content
    assert any(name.startswith("Bundles/") for name in there)
    others = dict.fromkeys(there, "0" * 20)
    for noted, is_made, expected in (
        (others, True, tuple(sorted(there))),
        (others, False, ()),
        (there, True, ()),
        ({"Bundles/other": "0" * 20}, True, ()),
    ):
        cluster = noting(metadata_keys.RELEASE_ANNOTATION, release_content.record(noted))
        observed = scope(cluster, datacenter(), *(objects() if is_made else ()))
        assert observed.replaced_releases == expected
        assert observed.release_record == ("" if expected else release_content.record(there))


def test_missing_render_input_records_no_release() -> None:
    observed = scope(*example(kubernetesVersion="1.99"), datacenter())
    assert observed.render_input is None
    assert observed.release_content
    assert observed.release_record == ""


@pytest.mark.parametrize(
    ("others", "stays"),
    [
        ([], False),
        ([{"name": "beside"}], True),
        ([{"name": "beside", "deletionTimestamp": "2026-01-01T00:00:00Z"}], False),
        ([{"name": "beside", "deletionTimestamp": "2026-01-01T00:00:00Z"}, {"name": "too"}], True),
        ([{"name": "elsewhere", "namespace": "team-b"}], False),
    ],
    ids=["alone", "beside another", "both go", "the last of three", "of another namespace"],
)
@pytest.mark.parametrize("is_owner", [True, False])
def test_linked_object_is_kept_for_clusters_that_stay(others: list[Tree], stays: bool, is_owner: bool) -> None:
    going = example()[0]
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    linked = datacenter()
    reference = {"apiVersion": "v", "kind": "Cluster", "name": "garden", "uid": going["metadata"]["uid"]}
    linked["metadata"]["ownerReferences"] = [reference] if is_owner else []
    beside = []
    for number, metadata in enumerate(others):
        cluster = example()[0]
        cluster["metadata"] |= {"uid": f"other-{number}", **metadata}
        beside.append(cluster)
    unlinked = example(datacenterRef={"kind": "DockerDatacenterConfig", "name": "another"})[0]
    unlinked["metadata"] |= {"name": "unlinked", "uid": "unlinked"}
    seen = observer(going, linked, unlinked, *beside)
    observed = seen.scope(GARDEN)
    assert observed is not None
    lent = [child.name for _, child in seen.shared_links_of(observed.object)]
    assert lent == (["garden"] if stays and is_owner else [])


@pytest.mark.parametrize(
    ("generations", "is_made", "expected"),
    [
        ((1, 1), True, Gate.ADOPTED),
        ((0, 1), True, Gate.OPEN),
        ((1, 0), True, Gate.OPEN),
        ((1, 1), False, Gate.OPEN),
    ],
    ids=["reconciled", "the Cluster is another", "a linked object is another", "nothing was made"],
)
def test_hashless_cluster_is_settled_by_generations(
    generations: tuple[int, int], is_made: bool, expected: Gate
) -> None:
    cluster = example()[0]
    cluster["status"] = dict(zip(("observedGeneration", "childrenObservedGeneration"), generations, strict=True))
    assert scope(cluster, datacenter(), *(objects() if is_made else ())).gate is expected


def test_linked_object_is_not_kept_for_leaving_cluster() -> None:
    going, linked = example()[0], datacenter()
    reference = {"apiVersion": "v", "kind": "Cluster", "name": "garden", "uid": going["metadata"]["uid"]}
    linked["metadata"]["ownerReferences"] = [reference]
    seen = observer(going, linked)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert seen.shared_links_of(as_object(going)) == []


def test_unlabelled_objects_of_a_cluster_are_its_own() -> None:
    observed = scope(*example(), datacenter(), *objects())
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "garden", "uid": "uid-Cluster-garden"}
    metadata = {"name": "x", "namespace": "eksa-system", "ownerReferences": [owner]}
    resource = KubeadmConfigTemplate.resource
    tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    assert observed.cluster_ownership(resource, as_object(tree)) == ""
    assert scope(*example(), datacenter()).cluster_ownership(resource, as_object(tree)) != "", (
        "there is no such Cluster"
    )


def test_unlabelled_kubeconfig_needs_a_label() -> None:
    for labels, expected in (({}, None), (names.labels(GARDEN), b"apiVersion: v1\nkind: Config\n")):
        cluster, secret = next(object_ for object_ in objects() if object_["kind"] == "Cluster"), kubeconfig()
        cluster["metadata"]["labels"] = labels
        secret["metadata"]["labels"] |= labels
        capi_objects = ClusterAPIObjects(
            objects={capi.Cluster.resource: {"garden": as_object(cluster)}}, secrets=(as_object(secret),)
        )
        assert capi_objects.kubeconfig == expected


def test_labelled_kubeconfig_of_an_adopted_cluster() -> None:
    """Its Cluster of Cluster API has no labels: the record says whose it is."""
    for owner, expected in ((GARDEN, b"apiVersion: v1\nkind: Config\n"), (Key("team-b", "garden"), None)):
        cluster, secret = next(object_ for object_ in objects() if object_["kind"] == "Cluster"), kubeconfig()
        cluster["metadata"]["labels"] = {}
        secret["metadata"]["labels"] |= names.labels(owner)
        capi_objects = ClusterAPIObjects(
            objects={capi.Cluster.resource: {"garden": as_object(cluster)}},
            secrets=(as_object(secret),),
            adoption=Adoption(*GARDEN),
        )
        assert capi_objects.kubeconfig == expected


def test_kubeconfig_is_the_secret_of_the_clusters_name() -> None:
    ca = kubeconfig()
    ca["metadata"]["name"] = "garden-ca"
    assert ClusterAPIObjects(secrets=(as_object(ca),)).kubeconfig_secret is None
    result = ClusterAPIObjects(secrets=(as_object(ca), as_object(kubeconfig()))).kubeconfig_secret
    assert result is not None
    assert result.name == "garden-kubeconfig"
