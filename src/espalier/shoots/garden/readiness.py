"""Selects the seeds that can take shoots: pure functions of the garden's objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from espalier.api import conditions as condition_list
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.seed import GARDENLET_READY, Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.reasons import ShootReason
from espalier.shoots.admission import seeds


def unready(seed: Seed | None, *, is_deleted: bool = False) -> tuple[str, str]:
    """The reason and sentence why nothing can be moved to a seed now; empty if it is ready."""
    if seed is None:
        return ShootReason.DESTINATION_SEED_MISSING, "there is no seed of this name"
    if is_deleted:
        return ShootReason.DESTINATION_SEED_IN_DELETION, f"seed {seed.metadata.name} is being deleted"
    if seed.spec.backup is None:
        return ShootReason.DESTINATION_SEED_UNREADY, f"seed {seed.metadata.name} has no spec.backup, which etcd needs"
    ready = condition_list.get(seed.status.conditions, GARDENLET_READY)
    if ready is None or ready.status != "True":
        why = ready.message if ready is not None else "its gardenlet has not reported yet"
        return ShootReason.DESTINATION_SEED_UNREADY, f"seed {seed.metadata.name} is not ready: {why}"
    return "", ""


def placed(shoots: Iterable[Shoot]) -> Counter[str]:
    """The number of shoots that each seed has, or that are assigned to it."""
    return Counter(
        name for shoot in shoots for name in {shoot.spec.seed_name, shoot.status.seed_name} if name is not None
    )


def unfit(shoot: Shoot, seed: Seed, profile: CloudProfile | None, count: int) -> str:
    """The reason why the scheduler does not choose a ready seed; empty if it may. The rules of admission are included:
    otherwise the same seed would be tried forever, and no other one."""
    settings = seed.spec.settings
    if settings is not None and settings.scheduling is not None and not settings.scheduling.visible:
        return f"{seed.metadata.name}: it is hidden from the scheduler"
    return "; ".join(
        f"{violation.found}: {violation.message}"
        for violation in seeds.unfit(shoot, seed.metadata.name, seed, profile, count)
    )


def choose(
    shoot: Shoot, candidates: Iterable[Seed], counts: Mapping[str, int], profile: CloudProfile | None = None
) -> tuple[str | None, str]:
    """The seed for a new shoot: one of the shoot's region if possible, then the emptiest; or None and a sentence."""
    reasons = []
    fit = []
    for seed in candidates:
        name = seed.metadata.name
        why = unready(seed, is_deleted=seed.metadata.deletion_timestamp is not None)[1]
        reason = f"{name}: {why}" if why else unfit(shoot, seed, profile, counts.get(name, 0))
        if reason:
            reasons.append(reason)
        else:
            fit.append(seed)
    if not fit:
        return None, "; ".join(reasons) or "there are no seeds"
    best = min(
        fit,
        key=lambda seed: (
            seed.spec.provider.region != shoot.spec.region,
            counts.get(seed.metadata.name, 0),
            seed.metadata.name,
        ),
    )
    return best.metadata.name, ""
