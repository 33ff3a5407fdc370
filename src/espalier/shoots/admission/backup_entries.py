"""BackupEntries of the garden: which seed has one, and when a source entry may exist. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from espalier.api.gardener import names, ownership
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.responsibility import migrating, restoring
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.text.violations import Violation
from espalier.shoots.admission import messages


def violations(old: BackupEntry | None, new: BackupEntry, shoots: Iterable[Shoot]) -> Iterator[Violation]:
    """The problems of an entry. `shoots` are those of its namespace."""
    name = new.metadata.name
    shoot = next((candidate for candidate in shoots if _entry_of(candidate) == names.original_backup_entry(name)), None)
    if old is not None:
        yield from _changed(old, new, shoot)
        return
    if shoot is None:
        yield Violation("metadata.name", name, "shoot--<project>--<shoot>--<uid>", messages.ENTRY_NAME)
    elif names.is_source_backup_entry(name):
        yield from _source(new, shoot)
    elif not _moves(new, shoot):  # else its seed would be given the credentials of any bucket that it names
        yield Violation("spec.bucketName", new.spec.bucket_name, "", messages.ENTRY_OF_EPOCH)


def _changed(old: BackupEntry, new: BackupEntry, shoot: Shoot | None) -> Iterator[Violation]:
    """Bucket and seed must change together: the seed of an entry gets the credentials of its bucket."""
    before, after = old.spec, new.spec
    if (before.bucket_name, before.seed_name) == (after.bucket_name, after.seed_name) or _moves(new, shoot):
        return
    if before.bucket_name != after.bucket_name:
        yield Violation("spec.bucketName", after.bucket_name, before.bucket_name, messages.ENTRY_BUCKET_STAYS)
    elif not names.is_source_backup_entry(new.metadata.name) or shoot is None:
        yield Violation(
            "spec.seedName", after.seed_name or "nothing", before.seed_name or "", messages.ENTRY_SEED_STAYS
        )
    else:
        yield from _source(new, shoot)


def is_in_use(name: str, shoots: Iterable[Shoot]) -> bool:
    """True if the deletion of an entry would delete the backups of a Shoot that stays."""
    return any(_entry_of(shoot) == name and shoot.metadata.deletion_timestamp is None for shoot in shoots)


def _moves(entry: BackupEntry, shoot: Shoot | None) -> bool:
    """True if the entry moves to the bucket and the seed of the shoot's current epoch, which has the backups from now
    on; the source entry gives access to earlier ones."""
    if shoot is None or names.is_source_backup_entry(entry.metadata.name):
        return False
    try:
        current = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP)).current
    except OwnershipError:
        return False
    return current is not None and (entry.spec.bucket_name, entry.spec.seed_name) == (current.bucket, current.seed)


def _source(entry: BackupEntry, shoot: Shoot) -> Iterator[Violation]:
    try:
        owned = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP))
    except OwnershipError as error:
        yield Violation("metadata.name", entry.metadata.name, "", str(error))
        return
    source, current = owned.predecessor, owned.current
    if source is None or current is None or current.started or not (restoring(shoot) or migrating(shoot)):
        yield Violation("metadata.name", entry.metadata.name, "", messages.SOURCE_NOT_NEEDED)
        return
    if entry.spec.bucket_name != source.bucket:
        yield Violation("spec.bucketName", entry.spec.bucket_name, source.bucket, messages.SOURCE_BUCKET)
    if entry.spec.seed_name != current.seed:
        yield Violation("spec.seedName", entry.spec.seed_name or "nothing", current.seed, messages.SOURCE_SEED)


def _entry_of(shoot: Shoot) -> str:
    return names.backup_entry(shoot.status.technical_id, shoot.status.uid or shoot.metadata.uid)
