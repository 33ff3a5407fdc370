"""Evacuation of a seed: which shoots are moved next, with a limit on migrations at once. Pure.

Who evacuates acts as a user: each move is a patch of `spec.seedName` like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from espalier.api.gardener.operations import OperationState
from espalier.api.gardener.responsibility import created, migrating, restoring
from espalier.api.gardener.seed import Seed
from espalier.api.gardener.shoot import Shoot
from espalier.shoots.garden.readiness import choose


class Move(NamedTuple):
    """One shoot and where it is to go."""

    namespace: str
    shoot: str
    destination: str


class Evacuation(NamedTuple):
    """The next moves, how many are under way and left, and what keeps others."""

    moves: tuple[Move, ...]
    under_way: int
    left: int
    kept: Mapping[str, str]


def next_moves(
    seed: str, shoots: Iterable[Shoot], seeds: Iterable[Seed], limit: int, destination: str | None = None
) -> Evacuation:
    """The moves that may begin now. Without a `destination` each shoot goes where the scheduler would put it."""
    everything, targets = list(shoots), [one for one in seeds if one.metadata.name != seed]
    if destination is not None:
        targets = [one for one in targets if one.metadata.name == destination]
    counts: dict[str, int] = {}
    for shoot in everything:
        counts[shoot.spec.seed_name or ""] = counts.get(shoot.spec.seed_name or "", 0) + 1
    under_way = sum(1 for shoot in everything if migrating(shoot) or (restoring(shoot) and not _failed(shoot)))
    left = [shoot for shoot in everything if shoot.spec.seed_name == seed]
    moves: list[Move] = []
    kept: dict[str, str] = {}
    for shoot in sorted(left, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        named = f"{shoot.metadata.namespace}/{shoot.metadata.name}"
        if shoot.metadata.deletion_timestamp is not None:
            kept[named] = "it is being deleted"
        elif not created(shoot):
            kept[named] = "its creation has not finished"
        elif (chosen := choose(shoot, targets, counts))[0] is None:
            kept[named] = chosen[1]
        elif under_way + len(moves) < limit:
            counts[chosen[0] or ""] = counts.get(chosen[0] or "", 0) + 1
            moves.append(Move(shoot.metadata.namespace, shoot.metadata.name, chosen[0] or ""))
    return Evacuation(tuple(moves), under_way, len(left), kept)


def _failed(shoot: Shoot) -> bool:
    last = shoot.status.last_operation
    return last is not None and last.state == OperationState.FAILED
