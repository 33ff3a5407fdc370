"""Starts of a member of an etcd that has several: none begins a second etcd where clients may have written."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.etcd.ownership import Served
from espalier.etcd.requests import Range
from espalier.etcdbackup.restore.plan import BUMP
from espalier.etcdbackup.running import starting as module
from espalier.etcdbackup.running.parts import NotStarted, Origin, Standing
from espalier.etcdbackup.running.starting import Starting

CLUSTER = "shoot--a--b/1"


class Peers:
    """Other members, which are at a revision; None: none of them answers."""

    def __init__(self, *, is_first: bool, revision: int | None) -> None:
        self.is_first, self.first = is_first, "etcd-main-0"
        self.revision = revision
        self.configured: list[str] = []
        self.standings: list[Standing] = []
        self.votes = False

    async def standing(self) -> Standing:
        return self.standings.pop(0)

    async def settle(self, _etcd: Any) -> None:
        if not self.votes:
            await asyncio.Event().wait()
        self.configured.append("votes")

    def configure(self, *, begins: bool = False) -> None:
        self.configured.append("begins" if begins else "goes on")

    async def join(self) -> int:
        if self.revision is None:
            raise NotStarted("nobody answers")
        self.configured.append("joins")
        return self.revision


class Data:
    def __init__(self, origin: Origin | None = None) -> None:
        self.created: list[Origin] = []
        self.recorded = origin
        self.is_there = False

    async def origin(self) -> Origin | None:
        return self.recorded

    async def is_present(self) -> bool:
        return self.is_there

    async def damage(self) -> str:
        return ""

    async def create_empty(self, origin: Origin) -> None:
        self.created.append(origin)


class Etcd:
    """An etcd at a revision."""

    def __init__(self, revision: int) -> None:
        self.revision = revision

    async def do(self, _request: Range) -> Any:
        return SimpleNamespace(header=SimpleNamespace(revision=self.revision))


def starting(peers: Peers, served: Served | None) -> tuple[Starting, Data]:
    made: Any = Starting.__new__(Starting)
    data = Data()
    made._settings = SimpleNamespace(epoch=1, cluster=CLUSTER)
    made._parts = SimpleNamespace(data=data, store=SimpleNamespace(where="s3://bucket"), peers=peers)
    made._served, made._usable = served, SimpleNamespace(latest=None)
    return made, data


MARKER: Any = SimpleNamespace(snapshots=(), lossless=True)
SERVED = Served(1, CLUSTER, 5)


async def test_first_member_begins_alone() -> None:
    peers = Peers(is_first=True, revision=None)
    made, data = starting(peers, None)
    await made._provide_data(MARKER)
    assert (peers.configured, len(data.created)) == (["begins"], 1)


@pytest.mark.parametrize("is_first", [True, False])
async def test_no_member_begins_again_once_it_was_served(is_first: bool) -> None:
    """The first one neither: the others have what clients have written."""
    peers = Peers(is_first=is_first, revision=None)
    made, data = starting(peers, SERVED)
    with pytest.raises(NotStarted, match="nobody answers"):
        await made._provide_data(MARKER)
    assert (peers.configured, data.created) == ([], [])


async def test_others_wait_for_the_first_member() -> None:
    peers = Peers(is_first=False, revision=7)
    made, data = starting(peers, None)
    with pytest.raises(NotStarted, match="waiting for etcd-main-0"):
        await made._provide_data(MARKER)
    assert (peers.configured, data.created) == ([], [])


@pytest.mark.parametrize(("revision", "complete"), [(7, True), (BUMP + 7, False)])
async def test_member_that_joins_knows_if_writes_were_lost(revision: int, complete: bool) -> None:
    """An etcd that was restored after clients had written skips revisions: its final snapshot is not named as final."""
    peers = Peers(is_first=False, revision=revision)
    made, data = starting(peers, SERVED)
    await made._provide_data(MARKER)
    assert (peers.configured, data.created) == (["joins"], [Origin(1, CLUSTER, complete)])


@pytest.mark.parametrize(
    ("origin", "revision", "expected"),
    [
        (None, 7, True),
        (Origin(1, CLUSTER, True), 7, True),
        (Origin(1, CLUSTER, False), 7, False),
        (None, BUMP + 5, False),
        (Origin(1, CLUSTER, True), BUMP + 5, False),
    ],
)
async def test_etcd_restored_after_writes_lacks_some(origin: Origin | None, revision: int, expected: bool) -> None:
    """Also by hand, which records no origin: such a restore skips revisions."""
    made, _ = starting(Peers(is_first=True, revision=None), SERVED)
    made._parts = SimpleNamespace(data=Data(origin), etcd=Etcd(revision))  # type: ignore[assignment]
    assert await made.has_all_writes() is expected
    made._served = None
    assert await made.has_all_writes() is (origin is None or origin.complete), "no client has written yet"


class Guard:
    """A guard whose etcd answers at the last of these attempts, if at all."""

    def __init__(self, attempts: int, *, runs: bool = True) -> None:
        self.attempts, self.runs = attempts, runs

    async def is_running(self) -> bool:
        return self.runs

    async def start(self) -> None:
        self.attempts -= 1
        if self.attempts:
            raise NotStarted("etcd did not answer within 300 s")


@pytest.mark.parametrize(
    ("runs", "standing", "is_waited_for"),
    [
        (True, Standing.LEARNER, True),
        (True, Standing.MEMBER, False),
        (True, Standing.UNKNOWN, False),
        (False, Standing.LEARNER, False),
    ],
)
async def test_learner_is_waited_for_while_it_gets_data(runs: bool, standing: Standing, is_waited_for: bool) -> None:
    """Ended meanwhile it would begin again, and a large etcd never end."""
    peers = Peers(is_first=False, revision=None)
    peers.standings = [standing]
    made, _ = starting(peers, SERVED)
    made._parts = SimpleNamespace(guard=Guard(2, runs=runs), peers=peers, etcd=None)  # type: ignore[assignment]
    if is_waited_for:
        await made._run_etcd()
        return
    with pytest.raises(NotStarted):
        await made._run_etcd()


async def test_member_without_a_vote_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = Peers(is_first=False, revision=None)
    made, _ = starting(peers, SERVED)
    made._parts = SimpleNamespace(guard=Guard(1), peers=peers, etcd=None)  # type: ignore[assignment]
    monkeypatch.setattr(module, "SETTLE_TIMEOUT", 0.0)
    with pytest.raises(NotStarted, match=r"got no vote .*: the others give it one when two of them serve"):
        await made._get_vote()


@pytest.mark.parametrize("standing", Standing)
async def test_removed_member_alone_gives_up_its_data(standing: Standing) -> None:
    peers = Peers(is_first=True, revision=7)
    peers.standings = [standing]
    made, data = starting(peers, SERVED)
    guard = Failing(1)
    made._parts = SimpleNamespace(data=data, guard=guard, peers=peers, etcd=None)  # type: ignore[assignment]
    data.is_there, data.recorded = True, Origin(1, CLUSTER, True)
    if standing is Standing.REMOVED:
        await made._start(MARKER)
        assert (peers.configured, guard.failures) == (["goes on", "joins"], 0)
        return
    with pytest.raises(NotStarted, match="its data look intact and were left unchanged"):
        await made._start(MARKER)
    assert (peers.configured, data.created) == (["goes on"], [])


class Failing:
    """A guard whose etcd exits so often."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    async def is_running(self) -> bool:
        return False

    async def start(self) -> None:
        if self.failures:
            self.failures -= 1
            raise NotStarted("etcd exited before it answered")

    async def stop(self) -> None:
        pass


async def test_members_behind_their_backups_serve_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single etcd would be restored. Here each of the members would be, into an etcd of its own."""
    peers = Peers(is_first=True, revision=None)
    peers.votes = True
    made, data = starting(peers, SERVED)
    made._parts = SimpleNamespace(guard=Guard(1), peers=peers, etcd=Etcd(7), store=None, data=data)  # type: ignore[assignment]
    reach = 9

    async def inventory(*_: object) -> Any:
        return SERVED

    made._objects = SimpleNamespace(served=inventory)  # type: ignore[assignment]
    monkeypatch.setattr(module, "read_inventory", inventory)
    monkeypatch.setattr(module, "usable_snapshots", lambda *_: SimpleNamespace(latest=None))
    monkeypatch.setattr(module, "target", lambda _usable: reach)
    with pytest.raises(NotStarted, match="the members are at revision 7, behind their backups, which are at 9"):
        await made.run(MARKER)
    reach = 7
    await made.run(MARKER)
    assert (peers.configured, data.created) == (["votes", "votes"], []), "a learner would answer with old data"
