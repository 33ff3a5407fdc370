"""An etcd with three members: each behind its guard, with an agent of its own, all of one epoch in one store."""

from __future__ import annotations

import asyncio
import random
import re
import shlex
import ssl
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from espalier.assets.recipes import ETCD
from espalier.etcd.client import connect
from espalier.etcd.credentials import TlsFiles
from espalier.etcd.errors import EtcdError
from espalier.etcdbackup.restore.plan import BUMP
from espalier.kube.connection.tls import client_context
from espalier.shoots.secrets import names, peers
from tests.support.etcd.owners import QUICK, revision
from tests.support.etcd.peer_secrets import PeerSecrets
from tests.support.etcd.real_etcd import built
from tests.support.etcd.sets import EtcdSet, MemberOfSet, sets
from tests.support.waiting import eventually

LONGEST = 20
"""Seconds, on a busy machine; an election takes less than one."""
PAGE = Path(__file__).parents[3] / "docs" / "etcd-backup.md"

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.envtest]


@pytest.fixture(autouse=True)
def _built() -> None:
    if built(ETCD) is None:
        pytest.skip(f"etcd {ETCD.version} was not built: run make real-assets")


async def test_set_moves_and_loses_nothing(tmp_path: Path) -> None:
    async with sets(tmp_path, ETCD) as moves:
        source = await moves.set_founded()
        leader = await source.leader()
        asked = next(member for member in source.members if member is not leader)
        began = time.monotonic()
        await asked.initiated()
        assert time.monotonic() - began < QUICK.fence(QUICK.release) + 30
        await source.ended()
        destination = moves.set()
        await moves.set_taken_over(destination)
        assert await moves.missing(destination.members[1]) == []
        async with destination.client() as client:
            assert 0 < await revision(client) < BUMP


@pytest.mark.soak
async def test_members_that_are_killed_while_they_join(tmp_path: Path) -> None:
    """Between any two of their steps: the next attempt finds an entry without data, or data without a vote."""
    rng = random.Random(41)
    async with sets(tmp_path, ETCD) as moves:
        source = moves.set()
        await source.start()
        first, *others = source.members
        await first.serves()
        for number in range(6):
            await asyncio.sleep(rng.uniform(0.5, 4))
            killed = others[number % 2]
            await killed.agent.kill()
            await killed.guard.kill()
            await killed.start()
        await source.serves()


@pytest.mark.soak
async def test_next_leader_ends_epoch_of_a_lost_one(tmp_path: Path) -> None:
    """Nothing that a client knows to be written is lost with the member that was about to store it."""
    async with sets(tmp_path, ETCD) as moves:
        source = await moves.set_founded()
        leader = await source.leader()
        asked = next(member for member in source.members if member is not leader)
        await asked.ask("POST", "/copyop/initiate", {"epoch": 1})
        await leader.lose()
        await asked.initiated()
        destination = moves.set()
        await moves.set_taken_over(destination)
        assert await moves.missing(destination.members[0]) == []
        async with destination.client() as client:
            assert 0 < await revision(client) < BUMP


@pytest.mark.soak
async def test_set_is_taken_over_without_its_source(tmp_path: Path) -> None:
    async with sets(tmp_path, ETCD) as moves:
        source = await moves.set_founded()
        thaws = [member.freeze() for member in source.members]
        destination = moves.set()
        await moves.set_copied(destination)
        await destination.start()
        await moves.set_begun(destination)
        before = moves.witnesses.count(1)
        for thaw in thaws:
            thaw()
        await source.ended()
        assert moves.witnesses.count(1) == before
        async with destination.client() as client:
            assert await revision(client) > BUMP


STEPS = ("serving", "ended", "ready", "copying", "first serves", "all serve")
LOSSES = [
    (step, keeps_data, has_source)
    for step in STEPS
    for keeps_data in (True, False)
    for has_source in (True, False)
    # Without its source, a move has fewer steps. The first member has all data until others have joined it.
    if (has_source or step not in ("ended", "ready", "copying")) and (keeps_data or step != "first serves")
]


