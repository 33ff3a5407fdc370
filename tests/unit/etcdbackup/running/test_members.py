"""Requests of an agent to the other members of its etcd, and to their agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from espalier.api.etcd.calls import BackupStatus, CopyOperationStatus, InitiateCopyOperation
from espalier.etcd.credentials import TlsFiles
from espalier.etcd.errors import EtcdError
from espalier.etcd.requests import Range
from espalier.etcd.results import Member
from espalier.etcdbackup.agent.serving import ServerFiles, secured
from espalier.etcdbackup.election import agent
from espalier.etcdbackup.election.events import LeaderSeen, MemberClosed
from espalier.etcdbackup.restore.members import membership
from espalier.etcdbackup.running import agent as running_agent
from espalier.etcdbackup.running import members
from espalier.etcdbackup.running.agent import AgentRun
from espalier.etcdbackup.running.etcd_configuration import EtcdConfiguration
from espalier.etcdbackup.running.parts import NotStarted, Standing
from espalier.runtime.servers.serving import HttpServer
from tests.support.etcd.peer_secrets import PeerSecrets


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


CLOSED = b'{"epoch": 1, "initiated": true, "shut": true}'
LONG = b'{"epoch": 1, "initiated": true, "message": "%s"}' % (b"x" * members.LARGEST_ANSWER)
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


def peers_of_three(file: Path = Path("/nowhere"), **agents: str) -> members.Members:
    """The members of an etcd, as its first one knows them."""
    urls = {name: f"http://{name}:2380" for name in ("m-0", "m-1", "m-2")}
    cluster = ",".join(f"{name}={url}" for name, url in urls.items())
    clients = {name: f"http://{name}:2379" for name in urls}
    known = membership("m-0", cluster, advertise_peer_urls=urls["m-0"])
    alone = membership("m-0", "", advertise_peer_urls=urls["m-0"])
    configuration = EtcdConfiguration(alone, "token", Path("/data"))
    of_agents = {name.replace("_", "-"): url for name, url in agents.items()}
    return members.Members(known, clients, of_agents, configuration, file)


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
    others = Others(monkeypatch, known)
    assert await peers_of_three().standing() is expected
    assert others.asked == OTHERS, "its own etcd may know an older list"


OTHERS = ["http://m-1:2379", "http://m-2:2379"]


class Others:
    """The other members behind their guards; None: they have no quorum."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, known: list[Member] | None) -> None:
        self.known = known
        self.asked: list[str] = []
        self.changes: list[tuple[object, ...]] = []
        monkeypatch.setattr(members, "connect", self.connected)

    @asynccontextmanager
    async def connected(self, *urls: str, tls: TlsFiles | None, timeout: float) -> AsyncIterator[Any]:
        assert timeout
        assert tls is None
        self.asked.extend(urls)
        yield self

    async def members(self) -> list[Member]:
        if self.known is None:
            raise EtcdError("no quorum")
        return self.known

    async def remove_member(self, number: int) -> None:
        assert self.known is not None
        self.known = [member for member in self.known if member.id != number]
        self.changes.append(("remove", number))

    async def add_learner(self, *urls: str) -> Member:
        assert self.known is not None
        self.known = [*self.known, Member(9, "", urls, (), True)]
        self.changes.append(("add", *urls))
        return self.known[-1]

    async def promote_member(self, number: int) -> None:
        self.changes.append(("promote", number))

    async def do(self, _request: Range) -> Any:
        return SimpleNamespace(header=SimpleNamespace(revision=7), count=3)


def of_three(*ids: int) -> list[Member]:
    return [Member(number, f"m-{number}", (f"http://m-{number}:2380",), (), False) for number in ids]


async def test_member_without_data_takes_a_new_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = Others(monkeypatch, of_three(0, 1, 2))
    file = tmp_path / "etcd.yaml"
    assert await peers_of_three(file).join() == 7
    assert others.asked == OTHERS
    assert others.changes == [("remove", 0), ("add", "http://m-0:2380")]
    written = yaml.safe_load(file.read_text())
    assert written["initial-cluster-state"] == "existing"
    assert written["initial-cluster"] == "m-0=http://m-0:2380,m-1=http://m-1:2380,m-2=http://m-2:2380"


