"""An asynchronous client of etcd."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import Literal, TypeVar, overload

from google.protobuf.message import Message
from msgspec.structs import replace

from espalier.etcd import results
from espalier.etcd.connection import Connection
from espalier.etcd.credentials import TlsFiles
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.messages import services
from espalier.etcd.messages.services import Unary
from espalier.etcd.requests import (
    DeleteRange,
    Operation,
    Put,
    Range,
    Txn,
    delete_range_request,
    is_write,
    put_request,
    range_request,
    txn_request,
)
from espalier.etcd.results import (
    Alarm,
    DeleteResult,
    Header,
    KeyValue,
    Member,
    PutResult,
    RangeResult,
    Result,
    Status,
    TxnResult,
)
from espalier.etcd.snapshot import Chunk, snapshot
from espalier.etcd.transport import Transport
from espalier.etcd.watch import Filter, Watch

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

TIMEOUT = 10.0
"""Default timeout of a call in seconds."""
SLOW_TIMEOUT = 480.0
"""Timeout in seconds of defragmentation and hashes, which read a whole database (etcd-backup-restore's default)."""


def connect(
    *endpoints: str,
    tls: TlsFiles | None = None,
    timeout: float = TIMEOUT,
    rng: random.Random | None = None,
) -> Client:
    """A client of the cluster with these members. Sends nothing yet; raises `ValueError` for an invalid endpoint."""
    return Client(Connection(endpoints, tls, rng), timeout=timeout, rng=rng)


class Client:
    """Calls of etcd's services. To be used with `async with`, or closed.

    Every call ends within a timeout (seconds) and raises `EtcdError`: `Unavailable` when no member answers, otherwise
    by what etcd says. Reads are repeated at other members within the timeout; writes are sent at most once, and
    `Unavailable.sent` tells if they may have been made. Calls about one member (status, snapshot, hash,
    defragmentation) go to any member that answers: use a client with one endpoint for them.
    """

    def __init__(self, transport: Transport, *, timeout: float = TIMEOUT, rng: random.Random | None = None) -> None:
        self.transport = transport
        self._timeout = timeout
        self._rng = rng or random.Random()  # noqa: S311 - spreads tries, no secrets

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; idempotent. Calls in progress raise `Unavailable`."""
        await self.transport.close()

    # --- Keys ---------------------------------------------------------------------------------------------------

    @overload
    async def do(self, operation: Range, *, timeout: float | None = None) -> RangeResult: ...
    @overload
    async def do(self, operation: Put, *, timeout: float | None = None) -> PutResult: ...
    @overload
    async def do(self, operation: DeleteRange, *, timeout: float | None = None) -> DeleteResult: ...
    @overload
    async def do(self, operation: Txn, *, timeout: float | None = None) -> TxnResult: ...
    async def do(self, operation: Operation, *, timeout: float | None = None) -> Result:
        """Carry out an operation. Raises `Compacted` or `FutureRevision` for a read at a revision that can't be read.

        `Refused` tells what else etcd does not accept, `RequestTooLarge` and `NoSpace` of limits.
        """
        match operation:
            case Range():
                read = await self.call(services.RANGE, range_request(operation), timeout, repeatable=True)
                return results.range_result(read)
            case Put():
                return results.put_result(await self.call(services.PUT, put_request(operation), timeout))
            case DeleteRange():
                deletion = delete_range_request(operation)
                return results.delete_result(await self.call(services.DELETE_RANGE, deletion, timeout))
        transaction = txn_request(operation)
        answer = await self.call(services.TXN, transaction, timeout, repeatable=not is_write(operation))
        return results.txn_result(answer)

    async def get(self, key: bytes, *, revision: int = 0) -> KeyValue | None:
        """One key at a revision; None if it does not exist."""
        items = (await self.do(Range(key, revision=revision))).items
        return items[0] if items else None

    async def put(self, key: bytes, value: bytes, *, lease: int = 0) -> int:
        """Write a key; returns the revision."""
        return (await self.do(Put(key, value, lease))).header.revision

    async def delete(self, key: bytes, range_end: bytes = b"") -> int:
        """Delete a key or a range; returns the number of deleted keys."""
        return (await self.do(DeleteRange(key, range_end))).deleted

    async def pages(self, request: Range) -> AsyncGenerator[RangeResult, None]:
        """A range in pages of `request.limit` keys, in the order of keys, all at one revision. To be closed
        (`contextlib.aclosing`). Raises `Compacted` if the revision is compacted meanwhile."""
        if not request.limit or not request.range_end or request.order == "DESCEND" or request.target != "KEY":
            raise ValueError("pages need a limit, a range with an end, and the order of keys")
        page = await self.do(request)
        yield page
        revision = request.revision or page.header.revision
        while page.more:
            page = await self.do(replace(request, key=page.items[-1].key + b"\0", revision=revision))
            yield page

    async def compact(self, revision: int, *, physical: bool = False) -> Header:
        """Discard all history before a revision; with `physical`, wait until it is removed from the database. Raises
        `Compacted` if that was done already, and `FutureRevision`."""
        message = rpc.CompactionRequest(revision=revision, physical=physical)
        return results.header((await self.call(services.COMPACT, message, None)).header)

    def watch(
        self,
        key: bytes,
        range_end: bytes = b"",
        *,
        start_revision: int = 0,
        prev_kv: bool = False,
        filters: Sequence[Filter] = (),
        progress_notify: bool = False,
        patience: float | None = None,
    ) -> Watch:
        """Changes of a key or range from a revision on (0: from now), to be used with `async with`.

        `filters` leave out puts or deletions; with `progress_notify` etcd sends a sign of progress after ten quiet
        minutes (its `--watch-progress-notify-interval`). `patience`: seconds without a member until it gives up.
        """
        return Watch(
            self.transport,
            key,
            range_end,
            start_revision=start_revision,
            prev_kv=prev_kv,
            filters=filters,
            progress_notify=progress_notify,
            timeout=self._timeout,
            patience=patience,
            rng=self._rng,
        )

    # --- Members ------------------------------------------------------------------------------------------------

    async def members(self, *, linearizable: bool = True) -> tuple[Member, ...]:
        """The members of the cluster; with `linearizable=False` as known to this member, also without a leader."""
        message = rpc.MemberListRequest(linearizable=linearizable)
        answer = await self.call(services.MEMBER_LIST, message, None, repeatable=True)
        return tuple(map(results.member, answer.members))

    async def add_learner(self, *peer_urls: str) -> Member:
        """Add a member that gets all data and has no vote, with the URLs for its peers. Raises `Refused` where one has
        these URLs or where there is another learner; `Unavailable` until members are connected for five seconds."""
        message = rpc.MemberAddRequest(peer_urls=peer_urls, is_learner=True)
        return results.member((await self.call(services.MEMBER_ADD, message, None)).member)

    async def promote_member(self, member: int) -> None:
        """Give a learner a vote. Raises `Refused` if it has none of its data yet, has a vote, or does not exist."""
        await self.call(services.MEMBER_PROMOTE, rpc.MemberPromoteRequest(id=member), None)

    async def update_member(self, member: int, *peer_urls: str) -> None:
        """Change the URLs of a member for its peers. Raises `Refused` if it does not exist."""
        await self.call(services.MEMBER_UPDATE, rpc.MemberUpdateRequest(id=member, peer_urls=peer_urls), None)

    async def remove_member(self, member: int) -> None:
        """Remove a member for good: it can't return with its data. Raises `Refused` if it does not exist, and
        `Unavailable` if the others that have been connected for five seconds would be no quorum."""
        await self.call(services.MEMBER_REMOVE, rpc.MemberRemoveRequest(id=member), None)

    async def status(self, *, timeout: float | None = None) -> Status:
        """The state of a member."""
        return results.status(await self.call(services.STATUS, rpc.StatusRequest(), timeout, repeatable=True))

    def snapshot(self, *, timeout: float | None = None) -> AsyncGenerator[Chunk, None]:
        """A member's database and its hash, in chunks; see `snapshot.snapshot`. The timeout is for each chunk."""
        return snapshot(self.transport, self._timeout if timeout is None else timeout)

    async def defragment(self, *, timeout: float = SLOW_TIMEOUT) -> None:
        """Have a member rewrite its database. It answers no other request meanwhile."""
        await self.call(services.DEFRAGMENT, rpc.DefragmentRequest(), timeout)

    async def alarms(self) -> tuple[Alarm, ...]:
        """All alarms of the cluster."""
        message = rpc.AlarmRequest(action=rpc.AlarmRequest.GET)
        return _alarms(await self.call(services.ALARM, message, None, repeatable=True))

    async def call(
        self,
        method: Unary[Request, Response],
        request: Request,
        timeout: float | None = None,
        *,
        repeatable: bool = False,
    ) -> Response:
        """Call any method of etcd's services; `repeatable` if a second call changes nothing."""
        seconds = self._timeout if timeout is None else timeout
        return await self.transport.call(method, request, timeout=seconds, repeatable=repeatable)


def _alarms(answer: rpc.AlarmResponse) -> tuple[Alarm, ...]:
    known: dict[int, Literal["NOSPACE", "CORRUPT"]] = {rpc.NOSPACE: "NOSPACE", rpc.CORRUPT: "CORRUPT"}
    return tuple(Alarm(alarm.member_id, known[alarm.alarm]) for alarm in answer.alarms if alarm.alarm in known)
