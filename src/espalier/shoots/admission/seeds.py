"""Fitness of a seed for a shoot: pure, for admission, the scheduler, and controllers that act without a webhook."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.seed import GARDENLET_READY, SHOOTS, Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.numbers import whole_number
from espalier.api.text.violations import Violation, shown
from espalier.shoots.admission import messages

FIELD = "spec.seedName"


def unfit(
    shoot: Shoot, name: str, seed: Seed | None, profile: CloudProfile | None = None, placed: int = 0
) -> Iterator[Violation]:
    """The reason why a seed can't have a shoot. `placed`: shoots that it has already, or that are assigned to it.

    A seed that is not ready is no reason: a move waits for it (G35).
    """
    if seed is None:
        yield Violation(FIELD, name, "", messages.NO_SUCH_SEED)
        return
    if seed.metadata.deletion_timestamp is not None:
        yield Violation(FIELD, name, "", messages.SEED_DELETED)
    if seed.spec.backup is None:
        yield Violation(FIELD, name, "", messages.SEED_WITHOUT_BACKUP)
    for taint in seed.spec.taints:
        if not any(
            toleration.key == taint.key and toleration.value in (None, taint.value)
            for toleration in shoot.spec.tolerations
        ):
            text = f"{taint.key}={taint.value}" if taint.value else taint.key
            yield Violation(FIELD, f"{name} with taint {text}", "", messages.NOT_TOLERATED)
    yield from _unselected(shoot, name, seed, profile)
    limit = _number(seed.status.allocatable.get(SHOOTS))
    if limit is not None and placed >= limit:
        yield Violation(FIELD, f"{name} with {placed} shoots", f"fewer than {limit}", messages.FULL)
    yield from _overlapping(shoot, name, seed)


def is_lost(seed: Seed | None) -> bool:
    """True if there is no point in waiting for a seed: it is gone, is being deleted, or its gardenlet is silent."""
    if seed is None or seed.metadata.deletion_timestamp is not None:
        return True
    ready = condition_list.get(seed.status.conditions, GARDENLET_READY)
    return ready is not None and ready.status in ("False", "Unknown")


def _unselected(shoot: Shoot, name: str, seed: Seed, profile: CloudProfile | None) -> Iterator[Violation]:
    chosen = [shoot.spec.seed_selector, profile.spec.seed_selector if profile is not None else None]
    for selector in chosen:
        if selector is not None and not selector.selects(seed.metadata.labels):
            yield Violation(FIELD, name, shown(msgspec.to_builtins(selector)), messages.NOT_SELECTED)
        types = selector.provider_types if selector is not None else []
        if types and "*" not in types and seed.spec.provider.type not in types:
            yield Violation(FIELD, f"{name} of {seed.spec.provider.type}", ", ".join(types), messages.WRONG_PROVIDER)


def _overlapping(shoot: Shoot, name: str, seed: Seed) -> Iterator[Violation]:
    if seed.spec.networks is None or shoot.spec.networking is None:
        return
    for part in ("pods", "services", "nodes"):
        seed_range = _network(getattr(seed.spec.networks, part))
        for other in ("pods", "services", "nodes"):
            shoot_range = _network(getattr(shoot.spec.networking, other))
            if (
                seed_range is not None
                and shoot_range is not None
                and seed_range.version == shoot_range.version
                and seed_range.overlaps(shoot_range)
            ):
                overlap = f"{name}: its {part} are {seed_range}, the shoot's {other} {shoot_range}"
                yield Violation(FIELD, overlap, "", messages.OVERLAPPING)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False) if text else None
    except ValueError:
        return None


def _number(value: int | str | None) -> int | None:
    if isinstance(value, str):
        return whole_number(value)
    return value
