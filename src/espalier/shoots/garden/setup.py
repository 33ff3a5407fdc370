"""The garden's controllers as a component: kinds, rights, and construction."""

from __future__ import annotations

from espalier.api import core
from espalier.api.gardener import GARDEN_KINDS
from espalier.api.gardener.garden.backups import BackupBucket, BackupEntry
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.credentials_binding import CredentialsBinding
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.kube.rbac import APPLY, FOLLOW, Right, Rights
from espalier.runtime.component import Component, Host
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.garden.controller import Garden
from espalier.shoots.garden.namespaces import Namespaces
from espalier.shoots.garden.operation_events import OperationEvents
from espalier.shoots.garden.orphaned_states import OrphanedStates
from espalier.shoots.garden.roles import WRITTEN, Roles
from espalier.shoots.garden.seed_leases import SeedLeases


def component(config: GardenConfig | None = None) -> Component:
    """The component of a process whose manager has the garden's API server."""
    settings = config or GardenConfig()

    def build(host: Host) -> None:
        manager, caches = host.manager, host.caches
        written = {resource: caches.of(resource) for resource in (Shoot.resource, Seed.resource)}
        writer = Writer(host.client, written, "gardener-controller-manager")
        seed_leases = SeedLeases(host.client, manager.clock, settings)
        manager.add(Namespaces(host.client))
        manager.add(seed_leases)
        for garden_controller in Garden(caches, writer, manager.clock, settings, seed_leases).controllers():
            manager.add(garden_controller)
        manager.add(OperationEvents(caches, manager.recorder))
        manager.add(Roles(caches, writer).controller())
        manager.add(OrphanedStates(caches, writer, manager.clock).controller())

    return Component("garden", build, GARDEN_KINDS, RIGHTS)


RIGHTS = Rights(
    watched=(
        Right((Shoot.resource,), (*FOLLOW, "patch")),
        Right((Shoot.resource,), ("patch",), "status"),
        Right((Shoot.resource,), ("patch",), "binding"),
        Right((BackupEntry.resource, CredentialsBinding.resource), FOLLOW),
        Right((core.LEASE,), ("list",)),
        Right((core.CORE_EVENT,), APPLY),
        Right(
            tuple(resource for resource in WRITTEN if resource.namespaced),
            (*FOLLOW, *APPLY, "delete", "escalate", "bind"),
        ),
    ),
    cluster_scoped=(
        Right((core.NAMESPACE,), ("get", "create")),
        Right((Seed.resource, BackupBucket.resource, CloudProfile.resource), FOLLOW),
        Right((Seed.resource,), ("patch",)),
        Right((Seed.resource,), ("patch",), "status"),
        Right(
            tuple(resource for resource in WRITTEN if not resource.namespaced),
            (*FOLLOW, *APPLY, "delete", "escalate", "bind"),
        ),
    ),
)
"""A Shoot gets its seed by `binding` where the API server is Gardener's.

It grants gardenlets rights that it does not have itself, such as on ShootStates: hence `escalate` and `bind`.
"""

IN_STATE_NAMESPACE = (Right((core.SECRET,), ("get", *FOLLOW, "delete")),)
"""Its rights in `names.STATE_NAMESPACE`: to list Secrets, and to delete those of Shoots that are gone."""