@pytest.mark.soak
@pytest.mark.parametrize(("step", "keeps_data", "has_source"), LOSSES)
async def test_member_is_lost_at_a_step_of_a_move(
    tmp_path: Path, step: str, keeps_data: bool, has_source: bool
) -> None:
    """The leader, if there is one. It comes back, as a StatefulSet makes it."""

    async def lost(now: str, members: EtcdSet) -> None:
        if now != step:
            return
        runs = any(member.etcd_pid() for member in members.members)
        victim = await members.leader() if runs else members.members[0]
        await (victim.end() if keeps_data else victim.lose())
        await victim.start()

    async with sets(tmp_path, ETCD) as moves:
        source = await moves.set_founded()
        await lost("serving", source)
        if has_source:
            await source.members[1].ask("POST", "/copyop/initiate", {"epoch": 1})
            await lost("ended", source)
            await source.members[2].initiated()
            await source.ended()
        else:
            await source.serves()
            for member in source.members:
                member.freeze()
        await lost("ready", source)
        destination = moves.set()
        copy = await moves.copy(destination.members[0])
        await lost("copying", source)
        await eventually(destination.members[0].is_ready, within=60, told=destination.logs)
        await copy.kill()
        await destination.start()
        await eventually(destination.members[0].is_ready, told=destination.logs)
        await lost("first serves", destination)
        await moves.set_begun(destination)
        await lost("all serve", destination)
        await destination.serves()
        async with destination.client() as client:
            is_lossless = await revision(client) < BUMP
        assert is_lossless is has_source
        if has_source:
            assert await moves.missing(destination.members[1]) == []


async def test_member_that_lost_its_data_joins_again(tmp_path: Path) -> None:
    async with sets(tmp_path, ETCD) as moves:
        source = moves.set()
        await source.start()
        await source.serves()
        ids = {member.name: member.id for member in await source.known()}
        lost = source.members[0]  # the first, which begins an epoch alone
        async with source.client() as client:
            await client.put(b"/before", b"")
            await lost.lose()
            others = [member for member in source.members if member is not lost]
            await eventually(lambda: client.put(b"/meanwhile", b""), despite=EtcdError, told=source.logs)
            await lost.start()
            await source.serves()
            assert await client.get(b"/before") is not None
        again = {member.name: member.id for member in await source.known()}
        assert again[lost.name] != ids[lost.name]
        assert [again[member.name] for member in others] == [ids[member.name] for member in others]


async def test_member_removed_by_hand_joins_again(tmp_path: Path) -> None:
    """Its data look whole, but no etcd starts with them: the others have its data."""
    async with sets(tmp_path, ETCD) as moves:
        source = moves.set()
        await source.start()
        await source.serves()
        ids = {member.name: member.id for member in await source.known()}
        removed = source.members[2]
        async with source.client() as client:
            await client.put(b"/before", b"")
            remove = partial(client.remove_member, ids[removed.name])
            await eventually(remove, lambda _: True, despite=EtcdError)  # once all have been connected for a while

        async def is_back() -> bool:
            known = {member.name: member for member in await source.known()}
            again = known.get(removed.name)
            return again is not None and again.id != ids[removed.name] and not again.is_learner

        await eventually(is_back, despite=EtcdError, told=source.logs)
        await source.serves()
        async with connect(removed.etcd_url) as client:
            assert await client.get(b"/before") is not None


async def test_snapshots_go_on_by_another_leader(tmp_path: Path) -> None:
    async with sets(tmp_path, ETCD) as moves:
        source = moves.set()
        await source.start()
        await source.serves()
        first = await source.leader()
        await eventually(lambda: first.ask("POST", "/snapshot/full"), lambda answer: answer[0] == 200)
        others = [member for member in source.members if member is not first]
        await eventually(lambda: others[0].ask("POST", "/snapshot/full"), lambda answer: answer[0] == 503)
        await first.lose()
        second = await source.leader()
        assert second is not first
        async with source.client() as client:
            await eventually(lambda: client.put(b"/after", b""), despite=EtcdError, told=source.logs)
            revision = (await client.status()).header.revision

        async def stored() -> bool:
            _, answer = await second.ask("GET", "/snapshot/latest")
            deltas = (answer or {}).get("deltaSnapshots") or []
            full = (answer or {}).get("fullSnapshot") or {}
            revisions = [full.get("lastRevision", 0), *(delta["lastRevision"] for delta in deltas)]
            return bool(max(revisions) >= revision)

        await eventually(stored, told=source.logs)


async def test_lost_quorum_is_restored_as_documented(tmp_path: Path) -> None:
    """Two volumes are gone: what was backed up is there again, and no one takes it for all that was written."""
    async with sets(tmp_path, ETCD) as moves:
        source = moves.set()
        await source.start()
        await source.serves()
        first, *others = source.members
        async with source.client() as client:
            await client.put(b"/before", b"")
            leader = await source.leader()
            await eventually(lambda: leader.ask("POST", "/snapshot/delta"), lambda answer: answer[0] == 200)
            await first.end()
            for lost in others:
                await lost.lose()
            await documented_restore(first)
            await source.start()
            await source.serves()
            assert await client.get(b"/before") is not None
            assert await revision(client) > BUMP
        await others[0].initiated()
        _, answer = await others[0].ask("GET", "/copyop/status")
        assert "finalSnapshot" not in answer["copyOperation"], "it would be taken for lossless"


