"""Adoption of machines without a controller, as Cluster API does it."""

from __future__ import annotations

from collections.abc import Callable

from espalier.api.capi.machine import Machine
from espalier.api.meta import OwnerReference
from espalier.api.resource import Key
from espalier.clusterapi.objects import controller_of
from espalier.kube.objects import Object
from espalier.runtime.outcome import Wait
from espalier.simulator.capi.inventory import in_cluster
from espalier.simulator.capi.scheme import Scheme
from espalier.simulator.concurrency import together


def orphans(scheme: Scheme, cluster: Key, selects: Callable[[Machine], bool]) -> tuple[Object, ...]:
    """The selected machines of a cluster without a controller, except those being deleted."""
    return tuple(
        found
        for found in in_cluster(scheme.inventory.machines, cluster)
        if controller_of(found.metadata) is None
        and found.metadata.deletion_timestamp is None
        and selects(found.decode(Machine))
    )


async def adopt(scheme: Scheme, found: tuple[Object, ...], owner: OwnerReference) -> Wait:
    """Make `owner` the controller of these machines. They count once the change shows in the cache."""
    await together(scheme.writer.add_owner(Machine.resource, machine, owner) for machine in found)
    return Wait(
        "MachinesAdopted", f"waiting for the cache to show adopted machines {', '.join(one.name for one in found)}"
    )
