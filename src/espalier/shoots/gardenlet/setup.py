"""The gardenlet as a component: its rights in the seed, and its construction."""

from __future__ import annotations

from typing import cast

from espalier.api import core
from espalier.api.gardener import SEED_KINDS as KINDS
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.move_times import MoveTimes
from espalier.kube.client import Client
from espalier.kube.rbac import APPLY, FOLLOW, Right, Rights
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.component import Component, Host
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.bucket_providers import BucketProviders
from espalier.shoots.control_plane import accounts
from espalier.shoots.gardenlet import leases
from espalier.shoots.gardenlet.backups.buckets import Backups
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.context import Call, Connect, GardenletTools, ReadBackup, Renderer, ShootAPIs
from espalier.shoots.gardenlet.names import FIELD_MANAGER
from espalier.shoots.gardenlet.observe import ACCOUNT_KINDS, SEED_KINDS, ShootObserver
from espalier.shoots.gardenlet.reconciling import controller, orphans
from espalier.shoots.gardenlet.reports import care, reach, remains, seed_report
from espalier.shoots.gardenlet.reports.heartbeat import Heartbeat
from espalier.shoots.gardenlet.states import known_states
from espalier.shoots.gardenlet.states.known_states import KnownStates
from espalier.shoots.state.store import ShootStates


def component(
    config: GardenletConfig,
    *,
    garden: Client,
    renderer: Renderer,
    call: Call,
    bucket_providers: BucketProviders,
    read_backup: ReadBackup | None = None,
    connect: Connect | None = None,
    shoots: ShootAPIs | None = None,
    random_keys: bool = True,
) -> Component:
    """The component of a process whose manager has the seed's API server.

    `garden` reaches the garden, with the rights of this seed. `call` reaches agents of etcd in the seed, `shoots` the
    API servers of shoots, `read_backup` their buckets, `connect` the stores of other seeds. `bucket_providers`: what
    the providers of buckets declare. Without `random_keys` keys come from the manager's generator: for simulation only.
    """

    def build(host: Host) -> None:
        # Objects of the garden are read through caches of their own; the tools write to both sides.
        manager = host.manager
        caches = Caches(garden, rng=manager.rng)
        observer = ShootObserver(caches, host.caches, config.seed)
        known = KnownStates()
        states = ShootStates(garden, config.seed, cast(Cache, known), known.saw)
        tools = GardenletTools(
            config=config,
            seed=Writer(host.client, observer.seed, FIELD_MANAGER),
            garden=Writer(garden, observer.garden, FIELD_MANAGER),
            clock=manager.clock,
            rng=None if random_keys else manager.rng,
            renderer=renderer,
            call=call,
            bucket_providers=bucket_providers,
            states=states,
            lease_waits=Expiry(),
            handovers=Expiry(),
            read_backup=read_backup,
            shoots=shoots,
        )
        manager.add(caches)
        # The flows of shoots, and the copies of extension states in the garden: a new ShootState wakes its shoot.
        reconciles = controller.controller(observer, tools)
        known.subscribe(reconciles.enqueue)
        manager.add(reconciles)
        manager.add(
            known_states.controller(
                observer.garden[Shoot.resource],
                host.caches,
                known,
                states,
                garden=garden,
                writer=Writer(host.client, {}, FIELD_MANAGER),
                clock=manager.clock,
                seed=config.seed,
                period=config.care,
                rng=manager.rng,
            )
        )
        # Signs of life: the Leases of shoots and of the seed, and conditions. The garden gives a silent seed up.
        manager.add(leases.controller(observer, tools))
        times = MoveTimes(config.timing, config.dns_ttl)
        heartbeat = Heartbeat(config.seed, host.client, garden, manager.clock, config.heartbeat, times)
        manager.add(heartbeat)
        cares = care.controller(observer, tools, manager.rng, lambda: heartbeat.is_lease_renewed, known.problem)
        known.subscribe(cares.enqueue)
        manager.add(cares)
        # Backups, and what is left of shoots that another seed has now.
        if connect is not None:
            manager.add(reach.controller(observer, tools, connect, manager.rng))
        manager.add(orphans.controller(observer, tools))
        manager.add(remains.controller(observer, tools))
        manager.add(seed_report.controller(observer, tools))
        for backup_controller in Backups(observer, tools).controllers():
            manager.add(backup_controller)

    return Component("gardenlet", build, KINDS, RIGHTS)


RIGHTS = Rights(
    watched=(
        *(Right((resource,), ("get", *FOLLOW, *APPLY, "delete")) for resource in SEED_KINDS if resource.namespaced),
        *(Right((kind.resource,), ("patch",), "status") for kind in KINDS if kind.resource.namespaced),
        Right(ACCOUNT_KINDS, ("get", *FOLLOW, *APPLY)),
        Right((core.CORE_EVENT,), APPLY),
        Right((core.POD,), FOLLOW),
    ),
    cluster_scoped=(
        *(Right((resource,), ("get", *FOLLOW, *APPLY, "delete")) for resource in SEED_KINDS if not resource.namespaced),
        Right((core.CUSTOM_RESOURCE_DEFINITION,), FOLLOW),
        Right((core.CLUSTER_ROLE,), ("bind",), names=(accounts.CLUSTER_ROLE,)),
    ),
)
"""Rights in the seed. Those in the garden are granted by the garden (`shoots/garden/roles.py`)."""
