"""Questions to a Prism Central, and its answers. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from espalier.clusters.report.checks import questions
from espalier.providers.nutanix.kinds import Identifier, NutanixDatacenterConfigSpec
from espalier.providers.nutanix.references import host_of

REACHABLE = "PrismCentralReachable"
"""Condition of what is checked: Prism Central answered."""


class ObjectType(enum.Enum):
    """A kind of entity: its collection in the API, and its name in messages."""

    CLUSTER = ("clusters", "cluster")
    SUBNET = ("subnets", "subnet")
    IMAGE = ("images", "image")
    PROJECT = ("projects", "project")

    def __init__(self, collection: str, label: str) -> None:
        self.collection = collection
        self.label = label


class Question(NamedTuple):
    """Asks for the entities with a name, ignoring case, or for the entity with a UUID."""

    object_type: ObjectType
    by_uuid: bool
    value: str

    @classmethod
    def of(cls, object_type: ObjectType, identifier: Identifier) -> Question:
        """The question for an entity in a spec."""
        return cls(object_type, identifier.type == "uuid", str(identifier))

    def matches(self, entity: Entity) -> bool:
        """True if the entity is asked for."""
        identity = entity.uuid if self.by_uuid else entity.name
        return identity.casefold() == self.value.casefold()


class Entity(NamedTuple):
    """An entity in Prism Central."""

    uuid: str
    name: str
    cluster: str = ""
    """UUID of the Prism Element cluster that it is in; empty: it is in all."""


class CategoryValue(NamedTuple):
    """A value of a category."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}: {self.value}"


class GpuModel(NamedTuple):
    """GPUs of one model, in one mode, of a Prism Element cluster."""

    cluster: str
    """UUID of the cluster."""
    name: str
    device_id: int
    mode: str
    number: int


class Server(questions.Server, frozen=True):
    """A Prism Central."""

    authorities: str = ""
    """Certificates that are trusted besides those of this machine."""


def server_of(spec: NutanixDatacenterConfigSpec) -> Server:
    """The Prism Central of a datacenter."""
    return Server(host_of(spec), spec.insecure, spec.additional_trust_bundle)


class Query(msgspec.Struct, frozen=True):
    """All questions of one session."""

    server: Server
    questions: frozenset[Question] = frozenset()
    categories: frozenset[CategoryValue] = frozenset()
    gpus: bool = False
    """True if GPUs are asked for."""


class Answers(msgspec.Struct, frozen=True):
    """Answers of a Prism Central."""

    entities: Mapping[Question, tuple[Entity, ...]] = {}
    categories: frozenset[CategoryValue] = frozenset()
    """The requested values that exist."""
    gpus: tuple[GpuModel, ...] | None = None
    """None if GPUs are unknown."""


LookUp: TypeAlias = questions.LookUp[Query, Answers]
"""Asks a Prism Central."""
