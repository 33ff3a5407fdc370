"""Previews of a change, without an API server."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from espalier.api.meta import Tree
from espalier.clusters.effects.machines import Fleet
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.preview.previews import Previews
from espalier.kube.objects import Object, to_bytes
from espalier.providers.registry import PROVIDERS
from espalier.runtime.caches.snapshot import Snapshot
from tests.support.objects.observed_clusters import NAMESPACE, NOW, RELEASES, as_object, example, laptop


def previews(*trees: Tree, now: datetime = NOW) -> Previews:
    snapshot = Snapshot()
    observer = ClusterObserver(snapshot, providers=PROVIDERS)
    releases = [Object(to_bytes(object_)) for object_ in RELEASES.objects()]
    snapshot.fill([*releases, as_object(laptop()), *map(as_object, trees)])
    return Previews(snapshot, observer, {"garden": Fleet()}, now=now)


def manifest(**spec: Any) -> list[Tree]:
    trees = example(**spec)
    for tree in trees:
        tree["metadata"] = {"name": tree["metadata"]["name"], "namespace": NAMESPACE}
    return trees
