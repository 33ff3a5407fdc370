"""Calls to the agent of an etcd, answered at any time: `copyop/initiate`, `copyop/status` and `backup/status`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from espalier.api.etcd.ownership import CopyOperation, Epoch

OWN = "own"
"""The parameter of `backup/status` with which an agent asks that of another member, which then asks no further one."""


class InitiateCopyOperation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The body of `copyop/initiate`. An agent of another epoch rejects it: it belongs to another migration.

    Fields are given by name: two of them are seconds.
    """

    epoch: Epoch
    """The epoch to end."""
    api_servers_ended: bool = False
    """No API server pod is left that could answer for this epoch, and none will be created. The agent need not wait for
    `servingGrace`, unless an etcd client has connected since."""
    api_servers_ended_for: Annotated[float, msgspec.Meta(ge=0, le=7 * 86400)] = 0
    """Seconds since which the caller has known that."""
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0
    """How long the agent may delay its answer, waiting for the CopyOperation to be more than `Initial`."""


class CopyOperationStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of both calls: the CopyOperation as the agent last read it."""

    epoch: Epoch
    """The agent's own."""
    initiated: bool
    """A CopyOperation was seen in the container. Until then a caller repeats `copyop/initiate`."""
    copy_operation: CopyOperation | None = None
    message: str = ""
    """For people: why the agent can't tell, or what it waits for."""
    shut: bool = False
    """Nothing passes this agent's proxy any more, nor ever will in this epoch."""
    silent: bool = False
    """Besides, no API server answers from a cache that it filled through this proxy."""


Time: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$")]
"""RFC 3339; empty: there is none."""


class BackupStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of `backup/status`: what would be lost with the etcd."""

    epoch: Epoch
    """The agent's own."""
    serves: bool
    """Clients can connect to etcd."""
    delta_period: float
    """Seconds after which acknowledged writes are stored at the latest, while the store is writable."""
    latest_full: Time = ""
    latest_delta: Time = ""
    """When the newest snapshot of each kind was taken. A delta is taken only if something has changed."""
    unstored_since: Time = ""
    """Since when there are acknowledged writes that are in no snapshot."""
    store_unreadable_since: Time = ""
    deactivates_in: float | None = None
    """Seconds until etcd stops serving unless the store becomes readable; None while it is readable."""
    follows: bool = False
    """The agent of another member takes the snapshots, and knows more about them."""
    message: str = ""
    """For people: why snapshots fail, or the store can't be read."""
