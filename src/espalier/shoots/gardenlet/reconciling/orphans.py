"""Remains of Shoots that are gone from the garden: the seed was given up, and they were deleted elsewhere."""

from __future__ import annotations

from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.gardener.vocabulary.reasons import ControllerReason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.trees import json_trees
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome
from espalier.shoots.flow.runner import run
from espalier.shoots.gardenlet.context import GardenletTools, Live, ShootContext
from espalier.shoots.gardenlet.names import SHOOT_UID
from espalier.shoots.gardenlet.observe import ShootObserver
from espalier.shoots.gardenlet.reconciling.flows import LEAVE


def controller(observer: ShootObserver, tools: GardenletTools) -> Controller:
    """The controller, by Cluster. A Shoot keeps its finalizer until its control plane is deleted, so the objects of a
    Shoot that is gone are useless: flow Leave removes them, and nothing is deleted at the provider."""
    clusters = observer.seed[Cluster.resource]

    async def reconcile(key: Key) -> Outcome:
        cluster = clusters.get(key)
        shoot = _shoot_in(cluster) if cluster is not None else None
        if shoot is None or observer.shoot_of(key.name) is not None:
            return Done()
        try:
            live_shoot = await tools.garden.client.get(Shoot.resource, shoot.name, shoot.namespace)
        except NotFound:
            pass
        except KubeError as error:
            return Fault(
                ControllerReason.GARDEN_UNREACHABLE, f"it is unknown whether the Shoot of {key.name} is gone: {error}"
            )
        else:
            if live_shoot.metadata.uid == shoot.metadata.uid:
                return Done()
        live = Live(shoot, None)

        def observe() -> ShootContext:
            return ShootContext(observer.scope(live, tools.clock.now()), tools, live, OperationType.DELETE)

        return (await run(LEAVE, observe)).outcome

    orphans = Controller("orphan", reconcile, workers=2, rng=tools.rng)
    orphans.watch(clusters)
    orphans.watch(
        observer.garden[Shoot.resource],
        lambda shoot: [Key("", observer.technical_id(shoot))],
        predicate=lambda _old, new: new is None,
    )
    for resource, cache in observer.seed.items():
        if resource.namespaced:
            orphans.watch(cache, lambda object_: [Key("", object_.namespace)], predicate=lambda _old, new: new is None)
    return orphans


def _shoot_in(cluster: Object) -> Object | None:
    """The Shoot in a Cluster; None if it has none, or one of another UID than its annotation."""
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
