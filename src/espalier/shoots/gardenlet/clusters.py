"""The Cluster of a shoot in the seed: what extensions read of the shoot, and the lease within which they may act.

The lease counts from before a live read of the Shoot in the garden, and only a read that shows the shoot as this seed's
own, with no migration requested, renews it (G75 to G77).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from espalier.api.conditions import parse_timestamp
from espalier.api.gardener.extensions import leases
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.responsibility import migrating, seed_of
from espalier.api.gardener.vocabulary.operations import OperationState
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.controllers.writer import NameTaken, Precondition, Writer
from espalier.shoots.gardenlet import rendering
from espalier.shoots.gardenlet.scope import Scope

SHOWN = ("technicalID", "uid", "seedName", "hibernated", "gardener")
"""The fields of the Shoot's status that Clusters have: the others change often and are of no use to extensions."""


RENEWED_RECENTLY = 1 / 24
"""The part of its validity within which a lease is not renewed again: 5 seconds of 2 minutes."""


def may_renew(shoot: Shoot, seed: str) -> bool:
    """True if the Shoot that was read allows this seed's extensions to act."""
    return seed_of(shoot) == seed and not migrating(shoot)


async def sync(seed: Writer, scope: Scope, read_began: datetime | None, validity: float) -> Object:
    """Update the Cluster from the Shoot, and renew its lease; not without `read_began`.

    Sends a request to the seed's API server even if nothing is to be written: a gardenlet that can't reach it starts
    nothing (G80).
    """
    key = Key("", scope.technical_id)
    present = await seed.read(Cluster.resource, key)
    lease = leases.renewed(read_began, timedelta(seconds=validity)) if read_began is not None else None
    if present is not None and lease is not None and _was_just_renewed(present, lease, validity):
        lease = None
    wanted = _wanted(scope, lease)
    if present is None:
        return await seed.client.create(Cluster.resource, wanted)
    holder = scope.holder_of(present)
    if holder != scope.uid:
        raise NameTaken(Cluster.resource, key, f"of the shoot with UID {holder or 'none'}")
    return await seed.merge(Cluster.resource, present, wanted, Precondition.UID)


def _was_just_renewed(cluster: Object, lease: str, validity: float) -> bool:
    """True if the lease was renewed a moment ago: reconciles in quick succession do not write it each time."""
    present_expiration, new_expiration = leases.expiration(cluster.decode(Cluster)), parse_timestamp(lease)
    if present_expiration is None or new_expiration is None:
        return False
    return timedelta() <= new_expiration - present_expiration < timedelta(seconds=validity * RENEWED_RECENTLY)


async def renew(seed: Writer, cluster: Object, read_began: datetime, validity: float) -> None:
    """Renew the lease and nothing else, never to an earlier time than the present one."""
    lease = leases.renewed(read_began, timedelta(seconds=validity))
    if cluster.decode(Cluster).spec.lease_expiration < lease:
        await seed.merge(Cluster.resource, cluster, {"spec": {"leaseExpiration": lease}}, Precondition.UID)


def _wanted(scope: Scope, lease: str | None) -> Tree:
    body = rendering.cluster(scope, lease=lease)
    shoot = body["spec"]["shoot"]
    status = shoot.get("status") or {}
    last = status.get("lastOperation") or {}
    shown = {field: status[field] for field in SHOWN if field in status}
    if last:
        shown["lastOperation"] = _last_operation(last)
    metadata = {
        field: value
        for field, value in shoot["metadata"].items()
        if field in ("name", "namespace", "uid", "generation", "labels", "deletionTimestamp")
    }
    body["spec"]["shoot"] = {**shoot, "metadata": metadata, "status": shown}
    return body


def _last_operation(last: Tree) -> Tree:
    """The part of the last operation that extensions use. State Error is shown as Processing: each change would make
    every extension retry at once, whatever its back-off."""
    shown: Tree = {field: last[field] for field in ("type", "state") if field in last}
    return {**shown, "state": OperationState.PROCESSING} if shown.get("state") == OperationState.ERROR else shown
