"""Sync objects: JSON files in a backup container that pass the ownership of a shoot's etcd between seeds.

An *ownership epoch* counts owners: the garden gives each seed that gets a shoot the next number, by compare-and-swap.
Every epoch has two objects, at its own keys:

* the **first-start marker**, made once before its etcd starts for the first time. Only where it can be read does the
  absence of the other object mean anything: a wrong or emptied container has neither.
* the **CopyOperation** (proposal "Shoot Control Plane Migration", section "Owner Election / Copying Snapshots"). Once
  it exists the epoch has ended: its agent never serves again. Its status says how far the copy has come. It is never
  deleted.

Objects are untrusted: too large, of another epoch, of another cluster or not understood, they are `Unreadable`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec

from espalier.api.text.printable import in_one_line
from espalier.api.trees import json_trees

LARGEST = 256 * 1024
"""Bytes of a sync object: a marker names each snapshot that was copied, at about 60 bytes."""

Epoch = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
T = TypeVar("T", bound="CopyOperation | FirstStart | Served")
Mine = TypeVar("Mine", bound="FirstStart | Served")


class Status(StrEnum):
    """Progress of a copy operation. It never moves back."""

    INITIAL = "Initial"
    """Requested: the source stops serving and takes the final snapshot."""
    READY = "Ready"
    """The source has stopped serving, and its stored backups are complete."""
    DONE = "Done"
    """The destination has its copy."""


class Writer(StrEnum):
    """Who wrote a sync object last, for people."""

    SOURCE = "Source"
    DESTINATION = "Destination"


class CopyOperation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The end of an epoch's ownership, and how far the copy of its backups has come."""

    epoch: Epoch
    """The epoch that ends: an agent serves only above it."""
    status: Status
    written_by: Writer
    final_snapshot: Name | None = None
    """The snapshot with everything that the source ever acknowledged. Only the source can set it."""
    progress: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Bytes of the final snapshot that are stored. While it grows, the destination waits."""
    nonce: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """New in each put: an ETag may be the hash of the content, and contents may repeat."""


class FirstStart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Created before the etcd of an epoch first starts: by its agent, or by the copy that it starts from."""

    epoch: Epoch
    cluster: Name
    """Unique identity of the cluster: the technical ID and UID of a shoot."""
    release_seconds: Annotated[float, msgspec.Meta(gt=0, le=86400)]
    """How long an agent of this epoch may serve after its CopyOperation exists. It obeys this even if its configuration
    allows longer, because destinations rely on it."""
    predecessor: Epoch | None = None
    """The epoch that the data comes from; none for a new cluster."""
    snapshots: tuple[Name, ...] = ()
    """Names of all snapshots copied from the predecessor: the first restore uses no others."""
    lossless: bool = False
    """True if the predecessor named the final snapshot. Otherwise the restore raises revisions, so watchers relist."""
    nonce: Annotated[str, msgspec.Meta(max_length=64)] = ""


class Served(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Created before clients first reach the etcd of an epoch. Until then no data of it can be lost."""

    epoch: Epoch
    cluster: Name
    revision: Annotated[int, msgspec.Meta(ge=1)]
    """etcd's revision at that time: the epoch's own backups start there."""
    nonce: Annotated[str, msgspec.Meta(max_length=64)] = ""


class Unreadable(msgspec.Struct, frozen=True):
    """An object exists, but can't be used."""

    why: str


def copy_operation_key(epoch: int) -> str:
    """The key of an epoch's CopyOperation, relative to the store's prefix.

    No epoch has the key of another: a late put of an old migration can't hide the end of a newer epoch. Not in a folder
    `v1` or `v2`: etcd-backup-restore considers everything in them a snapshot.
    """
    return f"ownership/{epoch:08d}-copy-operation.json"


def first_start_key(epoch: int) -> str:
    """The key of an epoch's first-start marker, relative to the store's prefix."""
    return f"ownership/{epoch:08d}-first-start.json"


def served_key(epoch: int) -> str:
    """The key of an epoch's served record, relative to the store's prefix."""
    return f"ownership/{epoch:08d}-served.json"


def encoded(sync_object: CopyOperation | FirstStart | Served) -> bytes:
    """The JSON of a sync object."""
    return msgspec.json.encode(sync_object)


def read_copy_operation(text: bytes, epoch: int) -> CopyOperation | Unreadable:
    """The object at the key of this epoch. With an unknown status, or another epoch, it is unreadable."""
    operation = _read(text, CopyOperation)
    if isinstance(operation, CopyOperation) and operation.epoch != epoch:
        return Unreadable(f"it is of epoch {operation.epoch}, at the key of epoch {epoch}")
    return operation


def read_first_start(text: bytes, epoch: int, cluster: str) -> FirstStart | Unreadable:
    """The marker at the key of this epoch. If it is of another cluster, it is unreadable: the wrong container."""
    return _of(_read(text, FirstStart), epoch, cluster)


def read_served(text: bytes, epoch: int, cluster: str) -> Served | Unreadable:
    """The served record at the key of this epoch."""
    return _of(_read(text, Served), epoch, cluster)


def _of(object_: Mine | Unreadable, epoch: int, cluster: str) -> Mine | Unreadable:
    if not isinstance(object_, Unreadable) and (object_.epoch, object_.cluster) != (epoch, cluster):
        actual = f"epoch {object_.epoch} of {in_one_line(object_.cluster)}"
        return Unreadable(f"it is of {actual}, not of epoch {epoch} of {cluster}")
    return object_


def _read(text: bytes, kind: type[T]) -> T | Unreadable:
    if len(text) > LARGEST:
        return Unreadable(f"it has {len(text)} bytes, more than {LARGEST}")
    try:
        return json_trees.decode(text, kind)
    except msgspec.MsgspecError as error:
        return Unreadable(f"it is not a {kind.__name__}: {error}")
