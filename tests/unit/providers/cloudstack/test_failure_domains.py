"""CAPC names what it makes of a failure domain by zone and cluster, run together: of two clusters of different names it
may be one object, and the second would use the zone and the keys of the first.
"""

from __future__ import annotations

import json

from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report.validity import problem
from tests.support.objects.observed_clusters import observer
from tests.support.objects.rendered_manifests import FORK
from tests.support.providers.cloudstack import credentials, manifest, of
from tests.support.providers.examples import stored

HERS, HIS = Key("team-a", "harbor"), Key("team-b", "xharbor")
# az-x and harbor, az- and xharbor: both are az-xharbor.


def cluster(key: Key, zone: str, born: str) -> list[Tree]:
    text = json.dumps(stored(manifest(key.namespace))).replace("harbor", key.name).replace("192.0.2.15", "192.0.2.17")
    trees: list[Tree] = json.loads(text)
    trees[0]["metadata"] |= {"creationTimestamp": born, "uid": f"uid-{key.name}"}
    of(trees, "CloudStackDatacenterConfig", key.name)["availabilityZones"][0]["name"] = zone
    return trees


def made(key: Key, zone: str) -> Tree:
    """The CloudStackCluster that was made for a cluster."""
    where = {"name": "zone-az-1", "network": {"name": "network-az-1"}}
    domain = {"name": zone, "zone": where, "acsEndpoint": {"name": "global", "namespace": SYSTEM_NAMESPACE}}
    labels = {CLUSTER_NAME_LABEL: key.name, CLUSTER_NAMESPACE_LABEL: key.namespace}
    return {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta3",
        "kind": "CloudStackCluster",
        "metadata": {"name": key.name, "namespace": SYSTEM_NAMESPACE, "labels": labels, "uid": f"uid-of-{key.name}"},
        "spec": {"failureDomains": [domain]},
    }


def seen(key: Key, *trees: Tree) -> Scope:
    scope = observer(*trees, credentials(namespace="*"), FORK).scope(key)
    assert scope is not None
    return scope


OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def test_younger_cluster_is_refused_and_older_is_not() -> None:
    trees = (*cluster(HERS, "az-x", OLD), *cluster(HIS, "az-", NEW))
    assert seen(HERS, *trees).contested == ()
    ((name, holder),) = seen(HIS, *trees).contested
    assert holder == HERS
    assert name == "CloudStackFailureDomain 80f4d047661193b46ee22835467156c6"
    assert seen(HIS, *cluster(HERS, "az-x", OLD), *cluster(HIS, "az-2", NEW)).contested == ()


def test_existing_objects_keep_an_older_owner() -> None:
    trees = (*cluster(HERS, "az-x", NEW), *cluster(HIS, "az-", OLD), made(HERS, "az-x"), made(HIS, "az-2"))
    assert seen(HERS, *trees).contested == ()
    his = seen(HIS, *trees)
    assert [holder for _, holder in his.contested] == [HERS]
    stopped = problem(his)
    assert stopped is not None
    assert stopped.reason == "ClusterNameTaken", stopped.message
    assert "worker node groups or failure domains" in stopped.message
