"""Calls to the agent beside an etcd, answered at any time: `copyop/initiate`, `copyop/status` and `backup/status`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from espalier.api.etcd.ownership import CopyOperation, Epoch


class InitiateCopyOperation(msgspec.Struct, frozen=True, rename="camel"):
    """The body of `copyop/initiate`. An agent of another epoch refuses: the call is of another migration."""

    epoch: Epoch
    """The epoch that is to end."""
    api_servers_ended: bool = False
    """No pod of an API server is left that could answer for this epoch, and none will be made. The agent need not wait
    for `servingGrace`, unless a client of etcd was connected since."""
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0
    """The answer may be held back for so long, until the CopyOperation is more than `Initial`."""


class CopyOperationStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of both calls: what the agent read of its CopyOperation last."""

    epoch: Epoch
    """The agent's own."""
    initiated: bool
    """A CopyOperation was seen in the container. Until then a caller repeats `copyop/initiate`."""
    copy_operation: CopyOperation | None = None
    message: str = ""
    """For people: why the agent can't tell, or what it waits for."""


Time: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$")]
"""RFC 3339; empty: there is none."""


class BackupStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of `backup/status`: what would be lost with the etcd."""

    epoch: Epoch
    """The agent's own."""
    serves: bool
    """Clients are let in to etcd."""
    delta_period: float
    """Seconds after which what was acknowledged is stored at the latest, while the store takes it."""
    latest_full: Time = ""
    latest_delta: Time = ""
    """When the newest snapshots of each kind were taken. A delta is taken only where something has changed."""
    unstored_since: Time = ""
    """Since then something was acknowledged that no snapshot has."""
    store_unreadable_since: Time = ""
    deactivates_in: float | None = None
    """Seconds until clients are not let in any more, unless the store can be read again; None while it can."""
    message: str = ""
    """For people: why snapshots fail, or the store can't be read."""
