"""The API of the simulated cloud: its items, requests and errors.

Extensions and machine controller manager call it; `simulator/cloud` implements it, in the same process.
As in real clouds, only names of buckets must be unique; tags identify the owner of an item.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

LONGEST_USER_DATA = 64 * 1024
MOST = 100

Name = Annotated[str, Meta(min_length=1, max_length=253)]
Tags = Annotated[dict[str, Annotated[str, Meta(max_length=253)]], Meta(max_length=MOST)]


class Item(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="kind"):
    """Something in the inventory of an account. The cloud gives the `id`."""

    id: str = ""
    name: Name
    tags: Tags = field(default_factory=dict)


class Network(Item, frozen=True, kw_only=True, tag="Network"):
    """A network for virtual machines."""

    cidr: Annotated[str, Meta(max_length=43)]


class VirtualMachine(Item, frozen=True, kw_only=True, tag="VirtualMachine"):
    """A virtual machine. It boots for a while, and then follows its user data."""

    network: str
    """Id of a network of the same account."""
    size: Name
    image: Name
    user_data: Annotated[bytes, Meta(max_length=LONGEST_USER_DATA)] = b""
    state: Literal["Pending", "Running"] = "Pending"
    address: str = ""


class Bucket(Item, frozen=True, kw_only=True, tag="Bucket"):
    """A container of objects. Its name is unique in the whole cloud."""


class Record(Item, frozen=True, kw_only=True, tag="Record"):
    """A DNS record. `name` and `type` are unique within the account."""

    type: Literal["A", "AAAA", "CNAME", "TXT"] = "A"
    values: Annotated[list[str], Meta(max_length=MOST)]
    ttl: Annotated[int, Meta(ge=1, le=86400)] = 120


AnyItem: TypeAlias = Network | VirtualMachine | Bucket | Record
ItemKind = Literal["Network", "VirtualMachine", "Bucket", "Record"]


class Create(Struct, frozen=True, tag="Create", rename="camel"):
    """Create an item. The cloud assigns `id`, state and address."""

    item: Network | VirtualMachine | Bucket


class ListItems(Struct, frozen=True, tag="List", rename="camel"):
    """All items of a kind that have these tags."""

    kind: ItemKind
    tags: Tags = field(default_factory=dict)


class Delete(Struct, frozen=True, tag="Delete", rename="camel"):
    """Delete an item; `NotFound` if it does not exist."""

    kind: ItemKind
    id: str


class SetRecord(Struct, frozen=True, tag="SetRecord", rename="camel"):
    """Make this the record of its name and type."""

    record: Record


AnyCall: TypeAlias = Create | ListItems | Delete | SetRecord


class Credentials(Struct, frozen=True, rename="camel"):
    """The credentials of one account."""

    account: str
    token: str

    def __repr__(self) -> str:
        return f"Credentials({self.account})"


class CloudRequest(Struct, frozen=True, rename="camel"):
    """One request. `caller` says who asks, for the request log; nothing depends on it."""

    credentials: Credentials
    call: AnyCall
    caller: Annotated[str, Meta(max_length=200)] = ""


class Refusal(StrEnum):
    """Why a request was refused."""

    UNAUTHENTICATED = "Unauthenticated"
    NOT_FOUND = "NotFound"
    NAME_TAKEN = "NameTaken"
    IN_USE = "InUse"
    INVALID = "Invalid"
    QUOTA_EXCEEDED = "QuotaExceeded"
    RATE_LIMITED = "RateLimited"
    UNAVAILABLE = "Unavailable"
    """Not answered: it is unknown whether the request was carried out."""


class CloudError(Exception):
    """A request was rejected."""

    def __init__(self, refusal: Refusal, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal


CallCloud: TypeAlias = Callable[[CloudRequest], Awaitable[list[AnyItem]]]
"""Sends a request. Raises `CloudError`."""

WRITES = (Create, Delete, SetRecord)


def has_tags(item: AnyItem, tags: Mapping[str, str]) -> bool:
    """True if the item has all of these tags."""
    return all(item.tags.get(name) == value for name, value in tags.items())
