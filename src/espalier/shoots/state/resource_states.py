"""The state of an extension resource, as found in a seed."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import msgspec

from espalier.api.gardener.extensions.extension import Extended
from espalier.api.gardener.responsibility import is_deletion_confirmed, requested_operation
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.text.printable import quoted
from espalier.api.trees import json_trees
from espalier.kube.objects import Object
from espalier.shoots.state import digests
from espalier.shoots.state.limits import LARGEST_INLINE, LARGEST_STATE, MIB

_NULL = b"null"


class StateKey(NamedTuple):
    """The key of a ShootState's entry: two resources of a kind differ in name, and some in purpose."""

    kind: str
    name: str = ""
    purpose: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" (purpose {self.purpose})" if self.purpose else "")


class ResourceState(msgspec.Struct, frozen=True, dict=True):
    """The state of one extension resource. Its text is opaque, except for comparisons."""

    key: StateKey
    text: bytes = b""
    """JSON; empty if the extension has no state."""
    problem: str = ""
    """The reason why the state can't be stored in a ShootState."""
    is_deleted: bool = False
    """True if the resource is being deleted with what is behind it."""
    waits: bool = False
    """True while the resource is still waiting for its state: its present state means nothing."""

    @property
    def is_large(self) -> bool:
        """True if it is stored in Secrets, and compared by its text."""
        return len(self.text) > LARGEST_INLINE

    @cached_property
    def digest(self) -> str:
        """The digest of the value."""
        return digests.of_value(self.text)

    @cached_property
    def text_digest(self) -> str:
        """The digest of the text."""
        return digests.of_text(self.text)


def state_of(resource: Object, kind: type[Extended]) -> ResourceState:
    """The state of a resource of this kind."""
    key = StateKey(kind.resource.kind, resource.name)
    try:
        extended = resource.decode(kind)
    except msgspec.MsgspecError as error:
        return ResourceState(key, problem=f"the resource can't be read: {quoted(str(error), 200)}")
    purpose = getattr(extended.spec, "purpose", "")
    key = key._replace(purpose=purpose)
    waits = requested_operation(resource.metadata) in (metadata_keys.RESTORE, metadata_keys.WAIT_FOR_STATE)
    is_deleted = resource.metadata.deletion_timestamp is not None and is_deletion_confirmed(resource.metadata)
    text = bytes(extended.status.state) if extended.status.state is not None else b""
    if not text or text == _NULL:
        return ResourceState(key, waits=waits, is_deleted=is_deleted)
    if len(text) > LARGEST_STATE:
        size, limit = len(text) / MIB, LARGEST_STATE // MIB
        return ResourceState(
            key, problem=f"its state has {size:.1f} MiB, at most {limit} MiB are allowed; have the extension save less"
        )
    state = ResourceState(key, text, waits=waits, is_deleted=is_deleted)
    try:
        json_trees.require_flat(text)
        if not state.is_large:
            _ = state.digest  # raises for numbers that are out of range
    except msgspec.MsgspecError as error:
        return ResourceState(key, problem=f"its state can't be carried: {quoted(str(error), 200)}")
    return state
