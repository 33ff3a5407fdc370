"""Requests of an agent to the other members of its etcd, and to their agents."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.etcd.calls import BackupStatus
from espalier.etcd.requests import Range
from espalier.etcdbackup.running import members
from espalier.etcdbackup.running.agent import AgentRun


class Etcd:
    """An etcd at a revision, with so many keys."""

    def __init__(self, revision: int, count: int) -> None:
        self.revision, self.count = revision, count

    async def do(self, request: Range) -> Any:
        return SimpleNamespace(header=SimpleNamespace(revision=self.revision), count=self.count)


@pytest.mark.parametrize(
    ("learner", "expected"),
    [((9, 5), True), ((10, 5), True), ((8, 5), False), ((9, 2), False)],
)
async def test_learner_gets_vote_with_all_keys_alone(learner: tuple[int, int], expected: bool) -> None:
    """etcd would promote one that has the log of a restored etcd, and none of its data."""
    own: Any = Etcd(*learner)
    other: Any = Etcd(9, 5)
    assert await members._has_all_keys(own, other) is expected


class Peers:
    others = ("etcd-main-1", "etcd-main-2")

    def __init__(self, **answers: BackupStatus) -> None:
        self.answers = {name.replace("_", "-"): answer for name, answer in answers.items()}

    async def backup_status(self, name: str) -> BackupStatus:
        if name not in self.answers:
            raise OSError("connection refused")
        return self.answers[name]


def status(*, epoch: int = 1, follows: bool = False, message: str = "") -> BackupStatus:
    return BackupStatus(epoch=epoch, serves=True, delta_period=20, follows=follows, message=message)


FOLLOWER, LEADER = status(follows=True), status(message="leads")


@pytest.mark.parametrize(
    ("own", "answers", "expected"),
    [
        (LEADER, {"etcd_main_1": status(message="another")}, LEADER),
        (FOLLOWER, {"etcd_main_1": FOLLOWER, "etcd_main_2": LEADER}, LEADER),
        (FOLLOWER, {"etcd_main_2": LEADER}, LEADER),
        (FOLLOWER, {"etcd_main_1": status(epoch=2)}, FOLLOWER),
        (FOLLOWER, {}, FOLLOWER),
    ],
)
async def test_leaders_agent_tells_about_backups(
    own: BackupStatus, answers: dict[str, BackupStatus], expected: BackupStatus
) -> None:
    """A gardenlet reaches any of the agents; only that of the leader knows the snapshots."""
    run: Any = SimpleNamespace(backup_status=lambda: own, _parts=SimpleNamespace(peers=Peers(**answers)))
    assert await AgentRun.backup_status_of_all(run) == expected
