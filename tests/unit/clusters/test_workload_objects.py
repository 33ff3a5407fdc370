"""A provider's objects in the workload cluster: the note about them, and what follows from it."""

from __future__ import annotations

from espalier.api.core import CLUSTER_ROLE, CONFIG_MAP
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.clusters.design.rendered import Manifest
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan import workload_objects
from espalier.clusters.plan.workload_objects import Installed, PendingObjects, WorkloadObject
from tests.support.providers.orchard_clusters import cluster, linked, made, scope_of, see

OBJECTS = (WorkloadObject(CONFIG_MAP, Key("kube-system", "a")), WorkloadObject(CLUSTER_ROLE, Key("", "system:orchard")))


def noted(text: str) -> Scope:
    trees = made(scope_of(see(cluster("garden"), *linked()), "garden"))
    of_cluster_api = next(tree for tree in trees if tree["kind"] == "Cluster")
    of_cluster_api["metadata"]["annotations"] = {metadata_keys.WORKLOAD_OBJECTS_ANNOTATION: text}
    return scope_of(see(cluster("garden"), *linked(), *trees), "garden")


def test_a_note_is_read_back() -> None:
    for installed in (Installed("1a2b", OBJECTS), Installed(names.UNFINISHED, OBJECTS[:1]), Installed("1a2b")):
        assert workload_objects.installed(noted(str(installed))) == installed
    assert str(Installed()) == ""
    assert workload_objects.installed(noted("")) == Installed()


def test_edited_note_names_no_unreadable_objects() -> None:
    """The objects read from it are deleted: one that has too few parts is none."""
    result = workload_objects.installed(noted("1a2b v1/configmaps,/v1/configmaps/ConfigMap/kube-system/a"))
    assert result.objects == OBJECTS[:1]


def test_a_digest_is_another_when_the_content_is() -> None:
    def manifest(value: str) -> Manifest:
        body: Tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "kube-system"}}
        return Manifest(CONFIG_MAP, body | {"data": {"x": value}})

    digests = {workload_objects.digest([manifest(value)]) for value in ("1", "2")} | {workload_objects.digest([])}
    assert len(digests) == 3
    assert workload_objects.placed([manifest("1")]) == OBJECTS[:1]


def test_objects_are_due_when_note_and_render_differ() -> None:
    new = workload_objects.due(noted(""))
    assert new is not None
    assert (new.installed.objects, new.superfluous) == (workload_objects.placed(new.manifests), ())
    assert workload_objects.due(noted(str(new.installed))) is None
    more = Installed(new.installed.digest, (*new.installed.objects, *OBJECTS))
    assert workload_objects.due(noted(str(more))) == PendingObjects(new.manifests, OBJECTS, new.installed)
