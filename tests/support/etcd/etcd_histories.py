"""Random histories of an etcd: their steps, how they are carried out, and a simple model of what comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import strategies as st
from msgspec.structs import replace

from espalier.etcd.client import Client
from espalier.etcd.errors import EtcdError
from espalier.etcd.requests import FROM_KEY, Compare, DeleteRange, Operation, Put, Range, Txn
from espalier.etcd.results import Event, Header, KeyValue, Result, TxnResult
from tests.support.etcd import calls

EVERYTHING = Range(FROM_KEY, FROM_KEY)


@dataclass(frozen=True)
class Compact:
    """Compact a share of the revisions that can be read."""

    share: float

    def revision(self, compacted: int, revision: int) -> int:
        """Up to which. Never 0: a real etcd takes that, and gives a wrong hash of its newest revision from then on."""
        return max(1, compacted + round(self.share * (revision - compacted)))


@dataclass(frozen=True)
class Grant:
    """Grant a lease that does not run out meanwhile."""

    lease: int


@dataclass(frozen=True)
class Revoke:
    """Revoke a lease."""

    lease: int


Step: TypeAlias = Operation | Compact | Grant | Revoke

_keys = st.sampled_from([b"a", b"ab", b"b", b"c", b"d"])
_values = st.binary(max_size=5)
_leases = st.sampled_from([0, 0, 0, 11, 12])
_ends = st.sampled_from([b"", b"", b"b", b"c", FROM_KEY])
_puts = st.builds(Put, _keys, _values, _leases, prev_kv=st.booleans()) | st.builds(
    Put, _keys, st.just(b""), prev_kv=st.booleans(), ignore_value=st.booleans(), ignore_lease=st.booleans()
)
_deletions = st.builds(DeleteRange, _keys, _ends, prev_kv=st.booleans())
_deletions_among_others = _deletions.filter(lambda deletion: deletion.range_end != FROM_KEY)
"""A real etcd overlooks that such a range holds a key that the same transaction writes; ours refuses it."""
_reads = st.builds(Range, _keys, _ends, limit=st.integers(0, 2), target=st.sampled_from(["KEY", "MOD"]))
_relations = st.sampled_from(["=", "!=", "<", ">"])
_numbers = st.sampled_from(["VERSION", "CREATE", "MOD", "LEASE"])
_comparisons = st.builds(Compare, _keys, _numbers, _relations, st.integers(0, 12), _ends) | st.builds(
    Compare, _keys, st.just("VALUE"), _relations, _values, _ends
)


def _transactions(operations: st.SearchStrategy[Operation]) -> st.SearchStrategy[Txn]:
    parts = st.lists(operations, max_size=3).map(tuple)
    return st.builds(Txn, st.lists(_comparisons, max_size=2).map(tuple), parts, parts)


_operations = st.recursive(_puts | _deletions_among_others | _reads, _transactions, max_leaves=6)
steps: st.SearchStrategy[Step] = (
    _puts
    | _deletions
    | _operations
    | st.builds(Compact, st.floats(0, 1))
    | st.builds(Grant, st.sampled_from([11, 12]))
    | st.builds(Revoke, st.sampled_from([11, 12]))
)
histories = st.lists(steps, max_size=30)


async def play(client: Client, step: Step, *, compacted: int, revision: int) -> object:
    """Carry out a step; returns what was answered, or the text of the error."""
    try:
        match step:
            case Compact():
                header = await client.compact(step.revision(compacted, revision), physical=True)
            case Grant(lease):
                header = Header(0, 0, 0, 0)
                return replace(await calls.grant(client, 600, lease=lease))
            case Revoke(lease):
                header = await calls.revoke(client, lease)
            case _:
                return without_member(await client.do(step))
    except EtcdError as error:
        return error.message
    return header.revision


def without_member(result: Result) -> Result:
    """A result without what says who answered."""
    header = Header(0, 0, result.header.revision, 0)
    if isinstance(result, TxnResult):
        return replace(result, header=header, results=tuple(map(without_member, result.results)))
    return replace(result, header=header)


@dataclass
class Model:
    """Everything that etcd should know: all keys at all revisions, and what happened."""

    revision: int = 1
    compacted: int = 0
    states: dict[int, dict[bytes, KeyValue]] = field(default_factory=lambda: {1: {}})
    events: list[Event] = field(default_factory=list)
    leases: set[int] = field(default_factory=set)

    def play(self, step: Step) -> None:
        """Carry out a step that etcd did not refuse."""
        match step:
            case Compact():
                self.compacted = step.revision(self.compacted, self.revision)
            case Grant(lease):
                self.leases.add(lease)
            case Revoke(lease):
                self.leases.discard(lease)
                with_it = [key for key, item in sorted(self.now.items()) if item.lease == lease]
                self._change([(key, None) for key in with_it])
            case _:
                self._change(self._changes(step, dict(self.now)))

    @property
    def now(self) -> dict[bytes, KeyValue]:
        """All keys as they are."""
        return self.states[self.revision]

    def _change(self, changes: Sequence[tuple[bytes, KeyValue | None]]) -> None:
        if not changes:
            return
        state = dict(self.now)
        self.revision += 1
        for key, item in changes:
            if item is None:
                del state[key]
                self.events.append(Event("DELETE", KeyValue(key, b"", 0, self.revision, 0, 0), None))
            else:
                state[key] = item
                self.events.append(Event("PUT", item, None))
        self.states[self.revision] = state

    def _changes(self, operation: Operation, state: dict[bytes, KeyValue]) -> list[tuple[bytes, KeyValue | None]]:
        changes: list[tuple[bytes, KeyValue | None]] = []
        match operation:
            case Put(key, value, lease):
                before = state.get(key)
                if before is None:
                    item = KeyValue(key, value, self.revision + 1, self.revision + 1, 1, lease)
                else:
                    value = before.value if operation.ignore_value else value
                    lease = before.lease if operation.ignore_lease else lease
                    item = replace(
                        before, value=value, mod_revision=self.revision + 1, version=before.version + 1, lease=lease
                    )
                state[key] = item
                changes = [(key, item)]
            case DeleteRange(key, end):
                gone = [each for each in sorted(state) if _within(each, key, end)]
                changes = [(each, None) for each in gone]
                for each in gone:
                    del state[each]
            case Txn():
                for chosen in self._chosen(operation):
                    changes += self._changes(chosen, state)
        return changes

    def _chosen(self, txn: Txn) -> Sequence[Operation]:
        return txn.success if all(map(self._holds, txn.compare)) else txn.failure

    def _holds(self, compare: Compare) -> bool:
        results = [item for key, item in self.now.items() if _within(key, compare.key, compare.range_end)]
        if not results and compare.target == "VALUE":
            return False
        names = {"VERSION": "version", "CREATE": "create_revision", "MOD": "mod_revision", "LEASE": "lease"}
        name = names.get(compare.target, "value")
        return all(
            _related(getattr(item, name), compare.relation, compare.operand)
            for item in results or [KeyValue(b"", b"", 0, 0, 0, 0)]
        )


def _within(key: bytes, start: bytes, end: bytes) -> bool:
    if not end:
        return key == start
    return key >= start and (end == FROM_KEY or key < end)


def _related(left: bytes | int, relation: str, right: bytes | int) -> bool:
    if isinstance(left, bytes):
        assert isinstance(right, bytes)
        return {"=": left == right, "!=": left != right, "<": left < right, ">": left > right}[relation]
    assert isinstance(right, int)
    return {"=": left == right, "!=": left != right, "<": left < right, ">": left > right}[relation]
