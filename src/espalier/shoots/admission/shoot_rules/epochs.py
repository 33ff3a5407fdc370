"""Writes of our annotations on Shoots: the garden and gardenlets may each write their own part. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from espalier.api.gardener import ownership
from espalier.api.gardener.numbers import whole_number
from espalier.api.gardener.ownership import Ownership, OwnershipError
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.text.violations import Violation, shown
from espalier.kube.transports.wire import User
from espalier.shoots.admission import messages, users

FIELD = f"metadata.annotations[{metadata_keys.OWNERSHIP}]"


def violations(old: Mapping[str, str], new: Mapping[str, str], user: User) -> Iterator[Violation]:
    """The changes of a Shoot's annotations that a user may not make."""
    if old.get(metadata_keys.FORCE_RESTORE) != new.get(metadata_keys.FORCE_RESTORE) and not users.may_move(user):
        field = f"metadata.annotations[{metadata_keys.FORCE_RESTORE}]"
        after, before = new.get(metadata_keys.FORCE_RESTORE), old.get(metadata_keys.FORCE_RESTORE)
        yield Violation(field, _text(after), _text(before), messages.FORCED)
    changed = [
        key
        for key in dict.fromkeys((*old, *new))
        if key.startswith(metadata_keys.DOMAIN) and old.get(key) != new.get(key)
    ]
    if not changed:
        return
    seed = users.seed_of(user)
    if not users.is_garden(user) and seed is None:
        for key in changed:
            field = f"metadata.annotations[{key}]"
            yield Violation(field, _text(new.get(key)), _text(old.get(key)), messages.NOT_YOURS)
        return
    if metadata_keys.OWNERSHIP in changed:
        yield from _epochs(old.get(metadata_keys.OWNERSHIP), new.get(metadata_keys.OWNERSHIP), seed)
    for key in (metadata_keys.RELEASED_EPOCH, metadata_keys.RESTORED_EPOCH):
        if key in changed:
            yield from _reported(key, new, seed) if seed is not None else _existing(key, new)


def _reported(key: str, new: Mapping[str, str], seed: str) -> Iterator[Violation]:
    """A gardenlet may report on the newest epoch if that is of its own seed. The next seed waits for no lease then, or
    this one creates what the shoot has no state of."""
    try:
        current = ownership.parse(new.get(metadata_keys.OWNERSHIP)).current
    except OwnershipError:
        current = None
    own = str(current.epoch) if current is not None and current.seed == seed else None
    released = new.get(key)
    if released is None or released != own:
        field = f"metadata.annotations[{key}]"
        yield Violation(field, _text(released), _text(own), messages.NOT_YOUR_RELEASE)


def _existing(key: str, new: Mapping[str, str]) -> Iterator[Violation]:
    """The garden may write only existing epochs: a later one would count as released, or restored, before it begins."""
    try:
        current = ownership.parse(new.get(metadata_keys.OWNERSHIP)).current
    except OwnershipError:
        return
    epoch, newest = new.get(key), current.epoch if current is not None else 0
    number = whole_number(epoch)
    if epoch is not None and (number is None or number > newest):
        field = f"metadata.annotations[{key}]"
        yield Violation(field, _text(epoch), f"up to {newest}", messages.NO_SUCH_EPOCH)


def _epochs(old: str | None, new: str | None, seed: str | None) -> Iterator[Violation]:
    try:
        after = ownership.parse(new)
    except OwnershipError as error:
        yield Violation(FIELD, "", "", str(error))
        return
    try:
        before = ownership.parse(old)
    except OwnershipError:
        if seed is not None:
            yield Violation(FIELD, _text(new), "", messages.NOT_YOUR_EPOCH)
        return  # the garden may correct an invalid annotation
    if seed is not None and not _is_start(before, after, seed):
        yield Violation(FIELD, _text(new), _text(old), messages.NOT_YOUR_EPOCH)
    elif seed is None and not _is_continuation(before, after):
        yield Violation(FIELD, _text(new), _text(old), messages.EPOCHS_STAY)


def _is_start(before: Ownership, after: Ownership, seed: str) -> bool:
    current = before.current
    return current is not None and current.seed == seed and after == before.start(current.epoch, seed)


def _is_continuation(before: Ownership, after: Ownership) -> bool:
    """True if epochs that remain are the same except that they may have started, if epochs are added at the end only,
    and if none is removed that still counts."""
    present_epochs = {epoch.epoch: epoch for epoch in before.epochs}
    newest = before.current.epoch if before.current is not None else 0
    for epoch in after.epochs:
        present = present_epochs.get(epoch.epoch)
        if present is None and epoch.epoch <= newest:
            return False
        if present is not None and (
            (present.seed, present.bucket) != (epoch.seed, epoch.bucket) or present.started > epoch.started
        ):
            return False
    if before.current is not None and after.of(before.current.epoch) is None:
        return False
    return before.last_started is None or after.of(before.last_started.epoch) is not None


def _text(value: str | None) -> str:
    return "nothing" if value is None else shown(value)
