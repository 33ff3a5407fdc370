"""Seeds: which fields make sense, what stays while a seed has shoots, and when one may be deleted. Pure.

Fields that are already stored are reviewed only if they change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import combinations
from urllib.parse import urlsplit

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.core import SECRET
from espalier.api.gardener import ownership
from espalier.api.gardener.garden.seed import SHOOTS_REMOVED, Seed, SeedBackup, SeedSpec
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.responsibility import is_deletion_confirmed
from espalier.api.gardener.vocabulary.metadata_keys import CONFIRM_DELETION, OWNERSHIP
from espalier.api.text.listing import first
from espalier.api.text.violations import Violation
from espalier.api.trees import json_trees
from espalier.shoots.admission import messages
from espalier.shoots.admission.seeds import is_lost
from espalier.shoots.admission.shoot_rules.specs import NETWORKS, network_of
from espalier.shoots.bucket_providers import (
    BUCKET,
    UNDECLARED,
    BucketConfig,
    BucketProviders,
    endpoint_fault,
    url_fault,
)

MOST_NAMED = 5
"""The largest number of shoots that a message names."""
SCHEMES = ("file", "s3", "gs", "az")
"""The schemes of URLs of stores."""


def violations(
    old: Seed | None, new: Seed, bucket_providers: BucketProviders, *, has_shoots: bool
) -> Iterator[Violation]:
    """The problems of a write of a Seed."""
    before, after = old.spec if old is not None else None, new.spec
    yield from _overlapping(before, after)
    if before is None or before.taints != after.taints:
        yield from _taints(after)
    for name in NETWORKS:
        text = getattr(after.networks, name) if after.networks is not None else ""
        present = getattr(before.networks, name) if before is not None and before.networks is not None else ""
        if text and text != present and network_of(text) is None:
            yield Violation(f"spec.networks.{name}", text, "a range like 10.0.0.0/16", messages.NO_RANGE)
    if has_shoots and before is not None and before.provider.type != after.provider.type:
        yield Violation("spec.provider.type", after.provider.type, before.provider.type, messages.STAYS_WITH_SHOOTS)
    present_backup = before.backup if before is not None else None
    if after.backup is not None and after.backup != present_backup:
        yield from _backup(after.backup, bucket_providers)
    if has_shoots and present_backup is not None:
        yield from _moved(present_backup, after.backup)


def _overlapping(before: SeedSpec | None, after: SeedSpec) -> Iterator[Violation]:
    if after.networks is None or (before is not None and before.networks == after.networks):
        return
    networks = {
        name: network for name in NETWORKS if (network := network_of(getattr(after.networks, name))) is not None
    }
    for first_, second in combinations(networks, 2):
        if networks[first_].version == networks[second].version and networks[first_].overlaps(networks[second]):
            value = f"{networks[first_]}, and {second} {networks[second]}"
            yield Violation(f"spec.networks.{first_}", value, "", messages.SEED_NETWORKS_OVERLAP)


def _taints(after: SeedSpec) -> Iterator[Violation]:
    seen: set[tuple[str, str | None]] = set()
    for place, taint in enumerate(after.taints):
        identity = taint.key, taint.value
        if not taint.key or identity in seen:
            yield Violation(f"spec.taints[{place}].key", taint.key or "nothing", "", messages.TAINT_TWICE)
        seen.add(identity)


def _backup(backup: SeedBackup, providers: BucketProviders) -> Iterator[Violation]:
    for field, reference in (("credentialsRef", backup.credentials_ref), ("secretRef", backup.secret_ref)):
        if reference is not None and reference.kind not in ("", SECRET.kind):
            yield Violation(f"spec.backup.{field}.kind", reference.kind, SECRET.kind, messages.IN_SECRETS)
    if not providers.get(backup.provider, UNDECLARED).uses_bucket_config:
        return  # only the provider's extension can read its providerConfig
    config = _config(backup)
    if config is None:
        yield Violation("spec.backup.providerConfig", "", "url and endpoint, both text", messages.NO_STORE)
        return
    bucket = "bucket"
    if config.url and (fault := _url_fault(config.url.replace(BUCKET, bucket), bucket)):
        yield Violation("spec.backup.providerConfig.url", "", "", fault)
    if config.endpoint and (fault := endpoint_fault(config.endpoint)):
        yield Violation("spec.backup.providerConfig.endpoint", "", "", fault)


def _url_fault(url: str, bucket: str) -> str:
    if fault := url_fault(url, bucket):
        return fault
    scheme = urlsplit(url).scheme
    return "" if scheme in SCHEMES else f"there are no stores of scheme {scheme}; allowed: {', '.join(SCHEMES)}"


def _moved(before: SeedBackup, after: SeedBackup | None) -> Iterator[Violation]:
    """The violations of changes of the store while it has backups. Credentials and endpoint may change."""
    if after is None:
        yield Violation("spec.backup", "nothing", before.provider, messages.STAYS_WITH_SHOOTS)
        return
    urls = [config.url if (config := _config(backup)) is not None else "" for backup in (before, after)]
    for field, present, wanted in (
        ("provider", before.provider, after.provider),
        ("region", before.region, after.region),
        ("providerConfig.url", *urls),
    ):
        if present and wanted != present:
            yield Violation(f"spec.backup.{field}", wanted or "nothing", present, messages.STAYS_WITH_SHOOTS)


def _config(backup: SeedBackup) -> BucketConfig | None:
    """None if it can't be read."""
    try:
        return json_trees.decode(backup.provider_config or b"{}", BucketConfig)
    except msgspec.MsgspecError:
        return None


def deletion_refusal(name: str, shoots: Collection[str]) -> str:
    """The message for a Seed that can't be deleted. `shoots`: the keys of those there, or assigned to it."""
    named = first(sorted(shoots), MOST_NAMED)
    return (
        f"Seed {name} can't be deleted: it has, or is to have, shoots {named}; move them to other seeds first, "
        f"even if this one is lost (espalier seeds evacuate {name}), or delete them"
    )


def remains(seed: Seed, shoots: Iterable[Shoot]) -> str:
    """The message for a Seed whose cluster has, or may have, something of shoots that it no longer has; empty if it may
    be deleted. Its gardenlet would lose the rights with which it removes that."""
    name, metadata = seed.metadata.name, seed.metadata
    if is_deletion_confirmed(metadata):
        return ""
    reported = condition_list.get(seed.status.conditions, SHOOTS_REMOVED)
    former = sorted(f"{shoot.metadata.namespace}/{shoot.metadata.name}" for shoot in shoots if _was_in(shoot, name))
    why = ""
    if reported is not None and reported.status != "True":
        why = reported.message
    elif former and is_lost(seed):
        why = f"its gardenlet is silent, and may not have removed what shoots {first(former, MOST_NAMED)} left"
    if not why:
        return ""
    return (
        f"Seed {name} can't be deleted: {why}. Only its gardenlet removes that: wait until it has (condition "
        f"{SHOOTS_REMOVED}). If its cluster is gone for good, or may keep it: kubectl annotate seed {name} "
        f"{CONFIRM_DELETION}=true, and delete it then"
    )


def _was_in(shoot: Shoot, seed: str) -> bool:
    """True if a seed had a shoot's etcd in an earlier epoch."""
    try:
        epochs = ownership.parse(shoot.metadata.annotations.get(OWNERSHIP)).epochs
    except OwnershipError:
        return False
    return any(epoch.seed == seed and epoch.started for epoch in epochs[:-1])
