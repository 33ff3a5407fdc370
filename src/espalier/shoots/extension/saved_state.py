"""`status.state`: typed for the extension, any JSON value for everybody else."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from espalier.api.trees import json_trees
from espalier.kube.errors import UNREADABLE
from espalier.shoots.extension.errors import StateInvalid, StateTooLarge

S = TypeVar("S")

LARGEST_STATE = 1_400 * 1024
"""The largest state, in bytes. An object must fit into the 1.5 MiB that etcd accepts; the rest is for its other
fields."""


class SavedState(Generic[S]):
    """How a state of this type is saved: as JSON, or `as_text`, a string with JSON (as Terraform's).

    A resource whose extension declares one is never restored without it.
    """

    def __init__(self, type: type[S], *, as_text: bool = False, largest: int = LARGEST_STATE) -> None:
        self._type = type
        self._as_text = as_text
        self._largest = largest

    def encode(self, state: S) -> Any:
        """The value of `status.state`. Raises `StateTooLarge`."""
        value: Any = msgspec.json.encode(state).decode() if self._as_text else msgspec.to_builtins(state)
        size = len(msgspec.json.encode(value))
        if size > self._largest:
            raise StateTooLarge(size, self._largest)
        return value

    def decode(self, value: Any) -> S | None:
        """The state; None if there is none. Raises `StateInvalid` if this extension can't have saved it."""
        if value is None:
            return None
        try:
            if self._as_text:
                return json_trees.decode(msgspec.convert(value, str), self._type)
            return msgspec.convert(value, self._type)
        except UNREADABLE as error:
            message = (
                f"status.state: {error}; allowed: state that this extension saved; restore it from a backup of the "
                "ShootState"
            )
            raise StateInvalid(message) from None
