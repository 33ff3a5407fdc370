"""BackupBuckets of the garden: what gardenlets may write, and when a bucket may be deleted. Pure.

The garden lets a seed read the credentials that its bucket names. So a gardenlet must not choose them; nor the
provider, whose extension in another seed gets them together with what the bucket's status says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from espalier.api.gardener import names, ownership
from espalier.api.gardener.garden.backups import BackupBucket
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.text.violations import Violation
from espalier.kube.transports.wire import User
from espalier.shoots.admission import messages, users


def is_in_use(name: str, shoots: Iterable[Shoot]) -> bool:
    """True if a bucket has the backups of a shoot: those of its present seed, or those from which it is restored."""
    for shoot in shoots:
        try:
            owned = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP))
        except OwnershipError:
            return True  # unknown, so it must stay
        if any(epoch is not None and epoch.bucket == name for epoch in (owned.current, owned.last_started)):
            return True
    return False


def violations(old: BackupBucket | None, new: BackupBucket, user: User, seed: Seed | None) -> Iterator[Violation]:
    """The problems of a BackupBucket that a user writes. `seed` is that of the user, if it is a gardenlet."""
    own = users.seed_of(user)
    if own is None:
        present = old.spec.seed_name if old is not None else None
        if present and new.spec.seed_name != present:
            yield Violation("spec.seedName", new.spec.seed_name or "nothing", present, messages.SEED_OF_BUCKET)
        return
    name = new.metadata.name
    if seed is None or name != names.bucket(seed.metadata.uid):
        yield Violation("metadata.name", name, names.bucket(seed.metadata.uid) if seed else "", messages.BUCKET_NAME)
        return
    if new.spec.seed_name != own:
        yield Violation("spec.seedName", new.spec.seed_name or "nothing", own, messages.BUCKET_OF_SEED)
    backup = seed.spec.backup
    seed_reference = (backup.credentials_ref or backup.secret_ref) if backup is not None else None
    type_, region = (backup.provider, backup.region) if backup is not None else ("", "")
    for field, named, of_seed in (
        ("type", new.spec.provider.type, type_),
        ("region", new.spec.provider.region, region),
    ):
        if named != of_seed:
            yield Violation(f"spec.provider.{field}", named or "nothing", of_seed or "nothing", messages.BUCKET_OF_SEED)
    for field, reference in (("credentialsRef", new.spec.credentials_ref), ("secretRef", new.spec.secret_ref)):
        if reference is not None and reference != seed_reference:
            named_secret = f"{reference.namespace}/{reference.name}"
            allowed = f"{seed_reference.namespace}/{seed_reference.name}" if seed_reference is not None else "nothing"
            yield Violation(f"spec.{field}", named_secret, allowed, messages.BUCKET_OF_SEED)
