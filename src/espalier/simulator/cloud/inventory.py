"""The inventory of the cloud. Deterministic: its state depends only on the calls and their times."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from msgspec import structs

from espalier.api.cloud import (
    AnyCall,
    AnyItem,
    Bucket,
    CloudError,
    Create,
    Delete,
    ItemKind,
    ListItems,
    Network,
    Record,
    Refusal,
    SetRecord,
    VirtualMachine,
    has_tags,
)
from espalier.api.text.listing import first

_PREFIXES: Mapping[str, str] = {"Network": "net", "VirtualMachine": "vm", "Bucket": "bucket", "Record": "record"}


def kind_of(item: AnyItem) -> ItemKind:
    """The kind of an item, as calls name it."""
    return type(item).__name__  # type: ignore[return-value]


class Inventory:
    """All items of the accounts of a cloud.

    Virtual machines run `boot_seconds` after creation; their addresses start after `first_address`.
    """

    def __init__(self, boot_seconds: float = 30.0, first_address: str = "10.250.0.0") -> None:
        self._boot_seconds = boot_seconds
        self._first_address = ipaddress.ip_address(first_address)
        self._items: dict[str, AnyItem] = {}
        self._owners: dict[str, str] = {}
        self._created: dict[str, datetime] = {}
        self._numbers: Counter[str] = Counter()
        self.quotas: dict[tuple[str, ItemKind], int] = {}
        """Quotas of an account by kind; unlimited without one."""

    def apply(self, account: str, call: AnyCall, now: datetime) -> list[AnyItem]:
        """Execute a request; returns the created, changed, listed or deleted items.

        Raises `CloudError`, without any change.
        """
        match call:
            case Create(item):
                return [self._create(account, item, now)]
            case SetRecord(record):
                return [self._set_record(account, record, now)]
            case ListItems(kind, tags):
                return [self._with_state(item, now) for item in self.of(account, kind) if has_tags(item, tags)]
            case Delete(kind, id_):
                return [self._delete(account, kind, id_)]

    def of(self, account: str, kind: ItemKind) -> list[AnyItem]:
        """The items of a kind of an account, oldest first."""
        return [item for id_, item in self._items.items() if self._owners[id_] == account and kind_of(item) == kind]

    def all(self, kind: ItemKind) -> list[AnyItem]:
        """The items of a kind of all accounts, oldest first."""
        return [item for item in self._items.values() if kind_of(item) == kind]

    def resolve(self, name: str, type_: str = "A") -> Record | None:
        """A DNS record of any account, None if there is none; an alias (CNAME) is the answer to a question of any type.

        Of several, the oldest. Aliases are not followed.
        """
        records = (item for item in self.all("Record") if isinstance(item, Record))
        return next((record for record in records if record.name == name and record.type in (type_, "CNAME")), None)

    def boots_at(self, id_: str) -> float:
        """The time at which a virtual machine has booted, in seconds since the epoch."""
        return self._created[id_].timestamp() + self._boot_seconds

    def _create(self, account: str, item: AnyItem, now: datetime) -> AnyItem:
        kind = kind_of(item)
        self._check(account, item)
        quota = self.quotas.get((account, kind))
        if quota is not None and len(self.of(account, kind)) >= quota:
            raise CloudError(Refusal.QUOTA_EXCEEDED, f"{kind}: account {account} has reached its quota of {quota}")
        self._numbers[kind] += 1
        number = self._numbers[kind]
        created = structs.replace(item, id=f"{_PREFIXES[kind]}-{number}")
        if isinstance(created, VirtualMachine):
            address = str(self._first_address + number)
            created = structs.replace(created, state="Pending", address=address)
        self._items[created.id] = created
        self._owners[created.id] = account
        self._created[created.id] = now
        return created

    def _check(self, account: str, item: AnyItem) -> None:
        if isinstance(item, Network):
            try:
                ipaddress.ip_network(item.cidr)
            except ValueError as error:
                raise CloudError(Refusal.INVALID, f"cidr: {error}") from None
        elif isinstance(item, VirtualMachine):
            if all(network.id != item.network for network in self.of(account, "Network")):
                raise CloudError(Refusal.INVALID, f"network: account {account} has no network {item.network}")
        elif isinstance(item, Bucket) and any(bucket.name == item.name for bucket in self.all("Bucket")):
            raise CloudError(Refusal.NAME_TAKEN, f"bucket {item.name} already exists")

    def _set_record(self, account: str, record: Record, now: datetime) -> AnyItem:
        for item in self.of(account, "Record"):
            if isinstance(item, Record) and (item.name, item.type) == (record.name, record.type):
                changed = structs.replace(record, id=item.id)
                self._items[item.id] = changed
                return changed
        return self._create(account, record, now)

    def _delete(self, account: str, kind: ItemKind, id_: str) -> AnyItem:
        item = self._items.get(id_)
        if item is None or self._owners[id_] != account or kind_of(item) != kind:
            raise CloudError(Refusal.NOT_FOUND, f"account {account} has no {kind} {id_}")
        machines = (machine for machine in self.of(account, "VirtualMachine") if isinstance(machine, VirtualMachine))
        users = [machine.id for machine in machines if machine.network == id_]
        if users:
            raise CloudError(Refusal.IN_USE, f"{kind} {id_} is used by {first(users, 5)}")
        del self._items[id_], self._owners[id_], self._created[id_]
        return item

    def _with_state(self, item: AnyItem, now: datetime) -> AnyItem:
        if isinstance(item, VirtualMachine) and now.timestamp() >= self.boots_at(item.id):
            return structs.replace(item, state="Running")
        return item
