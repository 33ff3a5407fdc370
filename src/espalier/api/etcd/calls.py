"""Calls to the source's agent in a migration: `copyop/initiate` and `copyop/status`, which it answers at any time."""

from __future__ import annotations

from typing import Annotated

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
