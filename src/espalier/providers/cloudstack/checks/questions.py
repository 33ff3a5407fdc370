"""Questions to the API of a CloudStack about one availability zone, and its answers. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from espalier.clusters.report.checks import questions
from espalier.providers.cloudstack.kinds import AvailabilityZone, Named
from espalier.providers.cloudstack.references import server_of

REACHABLE = "CloudStackReachable"
"""Condition of what is checked: CloudStack answered for each availability zone."""


class ObjectType(enum.Enum):
    """A kind of object in CloudStack; the value is its name in messages."""

    ZONE = "zone"
    NETWORK = "network"
    OFFERING = "compute offering"
    DISK_OFFERING = "disk offering"
    TEMPLATE = "template"
    AFFINITY_GROUP = "affinity group"


class Question(NamedTuple):
    """Asks for the object with an ID, or for those with a name."""

    object_type: ObjectType
    id: str
    name: str

    @classmethod
    def of(cls, object_type: ObjectType, named: Named) -> Question:
        """The question for an object in a spec. The ID takes precedence over the name."""
        return cls(object_type, named.id, "" if named.id else named.name)

    def __str__(self) -> str:
        return self.id or self.name

    @property
    def field(self) -> str:
        """The field that names the object."""
        return "id" if self.id else "name"


class Entity(NamedTuple):
    """An object in CloudStack."""

    id: str
    name: str
    is_customized: bool | None = None
    """True for a disk offering with custom size; None if unknown."""
    is_ready: bool = True
    """False for a template that is not ready to use."""


class Place(NamedTuple):
    """The zone of machines, and the account that owns them."""

    zone: Question
    domain: str
    account: str
    """Empty for the account of the keys."""


class Server(questions.Server, frozen=True):
    """An API of CloudStack."""

    url: str = ""


class Query(msgspec.Struct, frozen=True):
    """All questions of one session, about one availability zone."""

    server: Server
    place: Place
    questions: frozenset[Question] = frozenset()
    network: Question | None = None
    """The network to search for `addresses`."""
    addresses: frozenset[tuple[str, int]] = frozenset()
    """IP addresses with ports that must be unused."""


class Answers(msgspec.Struct, frozen=True):
    """Answers of a CloudStack."""

    zones: int = 0
    """The number of zones with the name or ID."""
    domains: int | None = None
    """The number of domains; None if not asked, because there is no zone."""
    accounts: int | None = None
    """The number of accounts; None if not asked."""
    entities: Mapping[Question, tuple[Entity, ...]] = {}
    """Objects by question. Missing questions were not asked."""
    holders: Mapping[tuple[str, int], str] = {}
    """The user of each address that is in use."""


LookUp: TypeAlias = questions.LookUp[Query, Answers]
"""Asks a CloudStack."""


def api_of(zone: AvailabilityZone) -> Server:
    """The API of an availability zone. Its Secret sets whether certificates are verified."""
    return Server(server_of(zone.management_api_endpoint), url=zone.management_api_endpoint)


def place_of(zone: AvailabilityZone) -> Place:
    """The zone and account for machines of an availability zone."""
    return Place(Question.of(ObjectType.ZONE, zone.zone), zone.domain, zone.account)
