"""The state of the member, and the requests that read and change it. Pure: callers pass the time.

Changes to be stored gather in a `Batch`, which the caller takes and makes durable before it answers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from espalier.etcd.database.backend import NEVER_COMPACTED, Record, State
from espalier.etcd.database.hashing import hash_kv
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.simulator.etcd.state.checks import check_delete_range, check_put, check_range, check_txn
from espalier.simulator.etcd.state.leases import Leases
from espalier.simulator.etcd.state.mvcc import Store
from espalier.simulator.etcd.state.refusals import Refusal
from espalier.simulator.etcd.state.transactions import (
    apply_delete_range,
    apply_put,
    apply_range,
    apply_txn,
    check_possible,
    check_put_possible,
    decide,
    put_size,
    put_sizes,
)

Response = TypeVar("Response", rpc.RangeResponse, rpc.PutResponse, rpc.DeleteRangeResponse, rpc.TxnResponse)

VERSION = "3.6.0"
"""The emulated version of server and data."""
MOST_REQUEST_BYTES = 3 * 512 * 1024
"""etcd's --max-request-bytes: 1.5 MiB."""
MOST_MESSAGE_BYTES = MOST_REQUEST_BYTES + 512 * 1024
"""Bytes of the largest message that is received; larger responses to watches are fragmented if requested."""
DEFAULT_QUOTA = 2 * 1024 * 1024 * 1024
"""etcd's --quota-backend-bytes."""
_EMPTY_SIZE = 20 * 1024
"""Bytes of a database without records."""
_GRANT_SIZE = 512
"""Bytes that a granted lease counts for the quota."""
_NO_SPACE = "NOSPACE"
_INITIAL_ENTRIES = 4
"""The initial entries of a new member's raft log."""


@dataclass(frozen=True)
class Identity:
    """The member's identity, which never changes."""

    cluster_id: int
    member_id: int
    name: str = "default"

    @classmethod
    def new(cls, rng: random.Random) -> Identity:
        """A new identity."""
        return cls(rng.getrandbits(62) + 1, rng.getrandbits(62) + 1)


@dataclass
class Batch:
    """Changes to be stored atomically."""

    records: list[Record] = field(default_factory=list)
    removed: list[tuple[int, int]] = field(default_factory=list)
    """Main and sub revisions of records that compaction removed; some may be in `records`."""
    compacted: int = NEVER_COMPACTED
    leases: dict[int, int] = field(default_factory=dict)
    """ID -> TTL in seconds; 0 for a lease that was revoked or has expired."""
    alarms: frozenset[str] = frozenset()
    """Raised alarms."""
    index: int = 0


@dataclass(frozen=True)
class Stored:
    """The stored state that a member starts with."""

    identity: Identity
    records: Sequence[Record] = ()
    compacted: int = NEVER_COMPACTED
    leases: Mapping[int, int] = field(default_factory=dict)
    alarms: frozenset[str] = frozenset()
    index: int = _INITIAL_ENTRIES
    term: int = 1
    """The raft term of this start: one higher at each start."""


