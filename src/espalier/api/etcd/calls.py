"""Calls to the source's agent in a migration: `copyop/initiate` and `copyop/status`, which it answers at any time."""

from __future__ import annotations

import msgspec

from espalier.api.etcd.ownership import CopyOperation, Epoch


class InitiateCopyOperation(msgspec.Struct, frozen=True, rename="camel"):
    """The body of `copyop/initiate`. An agent of another epoch refuses: the call is of another migration."""

    epoch: Epoch
    """The epoch that is to end."""


class CopyOperationStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of both calls: what the agent read of its CopyOperation last."""

    epoch: Epoch
    """The agent's own."""
    initiated: bool
    """A CopyOperation was seen in the container. Until then a caller repeats `copyop/initiate`."""
    copy_operation: CopyOperation | None = None
    message: str = ""
    """For people: why the agent can't tell, or what it waits for."""
