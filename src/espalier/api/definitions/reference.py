"""Prose of reasons, conditions, Events, annotations, labels and finalizers, which stands on their constants.

`make pages` writes `docs/reference` from it. Reasons and Events are enumerations. Other names are plain strings, whose
type is annotated with their prose: `READY: Annotated[str, ConditionProse(...)] = "Ready"` (decision 0080).
"""

from __future__ import annotations

from enum import Enum, StrEnum
from types import ModuleType
from typing import Any, Literal, NamedTuple, Self, TypeVar, get_type_hints

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


def satisfied(name: str, meaning: str) -> Prose:
    """The prose of a reason of conditions that are True."""
    return Prose(name, Remedy.NONE, meaning, ())


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


class ConditionProse(NamedTuple):
    """The kinds that have a condition, and the meaning of its values."""

    kinds: tuple[str, ...]
    meaning: str
    placeholder: str = ""
    """The end of the name on pages, where the constant is its beginning."""


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
    ENVIRONMENT = "local environment"


class MetadataProse(NamedTuple):
    """The prose of a key of metadata. `to_do` is empty if there is never anything to do."""

    on: str
    writer: Writer
    meaning: str
    to_do: str = ""
    placeholder: str = ""
    """The end of the key on pages, where the constant is its beginning."""


class Annotation(MetadataProse):
    """The prose of an annotation."""


class Label(MetadataProse):
    """The prose of a label."""


class Finalizer(MetadataProse):
    """The prose of a finalizer."""


P = TypeVar("P", ConditionProse, Annotation, Label, Finalizer)


def described(prose: type[P], *modules: ModuleType) -> list[tuple[str, P]]:
    """The constants of modules that have such prose: their values, in the order of the code, with each prose."""
    return [
        (getattr(module, name) + item.placeholder, item)
        for module in modules
        for name, hint in get_type_hints(module, include_extras=True).items()
        for item in getattr(hint, "__metadata__", ())
        if isinstance(item, prose)
    ]
