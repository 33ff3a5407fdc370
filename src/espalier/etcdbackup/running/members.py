"""The members of an etcd, as the agent of one of them deals with them: it joins them, and gets its vote.

The first member begins an epoch alone, empty or from backups. The others join it one at a time: as learners, which get
all data and have no vote, and are promoted when they have the data. So does any member that has lost its data, also the
first: its old entry is removed, and it joins with a new ID.

Requests about members go to the proxies of the others, so nobody joins an etcd that may not serve.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
import structlog
from msgspec.structs import replace

from espalier.api.etcd.calls import OWN, BackupStatus, CopyOperationStatus, InitiateCopyOperation
from espalier.api.trees import json_trees
from espalier.etcd.client import Client, connect
from espalier.etcd.credentials import CertificateError, TlsFiles
from espalier.etcd.errors import EtcdError
from espalier.etcd.requests import Range
from espalier.etcd.results import Member
from espalier.etcdbackup.restore.members import Membership
from espalier.etcdbackup.running.etcd_configuration import EtcdConfiguration
from espalier.etcdbackup.running.parts import NotStarted, Standing
from espalier.etcdbackup.snapshotter.full import ALL_KEYS, newest_revision
from espalier.kube.connection.tls import CertificateError as UnusableCertificate
from espalier.kube.connection.tls import client_context

Answer = TypeVar("Answer")

log = structlog.get_logger(__name__)

RETRY_AFTER = 0.5
"""Seconds between two attempts to promote a learner."""
JOIN_TIMEOUT = 15.0
"""Timeout in seconds of a request to the other members. A removal or addition is committed by all of them."""
ASK_TIMEOUT = 2.0
"""Timeout in seconds of a call to another member's agent."""
_NO_QUORUM = "It goes on once two members serve; if two have lost their data, see docs/etcd-backup.md (Three members)"
LARGEST_ANSWER = 64 * 1024
"""The largest answer of an agent that is read, in bytes."""


