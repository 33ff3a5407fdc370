"""Fields of a Shoot that its CloudProfile has to offer, and those that name it: as Gardener reviews them. Pure.

Fields that are already stored are reviewed only if they change. A list that a profile leaves out offers everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from espalier.api.gardener.garden.cloud_profile import CloudProfile, CloudProfileSpec
from espalier.api.gardener.garden.shoot import Shoot, ShootSpec, Worker
from espalier.api.text.violations import Violation
from espalier.shoots.admission import messages

PURPOSES = ("development", "evaluation", "infrastructure", "production", "testing")
PROFILE_FIELDS, BINDING_FIELDS = (
    ("cloud_profile", "cloud_profile_name"),
    ("credentials_binding_name", "secret_binding_name"),
)
LONGEST_POOL = 15
_POOL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_KIND = CloudProfile.resource.kind


def violations(old: Shoot | None, new: Shoot, profile: CloudProfile | None) -> Iterator[Violation]:
    """The problems of the fields that a write sets. `profile` is that of the new Shoot; None if there is none."""
    before, spec = old.spec if old is not None else None, new.spec
    is_other_profile = before is None or _identity(before) != _identity(spec)
    yield from _profile(before, spec, profile, is_other_profile=is_other_profile)
    if spec.purpose and spec.purpose not in PURPOSES and (before is None or before.purpose != spec.purpose):
        yield Violation("spec.purpose", spec.purpose, ", ".join(PURPOSES), messages.NO_PURPOSE)
    if spec.credentials_binding_name and spec.secret_binding_name and not _are_same(before, spec, BINDING_FIELDS):
        value = f"{spec.secret_binding_name}, beside credentialsBindingName {spec.credentials_binding_name}"
        yield Violation("spec.secretBindingName", value, "", messages.TWO_BINDINGS)
    offer = profile.spec if profile is not None else None
    if offer is not None and (is_other_profile or before is None or before.region != spec.region):
        regions = [region.name for region in offer.regions]
        if regions and spec.region not in regions:
            yield Violation("spec.region", spec.region or "nothing", ", ".join(regions), messages.NOT_IN_PROFILE)
    yield from _workers(old, new, offer, is_other_profile=is_other_profile)


def _profile(
    before: ShootSpec | None, spec: ShootSpec, profile: CloudProfile | None, *, is_other_profile: bool
) -> Iterator[Violation]:
    if spec.cloud_profile_name not in ("", spec.profile) and not _are_same(before, spec, PROFILE_FIELDS):
        value = f"{spec.cloud_profile_name}, beside cloudProfile {spec.profile}"
        yield Violation("spec.cloudProfileName", value, "", messages.TWO_PROFILES)
    kind = _identity(spec)[0]
    if is_other_profile and kind != _KIND:
        yield Violation("spec.cloudProfile.kind", kind, _KIND, messages.NO_PROFILE_KIND)
    elif is_other_profile and spec.profile and profile is None:
        field = "spec.cloudProfile.name" if spec.cloud_profile is not None else "spec.cloudProfileName"
        yield Violation(field, spec.profile, "", messages.NO_SUCH_PROFILE)
    is_other_type = before is None or before.provider.type != spec.provider.type
    if profile is not None and (is_other_profile or is_other_type) and spec.provider.type != profile.spec.type:
        yield Violation("spec.provider.type", spec.provider.type, profile.spec.type, messages.NOT_IN_PROFILE)


def _identity(spec: ShootSpec) -> tuple[str, str]:
    """Kind and name of the profile: the older field, and a reference without a kind, name a CloudProfile."""
    return (spec.cloud_profile.kind if spec.cloud_profile is not None else "") or _KIND, spec.profile


def _are_same(before: ShootSpec | None, spec: ShootSpec, fields: Iterable[str]) -> bool:
    return before is not None and all(getattr(before, field) == getattr(spec, field) for field in fields)


def _workers(
    old: Shoot | None, new: Shoot, offer: CloudProfileSpec | None, *, is_other_profile: bool
) -> Iterator[Violation]:
    before = {pool.name: pool for pool in old.spec.provider.workers} if old is not None else {}
    pools = new.spec.provider.workers
    for place, pool in enumerate(pools):
        if before.get(pool.name) == pool and not is_other_profile:
            continue
        field = f"spec.provider.workers[{place}]"
        if pool.name not in before and not (len(pool.name) <= LONGEST_POOL and _POOL.fullmatch(pool.name)):
            allowed = f"up to {LONGEST_POOL} of a-z, 0-9 and -, with no - at either end"
            yield Violation(f"{field}.name", pool.name, allowed, messages.NO_POOL_NAME)
        if _is_zero(pool.max_surge) and (pool.max_unavailable is None or _is_zero(pool.max_unavailable)):
            yield Violation(f"{field}.maxUnavailable", "0, with maxSurge 0", "1 or more", messages.NO_ROLLOUT)
        if offer is not None:
            yield from _machine(field, pool, offer)
    if pools and not any(pool.maximum for pool in pools) and (old is None or pools != old.spec.provider.workers):
        yield Violation("spec.provider.workers", "maximum 0 in all", "1 or more in one of them", messages.NO_NODES)


def _machine(field: str, pool: Worker, offer: CloudProfileSpec) -> Iterator[Violation]:
    types = [machine["name"] for machine in offer.machine_types if isinstance(machine.get("name"), str)]
    if types and pool.machine.type not in types:
        yield Violation(f"{field}.machine.type", pool.machine.type, ", ".join(types), messages.NOT_IN_PROFILE)
    image = pool.machine.image
    if image is None or not offer.machine_images:
        return
    versions = {offered.name: [version.version for version in offered.versions] for offered in offer.machine_images}
    if image.name not in versions:
        yield Violation(f"{field}.machine.image.name", image.name, ", ".join(versions), messages.NOT_IN_PROFILE)
    elif image.version and versions[image.name] and image.version not in versions[image.name]:
        allowed = ", ".join(versions[image.name])
        yield Violation(f"{field}.machine.image.version", image.version, allowed, messages.NOT_IN_PROFILE)


def _is_zero(value: Any) -> bool:
    return value in (0, "0", "0%")
