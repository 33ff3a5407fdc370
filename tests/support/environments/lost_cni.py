"""A workload cluster whose CNI somebody deletes."""

from __future__ import annotations

from espalier.api.capi.machine import Machine
from espalier.api.core import CLUSTER_ROLE, DAEMON_SET
from espalier.kube.objects import Object
from tests.support.environments.managed_environment import ManagedEnvironment

RESYNC = 300.0


async def lose_cni(env: ManagedEnvironment) -> None:
    workload = await env.workload()
    await workload.delete(DAEMON_SET, "kindnet", "kube-system")
    await workload.delete(CLUSTER_ROLE, "kindnet")


def made_since(env: ManagedEnvironment) -> set[str]:
    """Names of all Machines that are made from now on, as they come."""
    seen: set[str] = set()

    def note(old: Object | None, new: Object | None, _first: bool) -> None:
        if old is None and new is not None:
            seen.add(new.name)

    cache = env.capi_objects.of(Machine.resource)
    cache.subscribe(note)
    seen.clear()
    return seen
