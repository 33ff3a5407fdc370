"""Rows of the tables that say what reasons, conditions, Events, annotations, labels and finalizers mean.

The tables are in `api/eksa` and `api/gardener`. `make pages` writes `docs/reference` from them.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any, Literal, NamedTuple, Self

from espalier.api.resource import Key


class Remedy(Enum):
    """The condition for progress."""

    TIME = "time"
    PERSON = "somebody acts"
    CHANGE = "the request changes"
    NONE = "nothing to do"


UNCHANGED = "unchanged since"


class Limit(NamedTuple):
    """How long a reason lasts as a rule, and what to look at once it lasts longer."""

    seconds: int
    advice: str
    """`NAME` and `NAMESPACE` stand for those of the object with the condition."""

    def advice_on(self, key: Key) -> str:
        """The advice for an object."""
        return self.advice.replace("NAMESPACE", key.namespace).replace("NAME", key.name)

    def overdue(self, since: str, key: Key) -> str:
        """The end of a message after that: the time since when nothing has changed, and the advice."""
        return f"{UNCHANGED} {since}: {self.advice_on(key)}"


class Prose(NamedTuple):
    """The prose of a reason of conditions: its remedy, its meaning and, of some, how long it lasts."""

    name: str
    remedy: Remedy
    meaning: str
    kinds: tuple[str, ...]
    limit: Limit | None = None
    """For reasons that end by themselves, unless they are `unlimited`."""
    unlimited: str = ""
    """Why a reason that ends by itself needs no limit."""


class Reason(StrEnum):
    """Base of the constants for reasons. A constant is the name that is stored, and has its prose.

    A member is declared with the fields of its prose.
    """

    def __new__(cls, name: str, *_prose: Any) -> Self:
        """A reason, whose value is the name that is stored."""
        reason = str.__new__(cls, name)
        reason._value_ = name
        return reason

    def __init__(self, *fields: Any) -> None:
        self.prose = Prose(*fields)


class ConditionType(NamedTuple):
    """A condition, the kinds that have it, and the meaning of its values."""

    name: str
    kinds: tuple[str, ...]
    meaning: str


class EventProse(NamedTuple):
    """The prose of a reason of Events. `to_do` is empty if there is nothing to do."""

    name: str
    type: Literal["Normal", "Warning"]
    on: str
    meaning: str
    to_do: str = ""


class EventReason(StrEnum):
    """Base of the constants for reasons of Events, as `Reason` is of those of conditions."""

    def __new__(cls, name: str, *_prose: Any) -> Self:
        """A reason, whose value is the name that is stored."""
        reason = str.__new__(cls, name)
        reason._value_ = name
        return reason

    def __init__(self, *fields: Any) -> None:
        self.prose = EventProse(*fields)


class MetadataField(StrEnum):
    """Part of an object's metadata that has a key."""

    ANNOTATION = "annotation"
    LABEL = "label"
    FINALIZER = "finalizer"


class Writer(StrEnum):
    """Writer of a key."""

    USER = "user"
    MANAGER = "manager"
    PROVIDER = "infrastructure provider"
    UPGRADER = "program on the node"
    CLI = "`eksctl anywhere`"
    GARDEN = "garden"
    GARDENLET = "gardenlet"
    EXTENSION = "extension"
    ETCD = "controller of Etcds"
    MACHINES = "machine controller manager"


class MetadataKey(NamedTuple):
    """A key and its meaning. `to_do` is empty if there is never anything to do."""

    key: str
    on: str
    writer: Writer
    meaning: str
    to_do: str = ""