async def test_member_that_can_not_join_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Others(monkeypatch, None)
    with pytest.raises(NotStarted, match=r"m-0 can't join .*: no quorum\. It goes on once two members serve; if two"):
        await peers_of_three(tmp_path / "etcd.yaml").join()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("begins", "state"), [(True, "new"), (False, "existing")])
def test_only_the_beginning_makes_a_new_cluster(tmp_path: Path, begins: bool, state: str) -> None:
    """An etcd that has lost its log begins no second one."""
    file = tmp_path / "etcd.yaml"
    peers_of_three(file).configure(begins=begins)
    written = yaml.safe_load(file.read_text())
    assert (written["initial-cluster-state"], written["initial-cluster"]) == (state, "m-0=http://m-0:2380")


async def test_learner_with_all_data_gets_its_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it has peers call it where its pod is: an etcd that was alone had no such address."""
    monkeypatch.setattr(members, "RETRY_AFTER", 0)
    others = Others(monkeypatch, of_three(1, 2))
    revisions = [6, 7]
    updated: list[tuple[object, ...]] = []

    async def status() -> Any:
        is_learner = ("promote", 5) not in others.changes
        return SimpleNamespace(is_learner=is_learner, header=SimpleNamespace(member_id=5))

    async def do(_request: Range) -> Any:
        revision = revisions.pop(0) if len(revisions) > 1 else revisions[0]
        return SimpleNamespace(header=SimpleNamespace(revision=revision), count=3)

    async def known() -> list[Member]:
        return [*of_three(1, 2), Member(5, "m-0", ("unix:///run/peer.sock",), (), False)]

    async def update_member(*of: object) -> None:
        updated.append(of)

    own: Any = SimpleNamespace(status=status, do=do, members=known, update_member=update_member)
    await peers_of_three().settle(own)
    assert others.changes == [("promote", 5)]
    assert revisions == [7], "at revision 6 it lacked a write"
    assert updated == [(5, "http://m-0:2380")]


@pytest.mark.parametrize(
    ("status_code", "text"),
    [(500, CLOSED), (200, LONG), (200, b"[]"), (200, b"")],
)
async def test_answer_of_an_agent_that_is_none_is_no_answer(status_code: int, text: bytes) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status_code, body=text)

    app = web.Application()
    app.router.add_post("/copyop/initiate", answer)
    async with TestServer(app) as server:
        peers = peers_of_three(m_1=str(server.make_url("")).rstrip("/"))
        with pytest.raises(OSError, match="the agent of m-1"):
            await peers.ask("m-1", InitiateCopyOperation(epoch=1))


class Run:
    """An agent whose epoch has ended, with another member whose agent answers these in turn."""

    def __init__(self, *answers: CopyOperationStatus, phase: agent.Phase = agent.Phase.HANDING_OVER) -> None:
        self.answers = list(answers)
        self.calls: list[InitiateCopyOperation] = []
        self.added: list[object] = []
        self.phase = phase.value
        self._settings = SimpleNamespace(epoch=1)
        self._state = SimpleNamespace(phase=phase, api_servers_ended=10.0)
        self._clock = SimpleNamespace(monotonic=lambda: 14.0)
        self._queue = SimpleNamespace(add=self.added.append)
        self._parts = SimpleNamespace(peers=self, etcd=self)

    async def ask(self, _name: str, call: InitiateCopyOperation) -> CopyOperationStatus:
        self.calls.append(call)
        if not self.answers:
            await asyncio.Event().wait()
        return self.answers.pop(0)

    async def status(self, *, timeout: float) -> Any:
        assert timeout == running_agent.LOOK_PERIOD
        if not self.leads:
            await asyncio.Event().wait()
        answer = self.leads.pop(0)
        if answer is None:
            raise EtcdError("no leader")
        return SimpleNamespace(leads=answer)

    leads: ClassVar[list[bool | None]] = []


async def ran(work: Coroutine[Any, Any, None]) -> None:
    """Run a loop that pauses for no time, until it waits for something else."""
    task = asyncio.create_task(work)
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def closed(epoch: int, *, shut: bool, silent: bool = False) -> CopyOperationStatus:
    return CopyOperationStatus(epoch, True, None, shut=shut, silent=silent)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([closed(2, shut=True, silent=True)], []),
        ([closed(1, shut=False)], []),
        ([closed(1, shut=False, silent=True)], []),
        ([closed(1, shut=True)], [MemberClosed("m-1")]),
        ([closed(1, shut=True), closed(1, shut=True, silent=True)], [MemberClosed("m-1"), MemberClosed("m-1", True)]),
    ],
)
async def test_member_counts_as_shut_once_it_says_so(
    monkeypatch: pytest.MonkeyPatch, answers: list[CopyOperationStatus], expected: list[MemberClosed]
) -> None:
    monkeypatch.setattr(running_agent, "LOOK_PERIOD", 0)
    run: Any = Run(*answers)
    await ran(AgentRun._watch_member(run, "m-1"))
    assert run.added == expected
    assert run.calls[0] == InitiateCopyOperation(epoch=1, api_servers_ended=True, api_servers_ended_for=4)


async def test_nobody_is_asked_to_end_an_epoch_that_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_agent, "LOOK_PERIOD", 0)
    run: Any = Run(closed(1, shut=True), phase=agent.Phase.OWNER)
    await ran(AgentRun._watch_member(run, "m-1"))
    assert (run.calls, run.added) == ([], [])


async def test_leader_is_asked_for_once_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_agent, "LOOK_PERIOD", 0)
    run: Any = Run(phase=agent.Phase.OWNER)
    run.leads = [True]
    await ran(AgentRun._watch_leader(run))
    assert (run.added, run.leads) == ([], [True])


async def test_who_can_not_tell_if_it_leads_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_agent, "LOOK_PERIOD", 0)
    run: Any = Run()
    run.leads = [True, True, None, True]
    await ran(AgentRun._watch_leader(run))
    assert run.added == [LeaderSeen(True), LeaderSeen(False), LeaderSeen(True)]


async def test_agents_call_each_other_by_certificates(tmp_path: Path) -> None:
    """Whoever has none of the members' authority is neither asked nor answered, whatever else it can present."""
    asked = []

    async def initiated(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=CLOSED)

    files, stranger = (tls_files(tmp_path / name) for name in ("members", "stranger"))
    routes = web.Application()
    routes.router.add_post("/copyop/initiate", initiated)
    assert files.certificate is not None and files.key is not None  # noqa: PT018
    context = secured(routes, ServerFiles(files.certificate, files.key, files.certificate_authority))
    server = HttpServer(routes, "127.0.0.1", 0, context=context)
    await server.start()
    call = InitiateCopyOperation(epoch=1)
    try:
        url = f"https://localhost:{server.port}"
        assert (await replace(peers_of_three(m_1=url), tls=files).ask("m-1", call)).shut
        own = TlsFiles(files.certificate_authority, stranger.certificate, stranger.key)
        nobody = TlsFiles(files.certificate_authority)
        for others in (stranger, own, nobody):
            with pytest.raises(OSError, match="the agent of m-1"):
                await replace(peers_of_three(m_1=url), tls=others).ask("m-1", call)
        with pytest.raises(OSError, match="the agent of m-1"):
            await replace(peers_of_three(m_1=f"http://localhost:{server.port}"), tls=files).ask("m-1", call)
        missing = TlsFiles(files.certificate_authority, tmp_path / "none", tmp_path / "none")
        with pytest.raises(OSError, match="can't be read"):
            await replace(peers_of_three(m_1=url), tls=missing).ask("m-1", call)
    finally:
        await server.stop()
    assert asked == ["/copyop/initiate"]


def tls_files(folder: Path) -> TlsFiles:
    """Certificates of a member, by an authority of its own."""
    folder.mkdir()
    made = PeerSecrets(now=datetime.now(UTC), rng=None)
    made.start()
    for name, content in made.secrets[made.wanted].items():
        (folder / name).write_bytes(content)
    return TlsFiles(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")