class Core:
    """A member without I/O. Methods named like etcd's raise `EtcdError` for requests that etcd refuses."""

    def __init__(self, stored: Stored, now: float, *, rng: random.Random, quota: int = DEFAULT_QUOTA) -> None:
        self.identity = stored.identity
        self.store = Store(stored.records, compacted=stored.compacted)
        self.leases = Leases(stored.leases, now)
        for kv in [record.kv for record in self.store.records if not record.tombstone and record.kv.lease]:
            if self.store.get(kv.key, self.store.revision) is kv:
                self.leases.attach(kv.key, 0, kv.lease)
        self._alarms = set(stored.alarms)
        self.index = stored.index
        """The number of changes, as of entries in raft's log; one more for each that has to be stored."""
        self._term = stored.term
        self._rng = rng
        self._quota = quota
        self._size = self._size_in_use
        self._batch: Batch | None = None

    def take_batch(self) -> Batch | None:
        """The changes since the last call; None without any."""
        batch, self._batch = self._batch, None
        return batch

    def header(self, revision: int | None = None) -> rpc.ResponseHeader:
        """The header of a response, by default with the current revision."""
        return rpc.ResponseHeader(
            cluster_id=self.identity.cluster_id,
            member_id=self.identity.member_id,
            revision=self.store.revision if revision is None else revision,
            raft_term=self._term,
        )

    def state(self) -> State:
        """The state of the member in a snapshot, besides its records."""
        return State(
            revision=self.store.revision,
            compacted=self.store.compacted,
            leases=self.leases.granted(),
            alarms=tuple((self.identity.member_id, alarm) for alarm in sorted(self._alarms)),
            index=self.index,
            term=self._term,
            version=VERSION,
        )

    # --- Keys ---------------------------------------------------------------------------------------------------

    def range(self, request: rpc.RangeRequest) -> rpc.RangeResponse:
        """Read keys."""
        check_range(request)
        self.store.check_readable(request.revision)
        return self._with_header(apply_range(self.store.write(), request))

    def put(self, request: rpc.PutRequest) -> rpc.PutResponse:
        """Write a key."""
        check_put(request)
        self._check_space(put_size(request))
        self._check_size(request.ByteSize())
        write = self.store.write()
        check_put_possible(write, self.leases, request)
        response = apply_put(write, self.leases, request)
        self._add_records(write.changes)
        write.end()
        return self._with_header(response)

    def delete_range(self, request: rpc.DeleteRangeRequest) -> rpc.DeleteRangeResponse:
        """Delete keys."""
        check_delete_range(request)
        self._check_size(request.ByteSize())
        write = self.store.write()
        response = apply_delete_range(write, self.leases, request)
        self._add_records(write.changes)
        write.end()
        return self._with_header(response)

    def txn(self, request: rpc.TxnRequest) -> rpc.TxnResponse:
        """Compare, then read and write."""
        check_txn(request)
        self._check_space(max(put_sizes(request.success), put_sizes(request.failure)))
        self._check_size(request.ByteSize())
        write = self.store.write()
        decision = decide(write, request)
        check_possible(write, self.leases, decision)
        response = apply_txn(write, self.leases, decision)
        self._add_records(write.changes)
        response.header.revision = write.end()
        return self._with_header(response)

    def compact(self, request: rpc.CompactionRequest) -> rpc.CompactionResponse:
        """Compact: drop old versions. They are removed at once, also without `physical`."""
        removed = self.store.compact(request.revision)
        batch = self._pending_batch()
        batch.compacted = self.store.compacted
        batch.removed += [(record.main, record.sub) for record in removed]
        return rpc.CompactionResponse(header=self.header())

    # --- Leases -------------------------------------------------------------------------------------------------

    def lease_grant(self, request: rpc.LeaseGrantRequest, now: float) -> rpc.LeaseGrantResponse:
        """Create a lease."""
        self._check_space(_GRANT_SIZE)
        id_ = request.id
        while not id_:
            id_ = self._rng.getrandbits(63)
        lease = self.leases.grant(id_, request.ttl, now)
        self._pending_batch().leases[id_] = lease.ttl
        return rpc.LeaseGrantResponse(header=self.header(), id=id_, ttl=lease.ttl)

    def lease_revoke(self, request: rpc.LeaseRevokeRequest) -> rpc.LeaseRevokeResponse:
        """Revoke a lease; its keys are deleted in one revision."""
        self._revoke_lease(request.id)
        return rpc.LeaseRevokeResponse(header=self.header())

    def lease_keep_alive(self, request: rpc.LeaseKeepAliveRequest, now: float) -> rpc.LeaseKeepAliveResponse:
        """Renew a lease."""
        return rpc.LeaseKeepAliveResponse(header=self.header(), id=request.id, ttl=self.leases.renew(request.id, now))

    def lease_time_to_live(self, request: rpc.LeaseTimeToLiveRequest, now: float) -> rpc.LeaseTimeToLiveResponse:
        """The remaining seconds of a lease; -1 if it does not exist or has expired."""
        lease = self.leases.get(request.id)
        if lease is None or lease.expires <= now:
            return rpc.LeaseTimeToLiveResponse(header=self.header(), id=request.id, ttl=-1)
        return rpc.LeaseTimeToLiveResponse(
            header=self.header(),
            id=request.id,
            ttl=math.floor(lease.expires - now),
            granted_ttl=lease.ttl,
            keys=sorted(lease.keys) if request.keys else (),
        )

    def lease_leases(self, request: rpc.LeaseLeasesRequest) -> rpc.LeaseLeasesResponse:
        """List the leases."""
        leases = [rpc.LeaseStatus(id=id_) for id_ in self.leases.granted()]
        return rpc.LeaseLeasesResponse(header=self.header(), leases=leases)

    def revoke_expired_leases(self, now: float) -> None:
        """Revoke expired leases."""
        for id_ in self.leases.expired(now):
            self._revoke_lease(id_)

    # --- Maintenance --------------------------------------------------------------------------------------------

    def status(self, request: rpc.StatusRequest) -> rpc.StatusResponse:
        """The status of the member."""
        alarms = [rpc.AlarmMember(member_id=self.identity.member_id, alarm=alarm) for alarm in sorted(self._alarms)]
        return rpc.StatusResponse(
            header=self.header(),
            version=VERSION,
            db_size=self._size,
            db_size_in_use=self._size_in_use,
            db_size_quota=self._quota,
            leader=self.identity.member_id,
            raft_index=self.index,
            raft_applied_index=self.index,
            raft_term=self._term,
            storage_version=VERSION,
            errors=[" ".join(str(alarm).split()) for alarm in alarms],
            downgrade_info=rpc.DowngradeInfo(),
        )

    def alarm(self, request: rpc.AlarmRequest) -> rpc.AlarmResponse:
        """List, raise or disarm alarms. As in etcd, the response has the listed or the changed ones."""
        response = rpc.AlarmResponse(header=self.header())
        name = rpc.AlarmType.Name(request.alarm)
        match request.action:
            case rpc.AlarmRequest.GET:
                alarms = [alarm for alarm in sorted(self._alarms) if name in {"NONE", alarm}]
            case rpc.AlarmRequest.ACTIVATE:
                alarms = [] if name in self._alarms else [name]
                self._raise_alarm(name)
            case _:
                is_this_member = request.member_id == self.identity.member_id
                alarms = [name] if is_this_member and name in self._alarms else []
                self._alarms.difference_update(alarms)
                self._pending_batch()
        response.alarms.extend(rpc.AlarmMember(member_id=self.identity.member_id, alarm=alarm) for alarm in alarms)
        return response

    def defragment(self, request: rpc.DefragmentRequest) -> rpc.DefragmentResponse:
        """Defragment: the database has the size of its content from now on."""
        self._size = self._size_in_use
        return rpc.DefragmentResponse()

    def hash_kv(self, request: rpc.HashKVRequest) -> Callable[[], rpc.HashKVResponse]:
        """Prepare a hash of keys, to be computed in any thread while the state changes."""
        if 0 < request.revision < self.store.compacted:
            raise Refusal.COMPACTED.error()
        self.store.check_readable(request.revision)
        revision, compacted = request.revision or self.store.revision, self.store.compacted
        records, header = list(self.store.records), self.header()

        def compute() -> rpc.HashKVResponse:
            value = hash_kv(lambda: (record.encode() for record in records), revision, compacted)
            return rpc.HashKVResponse(header=header, hash=value, compact_revision=compacted, hash_revision=revision)

        return compute

    def move_leader(self, request: rpc.MoveLeaderRequest) -> rpc.MoveLeaderResponse:
        """Refuse to move leadership to any member but this one, which is the leader."""
        if request.target_id != self.identity.member_id:
            raise Refusal.BAD_TRANSFEREE.error()
        return rpc.MoveLeaderResponse()

    # --- Storing ------------------------------------------------------------------------------------------------

    @property
    def _size_in_use(self) -> int:
        return _EMPTY_SIZE + self.store.size

    def _raise_alarm(self, alarm: str) -> None:
        self._alarms.add(alarm)
        self._pending_batch()

    def _check_space(self, size: int) -> None:
        """Refuse requests that need space if there is none. Deletions and reads are always allowed."""
        if size and (_NO_SPACE in self._alarms or self._size + size > self._quota):
            if _NO_SPACE not in self._alarms:
                self._raise_alarm(_NO_SPACE)
            raise Refusal.NO_SPACE.error()

    def _check_size(self, size: int) -> None:
        if size > MOST_REQUEST_BYTES:
            raise Refusal.TOO_LARGE.error()

    def _revoke_lease(self, id_: int) -> None:
        write = self.store.write()
        for key in self.leases.revoke(id_):
            write.delete(key)
        self._pending_batch().leases[id_] = 0
        self._add_records(write.changes)
        write.end()

    def _add_records(self, records: Sequence[Record]) -> None:
        self._pending_batch().records += records
        self._size = max(self._size, self._size_in_use)

    def _pending_batch(self) -> Batch:
        """The pending batch, for one more change: counts it as an entry of raft's log."""
        self.index += 1
        if self._batch is None:
            self._batch = Batch(compacted=self.store.compacted)
        self._batch.alarms = frozenset(self._alarms)
        self._batch.index = self.index
        return self._batch

    def _with_header(self, response: Response) -> Response:
        """Fill in the header, with the store's revision if the response has none."""
        response.header.MergeFrom(self.header(response.header.revision or None))
        return response
