"""Upgrades of clusters that another manager has, by its namespaces or its label."""

from __future__ import annotations

import random
from typing import Any

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.upgrades import ControlPlaneUpgrade
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL
from espalier.clusters.design import names
from espalier.kube.client import Client
from espalier.runtime.caches.cache import Caches
from espalier.runtime.options import Options
from espalier.upgrades.observed.observe import UpgradeObserver
from tests.support.objects.observed_clusters import NoServer, fill


def tree(resource: Resource, name: str, labels: dict[str, str]) -> Tree:
    metadata = {"namespace": "eksa-system", "name": name, "uid": name, "resourceVersion": "1"}
    labels = {CLUSTER_NAME_LABEL: "garden", **labels}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata | {"labels": labels}}


@pytest.mark.parametrize(
    ("options", "labels", "is_ours"),
    [
        (Options(), names.labels(Key("a", "garden")), True),
        (Options(namespaces=("a",)), names.labels(Key("a", "garden")), True),
        (Options(namespaces=("b",)), names.labels(Key("a", "garden")), False),
        (Options(namespaces=("b",)), {}, True),
        (Options(watch_filter="east"), names.labels(Key("a", "garden"), "east"), True),
        (Options(watch_filter="east"), names.labels(Key("a", "garden"), "west"), False),
        (Options(watch_filter="east"), names.labels(Key("a", "garden")), False),
    ],
)
def test_upgrades_of_other_managers_are_left_alone(options: Options, labels: dict[str, str], is_ours: bool) -> None:
    caches = Caches(Client(NoServer()), rng=random.Random(1), options=options)
    tracker: Any = None
    observer = UpgradeObserver(caches, tracker, options)
    plane, upgrade = KubeadmControlPlane.resource, ControlPlaneUpgrade.resource
    fill(caches, [tree(plane, "garden", labels), tree(upgrade, "garden-upgrade", {})])
    for object_ in (observer.owner(plane, "garden"), observer.upgrade(upgrade, "garden-upgrade")):
        assert object_ is not None
        assert (observer.unless_of_others(object_) is not None) is is_ours
    assert observer.unless_of_others(None) is None
