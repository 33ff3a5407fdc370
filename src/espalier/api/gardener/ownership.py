"""Ownership epochs of a shoot: which seeds had its control plane, in order, and whose etcd started.

They are an annotation on the Shoot (`metadata_keys.OWNERSHIP`). Two parties write it, with the Shoot's resourceVersion
as a precondition: the garden adds an epoch, and the gardenlet of the newest epoch's seed marks it as started before its
etcd starts for the first time. So exactly one of "a newer epoch exists" and "this epoch started" comes first, and a
destination takes the data over from the last epoch that started, which no later write can change.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

import msgspec

from espalier.api.text.printable import quoted
from espalier.api.trees import json_trees

LARGEST = 64 * 1024
"""Bytes of the annotation."""

REMEMBERED = 16
"""The number of epochs that are kept. Those before the last started one have no effect; they are history for people."""

Number = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")]


class OwnershipError(ValueError):
    """The annotation is invalid, or the change is not allowed; the message says why, and what to do."""


class Epoch(msgspec.Struct, frozen=True, omit_defaults=True):
    """One seed's ownership of a shoot."""

    epoch: Number
    seed: Name
    bucket: Annotated[Name, msgspec.Meta(description="BackupBucket that has the epoch's backups.")]
    started: Annotated[bool, msgspec.Meta(description="Its etcd may hold data that no epoch before has.")] = False


class Ownership(msgspec.Struct, frozen=True):
    """All epochs that are kept, the newest last. Immutable: changes return a new value."""

    epochs: tuple[Epoch, ...] = ()

    @property
    def current(self) -> Epoch | None:
        """The newest epoch: the only one that may start."""
        return self.epochs[-1] if self.epochs else None

    @property
    def last_started(self) -> Epoch | None:
        """The newest epoch that started."""
        return next((epoch for epoch in reversed(self.epochs) if epoch.started), None)

    @property
    def predecessor(self) -> Epoch | None:
        """The epoch from which the current one takes the data over; None if the shoot's etcd starts with that."""
        return next((epoch for epoch in reversed(self.epochs[:-1]) if epoch.started), None)

    def of(self, number: int) -> Epoch | None:
        """The epoch with a number."""
        return next((epoch for epoch in self.epochs if epoch.epoch == number), None)

    def add(self, seed: str, bucket: str) -> Ownership:
        """Return the epochs with a new one for a seed and its bucket. Raises `OwnershipError` if the current one has
        both: no new epoch is needed."""
        current = self.current
        if current is not None and (current.seed, current.bucket) == (seed, bucket):
            raise OwnershipError(f"seed {seed} already has the shoot, in epoch {current.epoch}; no new epoch is needed")
        epoch = _epoch({"epoch": current.epoch + 1 if current else 1, "seed": seed, "bucket": bucket})
        remembered = [*self.epochs, epoch]
        started = self.last_started
        while len(remembered) > REMEMBERED:
            remembered.remove(next(candidate for candidate in remembered if candidate is not started))
        return Ownership(tuple(remembered))

    def start(self, number: int, seed: str) -> Ownership:
        """Return the epochs with this one marked as started. Raises `OwnershipError` if it is not the current epoch of
        that seed: the shoot has moved on, and this epoch's etcd must not start."""
        current = self.current
        if current is None or (current.epoch, current.seed) != (number, seed):
            owner = f"epoch {current.epoch} of seed {current.seed}" if current else "none"
            raise OwnershipError(f"epoch {number} of seed {seed} can't start: the shoot's epoch is {owner}")
        return Ownership((*self.epochs[:-1], msgspec.structs.replace(current, started=True)))

    def render(self) -> str:
        """The value of the annotation."""
        return msgspec.json.encode(self.epochs).decode()


def parse(annotation: str | None) -> Ownership:
    """Parse the annotation; no epochs if it is missing. Raises `OwnershipError`."""
    if annotation is None:
        return Ownership()
    if len(annotation) > LARGEST:
        raise OwnershipError(f"the epochs have {len(annotation)} characters, at most {LARGEST} are allowed")
    try:
        epochs = json_trees.decode(annotation, tuple[Epoch, ...])
    except msgspec.MsgspecError as error:
        raise OwnershipError(f"these are not valid epochs: {quoted(annotation, 80)}: {error}") from None
    for before, after in pairwise(epochs):
        if before.epoch >= after.epoch:
            raise OwnershipError(f"epoch {after.epoch} follows {before.epoch}: numbers must increase")
    if not epochs:
        raise OwnershipError("the list of epochs is empty; remove the annotation instead")
    return Ownership(epochs)


def _epoch(fields: dict[str, Any]) -> Epoch:
    """An epoch with fields validated as in parsing. Raises `OwnershipError`."""
    try:
        return msgspec.convert(fields, Epoch)
    except msgspec.ValidationError as error:
        raise OwnershipError(f"invalid epoch: {error}") from None
