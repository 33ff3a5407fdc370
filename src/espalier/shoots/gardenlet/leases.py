"""The controller that renews leases of Clusters while nothing else happens to their shoots."""

from __future__ import annotations

from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.responsibility import seed_of
from espalier.api.gardener.vocabulary.reasons import ControllerReason
from espalier.api.resource import Key
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.shoots.gardenlet import clusters
from espalier.shoots.gardenlet.context import GardenletTools
from espalier.shoots.gardenlet.names import SHOOT_UID
from espalier.shoots.gardenlet.observe import ShootObserver


def controller(observer: ShootObserver, tools: GardenletTools) -> Controller:
    """The controller: it reads each of the seed's Shoots live every `lease_renewal` seconds, and renews the lease."""
    timing, seed = tools.config.timing, tools.config.seed

    async def reconcile(key: Key) -> Outcome:
        cached = observer.shoot(key)
        if cached is None or seed_of(cached.decode(Shoot)) != seed:
            return Done()
        began = tools.clock.now()
        try:
            shoot = await tools.garden.client.get(Shoot.resource, key.name, key.namespace)
        except NotFound:
            return Done()
        except KubeError as error:
            return Fault(
                ControllerReason.GARDEN_UNREACHABLE,
                f"the lease can't be renewed without the garden: {error}",
                after=timing.lease_renewal / 3,
            )
        if not clusters.may_renew(shoot.decode(Shoot), seed):
            return Done()
        if message := observer.technical_id_conflict(shoot):  # its end may be no event of this Shoot
            return Wait(ControllerReason.TECHNICAL_ID_TAKEN, message, after=timing.lease_renewal)
        cluster = observer.seed[Cluster.resource].get(Key("", observer.technical_id(shoot)))
        uid = shoot.decode(Shoot).status.uid
        if cluster is not None and cluster.metadata.annotations.get(SHOOT_UID) == uid:
            await clusters.renew(tools.seed, cluster, began, timing.lease_validity)
        return Wait(
            ControllerReason.LEASE_RENEWAL_SCHEDULED,
            "the lease will be renewed before it expires",
            after=timing.lease_renewal,
        )

    lease_controller = Controller("lease", reconcile, workers=5, rng=tools.rng)
    lease_controller.watch(
        observer.garden[Shoot.resource], predicate=lambda old, new: old is None or _seeds(old) != _seeds(new)
    )
    return lease_controller


def _seeds(shoot: Object | None) -> tuple[str | None, str | None]:
    if shoot is None:
        return (None, None)
    typed = shoot.decode(Shoot)
    return typed.spec.seed_name, typed.status.seed_name