async def test_set_serves_while_its_authority_is_renewed(tmp_path: Path) -> None:
    """Pods are replaced as a StatefulSet does it: the next one when the last one is ready. Two are the quorum."""
    gardenlet = PeerSecrets(now=datetime.now(UTC), rng=None)
    gardenlet.start()
    async with sets(tmp_path, ETCD) as moves:
        source = moves.set(gardenlet)
        await source.start()
        await source.serves()
        writes = asyncio.create_task(written(source))
        before = gardenlet.authority()
        del gardenlet.secrets[names.CA_ETCD_PEER]
        while gardenlet.reconcile() or gardenlet.outdated():
            for number in gardenlet.outdated():
                member = source.members[number]
                await member.end()
                await acknowledged(source)
                member.mount(gardenlet.replace(number))
                member.mount_client(gardenlet.secrets[peers.client_secret(gardenlet.wanted)])
                await member.start()
                await eventually(member.is_ready, told=source.logs)
        assert gardenlet.replaced == 9
        assert gardenlet.secrets[gardenlet.wanted][peers.TRUSTED] == gardenlet.authority() != before
        await source.serves()
        writes.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writes


async def test_port_of_clients_demands_their_certificate(tmp_path: Path) -> None:
    """That of another shoot is refused, and none; agents of members have their own, as they make members join."""
    other = PeerSecrets(now=datetime.now(UTC), rng=random.Random(2))
    other.start()
    async with sets(tmp_path, ETCD) as moves:
        source = moves.set()
        await source.start()
        await source.serves()
        first = source.members[0]
        own, authority = first.tls, first.run / peers.TRUSTED
        assert own is not None
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        for name, data in other.secrets[peers.client_secret(other.wanted)].items():
            (stranger / name).write_bytes(data)
        foreign = TlsFiles(authority, stranger / peers.CERTIFICATE, stranger / peers.KEY)
        members = TlsFiles(authority, first.run / peers.CERTIFICATE, first.run / peers.KEY)
        foreign_trust = TlsFiles(stranger / peers.TRUSTED, own.certificate, own.key)
        assert await answered(first.url, own)
        assert await answered(first.url, members)
        assert not await answered(first.url, TlsFiles(authority)), "without a certificate"
        assert not await answered(first.url, foreign)
        assert not await answered(f"http://127.0.0.1:{first.port}", None), "without TLS"
        assert not await answered(first.url, foreign_trust), "kube-apiserver takes the etcd of no other shoot"
        # What kube-apiserver presents makes it neither a member nor an agent.
        context = client_context(authority.read_bytes(), certificate=own.read().certificate, key=own.read().key)
        files = members.read()
        member = client_context(authority.read_bytes(), certificate=files.certificate, key=files.key)
        for port, path in ((first.peers[first.name], "members"), (first.agents[first.name], "backup/status")):
            assert await asked(f"https://localhost:{port}/{path}", member)
            assert not await asked(f"https://localhost:{port}/{path}", context)


async def answered(url: str, tls: TlsFiles | None) -> bool:
    """True if etcd answers a client with these files."""
    async with connect(url, tls=tls, timeout=1) as client:
        return await revision(client) > 0


async def asked(url: str, context: ssl.SSLContext) -> bool:
    """True if a server answers with 200."""
    with suppress(aiohttp.ClientError):
        async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
            return answer.status == 200
    return False


async def written(source: EtcdSet) -> None:
    """A write every 50 ms; raises where none is acknowledged for much longer than an election takes."""
    async with source.client(timeout=1) as client:
        last = time.monotonic()
        while True:
            with suppress(EtcdError):
                await client.put(b"/written", b"")
                last = time.monotonic()
            assert time.monotonic() - last < LONGEST, source.logs()
            await asyncio.sleep(0.05)


async def acknowledged(source: EtcdSet) -> None:
    """Return after some more writes."""
    async with source.client(timeout=1) as client:
        for number in range(10):
            write = partial(client.put, b"/acknowledged", b"%d" % number)
            await eventually(write, lambda _: True, despite=EtcdError, told=source.logs)


async def documented_restore(member: MemberOfSet) -> None:
    """Run the command of the page, with the paths and URLs of this machine."""
    [block] = re.findall(r"```\n *(espalier etcd-agent restore .*?)```", PAGE.read_text(), re.DOTALL)
    words = shlex.split(block.replace("\\\n", " "))
    here = {
        "--data-dir": str(member.data),
        "--name": member.name,
        "--initial-advertise-peer-urls": f"https://localhost:{member.peers[member.name]}",
    }
    for flag, value in here.items():
        words[words.index(flag) + 1] = value
    words[3] = member.store
    program = await asyncio.create_subprocess_exec(sys.executable, "-m", "espalier.cli", *words[1:])
    assert await program.wait() == 0
