"""Remains of Shoots that are gone from the garden: the seed was given up, and they were deleted elsewhere."""

from __future__ import annotations

from espalier.api import json_trees
from espalier.api.gardener.cluster import Cluster
from espalier.api.gardener.operations import OperationType
from espalier.api.gardener.shoot import Shoot
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controller import Controller
from espalier.runtime.outcome import Done, Fault, Outcome
from espalier.shoots.flow.runner import run
from espalier.shoots.gardenlet.context import Context, Live, Tools
from espalier.shoots.gardenlet.flows import LEAVE
from espalier.shoots.gardenlet.names import SHOOT_UID
from espalier.shoots.gardenlet.observe import Observer


def controller(observer: Observer, tools: Tools) -> Controller:
    """The controller, by Cluster. A Shoot keeps its finalizer until its control plane is deleted, so the remains of one
    that is gone are useless: extensions release them, and delete nothing."""
    clusters = observer.seed[Cluster.resource]

    async def reconcile(key: Key) -> Outcome:
        cluster = clusters.get(key)
        remembered = _remembered(cluster) if cluster is not None else None
        if remembered is None or observer.shoot_of(key.name) is not None:
            return Done()
        try:
            found = await tools.garden.client.get(Shoot.resource, remembered.name, remembered.namespace)
        except NotFound:
            pass
        except KubeError as error:
            return Fault("GardenUnreachable", f"it is unknown whether the Shoot of {key.name} is gone: {error}")
        else:
            if found.metadata.uid == remembered.metadata.uid:
                return Done()
        live = Live(remembered, None)

        def observe() -> Context:
            return Context(observer.scope(live, tools.clock.now()), tools, live, OperationType.DELETE)

        return (await run(LEAVE, observe)).outcome

    made = Controller("orphan", reconcile, workers=2, rng=tools.rng)
    made.watch(clusters)
    made.watch(
        observer.garden[Shoot.resource],
        lambda shoot: [Key("", observer.technical_id(shoot))],
        predicate=lambda _old, new: new is None,
    )
    for resource, cache in observer.seed.items():
        if resource.namespaced:
            made.watch(cache, lambda found: [Key("", found.namespace)], predicate=lambda _old, new: new is None)
    return made


def _remembered(cluster: Object) -> Object | None:
    """The Shoot as the Cluster has it."""
    raw = cluster.decode(Cluster).spec.shoot
    if not raw:
        return None
    tree: Tree = json_trees.decode(bytes(raw))
    metadata = tree.get("metadata") or {}
    status = tree.get("status") or {}
    if not metadata.get("uid") or status.get("uid") != cluster.metadata.annotations.get(SHOOT_UID):
        return None
    identity = {"apiVersion": Shoot.resource.api_version, "kind": "Shoot"}
    return Object(encode_json({**tree, **identity}))
