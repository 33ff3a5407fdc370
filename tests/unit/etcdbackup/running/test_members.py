"""Requests of an agent to the other members of its etcd, and to their agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.etcd.calls import BackupStatus
from espalier.etcd.errors import EtcdError
from espalier.etcd.requests import Range
from espalier.etcd.results import Member
from espalier.etcdbackup.restore.members import membership
from espalier.etcdbackup.running import members
from espalier.etcdbackup.running.agent import AgentRun
from espalier.etcdbackup.running.parts import Standing


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


def peers_of_three() -> members.Members:
    """The members of an etcd, as its first one knows them."""
    urls = {name: f"http://{name}:2380" for name in ("m-0", "m-1", "m-2")}
    cluster = ",".join(f"{name}={url}" for name, url in urls.items())
    clients = {name: f"http://{name}:2379" for name in urls}
    configuration: Any = None
    return members.Members(
        membership("m-0", cluster, advertise_peer_urls=urls["m-0"]), clients, {}, configuration, Path("/nowhere")
    )


async def test_member_added_by_somebody_is_not_asked() -> None:
    """The agent of the leader goes on: it defragments no stranger, and says who it is."""
    stranger = Member(0xBAD, "", ("http://elsewhere:2380",), (), False)
    with pytest.raises(EtcdError, match=r"member bad at http://elsewhere:2380 is not one of m-0, m-1, m-2; remove it"):
        peers_of_three().client_of(stranger)
    assert peers_of_three()._name(stranger) == "bad", "etcd refuses a cluster with a member without a name"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([Member(1, "m-0", ("http://m-0:2380",), (), False)], Standing.MEMBER),
        ([Member(1, "", ("http://m-0:2380",), (), True)], Standing.LEARNER),
        ([Member(2, "m-1", ("http://m-1:2380",), (), False)], Standing.REMOVED),
        (None, Standing.UNKNOWN),
    ],
)
async def test_others_know_the_standing_of_a_member(
    monkeypatch: pytest.MonkeyPatch, known: list[Member] | None, expected: Standing
) -> None:
    asked: list[str] = []

    @asynccontextmanager
    async def connected(*urls: str, timeout: float) -> AsyncIterator[Any]:
        asked.extend(urls)

        async def answer() -> list[Member]:
            if known is None:
                raise EtcdError("no quorum")
            return known

        yield SimpleNamespace(members=answer)

    monkeypatch.setattr(members, "connect", connected)
    assert await peers_of_three().standing() is expected
    assert asked == ["http://m-1:2379", "http://m-2:2379"], "its own etcd may know an older list"
