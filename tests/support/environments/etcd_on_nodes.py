"""The etcd of a cluster of real nodes, observed member by member while something happens to the nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise

from espalier.etcd.client import Client, connect
from espalier.etcd.credentials import TlsFiles
from espalier.etcd.errors import EtcdError
from espalier.etcd.requests import Range
from espalier.etcd.results import HashResult, KeyValue, Member, Status
from espalier.realnodes.nspawn.system.state import State
from tests.support.environments.real_environment import RealEnvironment
from tests.support.environments.real_node import Host
from tests.support.etcd import calls

CERTIFICATES = "/etc/kubernetes/pki/etcd"
PORT = 2379
PERIOD = 0.5
"""Seconds between two observations; each member is at each version for many times as long."""
PATIENCE = 5.0
"""Seconds for an answer of a member that may be away."""
LONG_PATIENCE = 60.0
"""Seconds for an answer of a member that is there, on a machine that does other things too."""


@dataclass
class EtcdOnNodes:
    """Etcd on the control plane nodes, asked from this machine with a certificate of one of them."""

    environment: RealEnvironment
    tls: TlsFiles

    @classmethod
    def of(cls, env: RealEnvironment) -> EtcdOnNodes:
        """Copy the certificates of a node: they hold when this node is gone, too."""
        name = next(record.name for record in State(env.home.nodes).nodes() if record.control_plane)
        authority, certificate, key = (
            env.environment.home / file for file in ("ca.crt", "healthcheck-client.crt", "healthcheck-client.key")
        )
        for copy in (authority, certificate, key):
            copy.write_bytes(Host.find(env, name).place(f"{CERTIFICATES}/{copy.name}").read_bytes())
        return cls(env, TlsFiles(authority, certificate, key))

    @asynccontextmanager
    async def clients(self, patience: float) -> AsyncIterator[dict[str, Client]]:
        """A client of each control plane node that there is, by its name."""
        records = [record for record in State(self.environment.home.nodes).nodes() if record.control_plane]
        async with AsyncExitStack() as stack:
            yield {
                record.name: await stack.enter_async_context(
                    connect(f"https://{record.address}:{PORT}", tls=self.tls, timeout=patience)
                )
                for record in records
                if record.address
            }

    async def look(self) -> tuple[dict[str, Status], dict[str, HashResult]]:
        """The state of each member that answers, and hashes of all keys at the newest revision that all of them have.

        Without hashes while one of them is a learner, which answers no such request.
        """
        async with self.clients(PATIENCE) as clients:
            answers = await asyncio.gather(*(_status(client) for client in clients.values()))
            statuses = {name: status for name, status in zip(clients, answers, strict=True) if status is not None}
            if not statuses or any(status.is_learner for status in statuses.values()):
                return statuses, {}
            revision = min(status.header.revision for status in statuses.values())
            hashed = await asyncio.gather(*(_hash(clients[name], revision) for name in statuses))
        return statuses, {name: result for name, result in zip(statuses, hashed, strict=True) if result is not None}

    async def members(self) -> dict[str, Member]:
        """The members, by their names."""
        async with self.clients(LONG_PATIENCE) as clients:
            return {member.name: member for member in await next(iter(clients.values())).members()}

    async def items(self, prefix: str) -> dict[str, list[KeyValue]]:
        """The keys below a prefix, with their revisions, as each member has them."""
        request = Range(prefix.encode(), prefix.encode() + b"\xff", serializable=True)
        async with self.clients(LONG_PATIENCE) as clients:
            return {name: list((await client.do(request)).items) for name, client in clients.items()}


@dataclass
class History:
    """The states of etcd while it was observed, each once in a row."""

    states: list[dict[str, str]] = field(default_factory=list)
    """Versions by member, of those that answered."""
    compared: dict[frozenset[str], int] = field(default_factory=dict)
    """How often hashes of two members or more were equal, by the versions that these had."""
    different: list[str] = field(default_factory=list)

    def complete(self, size: int) -> list[dict[str, str]]:
        """The states in which this many members answered, each once in a row."""
        results = [state for state in self.states if len(state) == size]
        return [state for before, state in pairwise([{}, *results]) if state != before]

    def add(self, versions: dict[str, str], hashes: Mapping[str, HashResult]) -> None:
        """Add an observation."""
        if not self.states or self.states[-1] != versions:
            self.states.append(versions)
        comparable = {(result.revision, result.compact_revision) for result in hashes.values()}
        if len(hashes) < 2 or len(comparable) > 1:  # one of them has compacted its history already
            return
        if len({result.hash for result in hashes.values()}) > 1:
            self.different.append(f"{versions}: {dict(hashes)}")
        mixture = frozenset(versions[name] for name in hashes)
        self.compared[mixture] = self.compared.get(mixture, 0) + 1


@asynccontextmanager
async def observed(etcd: EtcdOnNodes) -> AsyncIterator[History]:
    """Observe etcd while the block runs."""
    history = History()

    async def observe() -> None:
        while True:
            with suppress(OSError):  # a node came or went between two reads of its record
                statuses, hashes = await etcd.look()
                history.add({name: status.version for name, status in statuses.items()}, hashes)
            await asyncio.sleep(PERIOD)

    observing = asyncio.create_task(observe())
    try:
        yield history
    finally:
        observing.cancel()
        with suppress(asyncio.CancelledError):
            await observing


async def _status(client: Client) -> Status | None:
    try:
        return await client.status()
    except EtcdError:
        return None


async def _hash(client: Client, revision: int) -> HashResult | None:
    try:
        return await calls.hash_kv(client, revision, timeout=PATIENCE)
    except EtcdError:
        return None
