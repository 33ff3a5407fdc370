"""Which seeds can take shoots: pure functions of what the garden has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from espalier.api.gardener.seed import GARDENLET_READY, SHOOTS, Seed
from espalier.api.gardener.shoot import Shoot


def unready(seed: Seed | None, *, is_deleted: bool = False) -> tuple[str, str]:
    """The reason and sentence why nothing can be moved to a seed now; empty when it is ready."""
    if seed is None:
        return "DestinationSeedMissing", "there is no seed of this name"
    if is_deleted:
        return "DestinationSeedInDeletion", f"seed {seed.metadata.name} is being deleted"
    if seed.spec.backup is None:
        return "DestinationSeedUnready", f"seed {seed.metadata.name} has no spec.backup, which etcd needs"
    ready = next((one for one in seed.status.conditions if one.type == GARDENLET_READY), None)
    if ready is None or ready.status != "True":
        said = ready.message if ready is not None else "its gardenlet has given no sign of life yet"
        return "DestinationSeedUnready", f"seed {seed.metadata.name} is not ready: {said}"
    return "", ""


def unfit(shoot: Shoot, seed: Seed, count: int) -> str:
    """The reason why a new shoot does not go to a seed that is ready; empty when it may."""
    wanted = shoot.spec.seed_selector
    labels = seed.metadata.labels
    match = wanted.match_labels if wanted is not None else {}
    if any(labels.get(name) != value for name, value in match.items()):
        return "its labels are not those of the shoot's seedSelector"
    tolerated = {(one.key, one.value) for one in shoot.spec.tolerations}
    for taint in seed.spec.taints:
        if (taint.key, taint.value) not in tolerated and (taint.key, None) not in tolerated:
            return f"the shoot does not tolerate its taint {taint.key}"
    settings = seed.spec.settings
    if settings is not None and settings.scheduling is not None and not settings.scheduling.visible:
        return "it is hidden from the scheduler"
    room = seed.status.allocatable.get(SHOOTS)
    if room is not None and str(room).isdecimal() and count >= int(room):
        return f"it has {count} shoots and room for {room}"
    return ""


def choose(shoot: Shoot, seeds: Iterable[Seed], counts: Mapping[str, int]) -> tuple[str | None, str]:
    """The seed for a new shoot: of the shoot's region if there is one, then the emptiest; or None and a sentence."""
    reasons = []
    fit = []
    for seed in seeds:
        name = seed.metadata.name
        reason = unready(seed, is_deleted=seed.metadata.deletion_timestamp is not None)[1]
        reason = reason or unfit(shoot, seed, counts.get(name, 0))
        if reason:
            reasons.append(f"{name}: {reason}")
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
