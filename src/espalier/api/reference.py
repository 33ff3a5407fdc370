"""Rows of the tables that say what reasons, conditions, Events, annotations, labels and finalizers mean.

The tables are in `api/eksa` and `api/gardener`. `make pages` writes `docs/reference` from them.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Literal, NamedTuple


class Remedy(Enum):
    """The condition for progress."""

    TIME = "time"
    PERSON = "somebody acts"
    CHANGE = "the request changes"
    NONE = "nothing to do"


class Reason(NamedTuple):
    """A reason of conditions, its remedy and its meaning."""

    name: str
    remedy: Remedy
    meaning: str
    kinds: tuple[str, ...]


class ConditionType(NamedTuple):
    """A condition, the kinds that have it, and the meaning of its values."""

    name: str
    kinds: tuple[str, ...]
    meaning: str


class EventReason(NamedTuple):
    """A reason of Events. `to_do` is empty if there is nothing to do."""

    name: str
    type: Literal["Normal", "Warning"]
    on: str
    meaning: str
    to_do: str = ""


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
