"""Objects in the caches of a manager for some namespaces, of Clusters in others: what is left of them."""

from __future__ import annotations

import pytest

from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects.object_names import ClusterOwnership
from espalier.clusters.observe.cached.own_fields import of_share, with_our_content, with_our_fields
from espalier.clusters.observe.observe import written
from espalier.clusters.observe.predicates import relevant
from espalier.kube.objects import Object
from espalier.providers.registry import PROVIDERS
from espalier.runtime.options import Options
from tests.support.objects.made_clusters import objects
from tests.support.objects.observed_clusters import applied, as_object

OURS, THEIRS = Key("a", "garden"), Key("b", "garden")
SHARE = Options(namespaces=("a",))
RESOURCES = {kind.kind: kind for kind in written(PROVIDERS) if kind.kind in {tree["kind"] for tree in objects()}}


def made_for(cluster: Key, kind: str) -> Object:
    tree = applied(next(tree for tree in objects() if tree["kind"] == kind))
    tree["metadata"].setdefault("labels", {}).update(names.labels(cluster))
    return as_object(tree)


@pytest.mark.parametrize("kind", RESOURCES)
def test_names_of_others_stay_taken(kind: str) -> None:
    resource = RESOURCES[kind]
    complete, reduced = made_for(THEIRS, kind), of_share(with_our_fields, SHARE)(made_for(THEIRS, kind))
    assert (reduced.key, reduced.metadata.uid, reduced.resource_version) == (
        complete.key,
        complete.metadata.uid,
        complete.resource_version,
    )
    for key in (OURS, THEIRS, Key("a", "other")):
        ownership = ClusterOwnership(key, "")
        assert ownership(resource, reduced) == ownership(resource, complete)
    assert (set(reduced.tree) <= {"apiVersion", "kind", "metadata", "spec"}, len(reduced.raw) < 1500) == (True, True)
    assert relevant(resource)(reduced, reduced) is False, "it can be decoded"


@pytest.mark.parametrize("kind", RESOURCES)
def test_objects_of_own_namespaces_stay_as_they_are(kind: str) -> None:
    ours = of_share(with_our_fields, SHARE)(made_for(OURS, kind))
    assert ours.raw == with_our_fields(made_for(OURS, kind)).raw
    assert ours.metadata.managed_fields == with_our_fields(made_for(OURS, kind)).metadata.managed_fields


def test_caches_that_are_shared_have_one_transform() -> None:
    assert of_share(with_our_fields, SHARE) is of_share(with_our_fields, Options(namespaces=("a",)))
    assert of_share(with_our_fields, SHARE) is not of_share(with_our_content, SHARE)
    assert of_share(with_our_fields, Options()) is with_our_fields
