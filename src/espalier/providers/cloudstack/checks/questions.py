"""Questions to the API of a CloudStack about one availability zone, and its answers. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from espalier.clusters.checks import questions
from espalier.providers.cloudstack.kinds import AvailabilityZone, Named
from espalier.providers.cloudstack.references import server_of

REACHABLE = "CloudStackReachable"
"""Condition of what is checked: CloudStack answered for each availability zone."""


class Sort(enum.Enum):
    """A sort of thing that CloudStack has: its name in messages."""

    ZONE = "zone"
    NETWORK = "network"
    OFFERING = "compute offering"
    DISK_OFFERING = "disk offering"
    TEMPLATE = "template"
    AFFINITY_GROUP = "affinity group"


class Question(NamedTuple):
    """Asks for the one of an ID, or for those of a name."""

    sort: Sort
    id: str
    name: str

    @classmethod
    def of(cls, sort: Sort, named: Named) -> Question:
        """For what a spec names: the ID counts if both are given."""
        return cls(sort, named.id, "" if named.id else named.name)

    def __str__(self) -> str:
        return self.id or self.name

    @property
    def field(self) -> str:
        """The field that says it."""
        return "id" if self.id else "name"


class Entity(NamedTuple):
    """Something that CloudStack has."""

    id: str
    name: str
    is_customized: bool | None = None
    """Of a disk offering: whoever makes a disk says how large it is. None: nothing was told."""
    is_ready: bool = True
    """Of a template: machines can be made of it."""


class Place(NamedTuple):
    """Where machines are, and whose they are."""

    zone: Question
    domain: str
    account: str
    """Empty: that of the keys."""


class Server(questions.Server, frozen=True):
    """An API of CloudStack."""

    url: str = ""


class Asked(msgspec.Struct, frozen=True):
    """All that is asked in one session: about one availability zone."""

    server: Server
    place: Place
    questions: frozenset[Question] = frozenset()
    network: Question | None = None
    """The network in which `addresses` are looked for."""
    addresses: frozenset[tuple[str, int]] = frozenset()
    """IP addresses with ports that nothing may have yet."""


class Answers(msgspec.Struct, frozen=True):
    """What a CloudStack said."""

    zones: int = 0
    """How many it has that are called so."""
    domains: int | None = None
    """Likewise; None: not asked, as there is no zone."""
    accounts: int | None = None
    """Likewise; None: not asked."""
    entities: Mapping[Question, tuple[Entity, ...]] = {}
    """What it has; those that are not in here were not asked for."""
    holders: Mapping[tuple[str, int], str] = {}
    """Who has an address."""


LookUp: TypeAlias = questions.LookUp[Asked, Answers]
"""Asks a CloudStack."""


def api_of(zone: AvailabilityZone) -> Server:
    """The API of an availability zone. Its Secret says whether certificates are verified."""
    return Server(server_of(zone.management_api_endpoint), url=zone.management_api_endpoint)


def place_of(zone: AvailabilityZone) -> Place:
    """Where machines of an availability zone are."""
    return Place(Question.of(Sort.ZONE, zone.zone), zone.domain, zone.account)