@dataclass(frozen=True, slots=True)
class Members:
    """All members of an etcd, and the own one among them (`Peers`)."""

    membership: Membership
    """All members, with the URLs for their peers."""
    clients: Mapping[str, str]
    """The URL for clients of each member, by its name: that of its proxy."""
    agents: Mapping[str, str]
    """The URL of each member's agent, by its name."""
    configuration: EtcdConfiguration
    """The part of etcd's configuration that is the same for all members."""
    file: Path
    """etcd's configuration, written before each of its starts."""
    tls: TlsFiles | None = None
    """The files with which agents call each other, and the etcds of others; None: without TLS."""

    @property
    def is_first(self) -> bool:
        """See `Peers`."""
        return self.membership.own.name == self.first

    @property
    def first(self) -> str:
        """See `Peers`."""
        return min(member.name for member in self.membership.members)

    @property
    def others(self) -> tuple[str, ...]:
        """See `Peers`."""
        return tuple(sorted(name for name in self.clients if name != self.membership.own.name))

    async def ask(self, name: str, call: InitiateCopyOperation) -> CopyOperationStatus:
        """See `Peers`."""
        return await self._call("POST", name, "copyop/initiate", CopyOperationStatus, msgspec.json.encode(call))

    async def backup_status(self, name: str) -> BackupStatus:
        """See `Peers`."""
        return await self._call("GET", name, f"backup/status?{OWN}=true", BackupStatus)

    async def _call(self, method: str, name: str, path: str, type_: type[Answer], body: bytes = b"") -> Answer:
        """The answer of another member's agent. Raises `OSError`, `TimeoutError`."""
        timeout = aiohttp.ClientTimeout(ASK_TIMEOUT)
        context = self._context()
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(method, f"{self.agents[name]}/{path}", data=body, ssl=context) as answer,
            ):
                answer.raise_for_status()
                return json_trees.decode(await answer.content.read(LARGEST_ANSWER), type_)
        except (aiohttp.ClientError, msgspec.MsgspecError) as error:
            raise OSError(f"the agent of {name}: {error}") from error

    def _context(self) -> ssl.SSLContext | bool:
        """The TLS context of a call. The files are read for each: they are renewed. Raises `OSError`."""
        if self.tls is None:
            return True
        try:
            content = self.tls.read()
            return client_context(content.certificate_authority, certificate=content.certificate, key=content.key)
        except (CertificateError, UnusableCertificate) as error:
            raise OSError(str(error)) from None

    def configure(self, *, begins: bool = False) -> None:
        """See `Peers`. An etcd that has lost its log does not begin a second cluster: it asks its peers, and exits."""
        own = self.membership.own
        self._write("new" if begins else "existing", [f"{own.name}={url}" for url in own.peer_urls])

    async def join(self) -> int:
        """See `Peers`."""
        own = self.membership.own
        others = [url for name, url in self.clients.items() if name != own.name]
        async with connect(*others, tls=self.tls, timeout=JOIN_TIMEOUT) as etcd:
            try:
                for member in await etcd.members():
                    if set(member.peer_urls) & set(own.peer_urls):
                        log.info("removing the entry of this member, which has no data", id=f"{member.id:x}")
                        await etcd.remove_member(member.id)
                added = await etcd.add_learner(*own.peer_urls)
                present = await etcd.members()
                revision = await newest_revision(etcd)
            except EtcdError as error:
                raise NotStarted(f"{own.name} can't join the other members yet: {error}. {_NO_QUORUM}") from None
        self._write("existing", [f"{self._name(member)}={url}" for member in present for url in member.peer_urls])
        log.info("joining as a learner", name=own.name, id=f"{added.id:x}", members=len(present))
        return revision

    async def standing(self) -> Standing:
        """See `Peers`."""
        own = self.membership.own
        others = [url for name, url in self.clients.items() if name != own.name]
        try:
            async with connect(*others, tls=self.tls, timeout=JOIN_TIMEOUT) as etcd:
                known = [member for member in await etcd.members() if set(member.peer_urls) & set(own.peer_urls)]
        except EtcdError as error:
            log.debug("the other members do not answer", name=own.name, error=str(error))
            return Standing.UNKNOWN
        if not known:
            return Standing.REMOVED
        return Standing.LEARNER if all(member.is_learner for member in known) else Standing.MEMBER

    async def settle(self, etcd: Client) -> None:
        """See `Peers`."""
        own = self.membership.own
        while True:
            try:
                status = await etcd.status()
                if not status.is_learner:
                    await self._correct(etcd, status.header.member_id)
                    return
                others = [url for name, url in self.clients.items() if name != own.name]
                async with connect(*others, tls=self.tls, timeout=JOIN_TIMEOUT) as other:
                    if not await _has_all_keys(etcd, other):
                        log.warning("this member does not have the data of the others yet", name=own.name)
                    else:
                        await other.promote_member(status.header.member_id)
                        log.info("promoted: this member has all data", name=own.name)
            except EtcdError as error:
                log.debug("not a full member yet", name=own.name, error=str(error))
            await asyncio.sleep(RETRY_AFTER)

    def client_of(self, member: Member) -> Client:
        """See `Peers`."""
        name = self._name(member)
        if name not in self.clients:
            present = f"member {member.id:x} at {', '.join(member.peer_urls)}"
            raise EtcdError(f"{present} is not one of {', '.join(sorted(self.clients))}; remove it from etcd")
        return connect(self.clients[name], tls=self.tls)

    async def _correct(self, etcd: Client, own_id: int) -> None:
        """An etcd that had one member alone did not need URLs for peers."""
        own = self.membership.own
        [present] = [member for member in await etcd.members() if member.id == own_id]
        if set(present.peer_urls) != set(own.peer_urls):
            await etcd.update_member(own_id, *own.peer_urls)

    def _name(self, member: Member) -> str:
        """The name of a member; etcd does not know it before that member has started."""
        known = (each.name for each in self.membership.members if set(each.peer_urls) & set(member.peer_urls))
        return next(known, member.name or f"{member.id:x}")

    def _write(self, state: str, cluster: Sequence[str]) -> None:
        """Write etcd's configuration. It names its own URLs only where it starts without data. Raises `OSError`,
        `ValueError`."""
        own = self.membership.own
        text = self.configuration.text_of(
            {
                "initial-cluster": ",".join(sorted(cluster)),
                "initial-cluster-state": state,
                "advertise-client-urls": self.clients[own.name],
            }
        )
        part = self.file.with_name(f"{self.file.name}.part")
        with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
            file.write(text)
        part.rename(self.file)


async def _has_all_keys(learner: Client, other: Client) -> bool:
    """True if a learner has the revision and the number of keys of the others. etcd itself promotes a learner that has
    applied the others' log, which lacks the data of an etcd that was restored without a raft snapshot. Raises
    `EtcdError`."""
    revision = await newest_revision(other)
    count = Range(*ALL_KEYS, count_only=True)
    if (await learner.do(replace(count, serializable=True))).header.revision < revision:
        return False
    at = replace(count, revision=revision)
    return (await learner.do(replace(at, serializable=True))).count == (await other.do(at)).count
