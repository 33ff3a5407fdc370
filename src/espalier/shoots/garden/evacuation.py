"""Evacuation of a seed: selects the shoots to move next, with a limit on concurrent migrations. Pure.

The evacuating user needs no special rights: each move is a patch of `spec.seedName` like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.responsibility import created, migrating, restoring
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType
from espalier.shoots.admission.seeds import is_lost
from espalier.shoots.garden.readiness import choose, placed


class Move(NamedTuple):
    """One shoot and its destination."""

    namespace: str
    shoot: str
    destination: str


class Evacuation(NamedTuple):
    """The next moves, the numbers of running moves and of shoots that remain, and the shoots that can't move."""

    moves: tuple[Move, ...]
    running: int
    remaining: int
    blocked: Mapping[str, str]
    """By namespace and name, the reason why a shoot does not move."""


def next_moves(
    seed: str,
    shoots: Iterable[Shoot],
    seeds: Iterable[Seed],
    limit: int,
    destination: str | None = None,
    *,
    profiles: Mapping[str, CloudProfile] = MappingProxyType({}),
    refused: Mapping[str, str] = MappingProxyType({}),
) -> Evacuation:
    """The moves that may start now. Without a `destination` each shoot goes where the scheduler would put it.

    `refused`: shoots whose move was rejected, and why. They stay, and do not count as running.
    """
    all_shoots, all_seeds = list(shoots), list(seeds)
    source_is_lost = is_lost(next((candidate for candidate in all_seeds if candidate.metadata.name == seed), None))
    targets = [candidate for candidate in all_seeds if candidate.metadata.name != seed]
    if destination is not None:
        targets = [candidate for candidate in targets if candidate.metadata.name == destination]
    counts = placed(all_shoots)
    running = sum(1 for shoot in all_shoots if (migrating(shoot) or restoring(shoot)) and not _failed(shoot))
    remaining = [shoot for shoot in all_shoots if shoot.spec.seed_name == seed or _is_stuck(shoot, seed)]
    moves: list[Move] = []
    blocked: dict[str, str] = {}
    for shoot in sorted(remaining, key=lambda moved: (moved.metadata.namespace, moved.metadata.name)):
        key = f"{shoot.metadata.namespace}/{shoot.metadata.name}"
        if key in refused:
            blocked[key] = refused[key]
        elif shoot.spec.seed_name != seed:
            blocked[key] = (
                f"its move to seed {shoot.spec.seed_name} has failed: see `espalier shoots describe`, then annotate "
                "it with gardener.cloud/operation=retry"
            )
        elif shoot.metadata.deletion_timestamp is not None and not source_is_lost:
            blocked[key] = "it is being deleted"
        elif not created(shoot):
            blocked[key] = "its creation has not finished"
        elif (chosen := choose(shoot, targets, counts, profiles.get(shoot.spec.profile)))[0] is None:
            blocked[key] = chosen[1]
        elif running + len(moves) < limit:
            counts[chosen[0] or ""] += 1
            moves.append(Move(shoot.metadata.namespace, shoot.metadata.name, chosen[0] or ""))
    return Evacuation(tuple(moves), running, len(remaining), blocked)


def _is_stuck(shoot: Shoot, seed: str) -> bool:
    """True if the shoot is to leave the seed, and its move is no longer retried."""
    return shoot.status.seed_name == seed and migrating(shoot) and _failed(shoot)


def _failed(shoot: Shoot) -> bool:
    """True if its move has failed; earlier failures do not count."""
    last = shoot.status.last_operation
    is_of_move = last is not None and last.type in (OperationType.MIGRATE, OperationType.RESTORE)
    return is_of_move and last is not None and last.state == OperationState.FAILED
