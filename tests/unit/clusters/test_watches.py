"""The Clusters that a change of another object wakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.upgrades import ControlPlaneUpgrade
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.design.names import labels
from espalier.clusters.observe.watches import Watches
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome
from tests.support.objects.adoption_records import adopted_cluster, adoption_record
from tests.support.objects.observed_clusters import as_object, laptop, naming, observer
from tests.support.providers.git_repositories import flux
from tests.support.servers.admission_reviews import SPEC, edited


class Mappings(Controller):
    """Keeps what would be enqueued for the objects of each kind."""

    def __init__(self) -> None:
        async def reconcile(_key: Key) -> Outcome:
            return Done()

        super().__init__("cluster", reconcile)
        self.of: dict[str, Callable[[Object], Iterable[Key]]] = {}

    def watch(self, cache: Cache, to_keys: Any = None, **_more: Any) -> None:
        self.of.setdefault(cache.source.resource.kind, to_keys)


def woken(changed: Tree, *others: Tree) -> set[str]:
    """The Clusters that a change of an object wakes among these."""
    mappings = Mappings()
    Watches(observer(changed, *others)).begin(mappings)
    return {str(key) for key in mappings.of[changed["kind"]](as_object(changed))}


def cluster(
    name: str, namespace: str, reference: str = "fleet", kind: str = "FluxConfig", manager: str = "laptop"
) -> Tree:
    metadata = {"metadata.name": name, "metadata.namespace": namespace, "metadata.uid": f"{namespace}/{name}"}
    spec = {SPEC + "gitOpsRef": {"kind": kind, "name": reference}, SPEC + "managementCluster": {"name": manager}}
    return edited(metadata | spec)


def record() -> Tree:
    later = {"metadata.resourceVersion": "2"}
    return edited(later | {SPEC + "gitOpsRef": {"kind": "FluxConfig", "name": "fleet"}}, laptop())


NONE = edited({"metadata.name": "without", "metadata.namespace": "a", SPEC + "gitOpsRef": None})
OTHER_MANAGER = cluster("far", "a", manager="hub")
CLUSTERS = (
    cluster("one", "a"),
    cluster("two", "a", "own"),
    cluster("three", "b", "own"),
    cluster("four", "b"),
    cluster("five", "a", "own", "GitOpsConfig"),
    NONE,
    OTHER_MANAGER,
)
JUDGED = {"default/laptop", "a/one", "a/two", "a/five", "b/three", "b/four"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (flux("own", "a"), {"a/two"}),
        (flux("own", "b"), {"b/three"}),
        (flux("own", "c"), set()),
        (flux("fleet", "b"), {"b/four"}),
        (flux("other", "default"), set()),
        (flux("own", "a") | {"kind": "GitOpsConfig"}, {"a/five"}),
        (flux("fleet", "default") | {"kind": "GitOpsConfig"}, set()),
        (flux("fleet", "default"), JUDGED),
    ],
)
def test_git_ops_wakes_those_it_concerns(changed: Tree, expected: set[str]) -> None:
    assert woken(changed, record(), *CLUSTERS, naming(laptop())) == expected


@pytest.mark.parametrize("others", [(laptop(),), (naming(laptop()) | {"data": {}},)], ids=["no ref", "no record"])
def test_git_ops_that_nobody_shares_wakes_its_users(others: tuple[Tree, ...]) -> None:
    assert woken(flux("fleet", "a"), *CLUSTERS, *others) == {"a/one", "a/far"}
    assert woken(flux("fleet", "default"), *CLUSTERS, *others) == set()


def test_upgrade_of_an_adopted_owner_wakes_its_cluster() -> None:
    """Without a label of Cluster API, an upgrade is known by its controller alone."""
    plane, system = KubeadmControlPlane.resource, "eksa-system"
    controller = {"apiVersion": plane.api_version, "kind": plane.kind, "name": "one", "uid": "plane"}
    upgrade = {
        "apiVersion": ControlPlaneUpgrade.resource.api_version,
        "kind": ControlPlaneUpgrade.resource.kind,
        "metadata": {
            "name": "one-upgrade",
            "namespace": system,
            "uid": "upgrade",
            "resourceVersion": "1",
            "ownerReferences": [{**controller, "controller": True}],
        },
    }
    metadata = {"name": "one", "namespace": system, "uid": "plane", "resourceVersion": "1"}
    theirs = {"apiVersion": plane.api_version, "kind": plane.kind, "metadata": metadata}
    others = (cluster("one", "a"), theirs)
    assert woken(upgrade, *others) == set()
    record = adoption_record(Key("a", "one"), (plane, "one"))
    assert woken(upgrade, *others, record) == set()
    assert woken(upgrade, *others, record, adopted_cluster("one")) == {"a/one"}


def test_objects_of_other_managers_clusters_wake_none() -> None:
    """As those of Clusters in other namespaces than a manager's."""
    plane, other = KubeadmControlPlane.resource, Key("b", "far")
    metadata = {"namespace": "eksa-system", "name": "far", "uid": "plane", "resourceVersion": "1"}
    theirs = {"apiVersion": plane.api_version, "kind": plane.kind, "metadata": metadata | {"labels": labels(other)}}
    assert woken(theirs, cluster("far", "b")) == {"b/far"}
    assert woken(theirs, cluster("near", "a")) == set()
