"""Etcds that take no pods: they serve, end and are copied by notes in buckets, as fast as a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import msgspec

from espalier.api.etcd.calls import CopyOperationStatus, InitiateCopyOperation
from espalier.api.etcd.ownership import CopyOperation, Status, Writer
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.resource import Key
from espalier.kube.errors import Unreachable
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.simulator.connections import Link
from tests.support.gardens.fast_objects import Objects

POLL = 5.0

Place = tuple[str, str]
"""A bucket, and the prefix of an epoch in it."""


@dataclass
class Buckets:
    """All buckets: data of each epoch's etcd, and the CopyOperations of epochs that ended."""

    data: dict[Place, list[int]] = field(default_factory=dict)
    ended: dict[Place, Status] = field(default_factory=dict)
    acknowledged: dict[str, list[int]] = field(default_factory=dict)
    """By BackupEntry, of all epochs."""
    _writes: Iterator[int] = field(default_factory=lambda: count(1))

    def write(self, place: Place) -> None:
        """A client's write, which its etcd acknowledges."""
        number = next(self._writes)
        self.data.setdefault(place, []).append(number)
        self.acknowledged.setdefault(place[1].partition("/")[0], []).append(number)

    def lost(self, place: Place) -> list[int]:
        """Acknowledged writes that an epoch of the same shoot does not have."""
        return sorted({*self.acknowledged.get(place[1].partition("/")[0], ())} - {*self.data.get(place, ())})


class Witness:
    """Sees when etcds serve, and says when two do for one shoot."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.serving: dict[str, str] = {}
        self.history: list[tuple[float, str, str, bool]] = []

    def serves(self, shoot: str, seed: str, *, is_so: bool) -> None:
        now = asyncio.get_running_loop().time()
        holder = self.serving.get(shoot)
        if is_so:
            if holder not in (None, seed):
                self.violations.append(f"{now:.0f} s: {shoot} is served in {holder} and {seed} at once")
            if holder is None:
                self.history.append((now, shoot, seed, True))
            self.serving[shoot] = seed
        elif holder == seed:
            self.history.append((now, shoot, seed, False))
            del self.serving[shoot]

    def lost(self, seed: str) -> None:
        """Nothing serves in a seed that has no power."""
        for shoot, holder in list(self.serving.items()):
            if holder == seed:
                self.serves(shoot, seed, is_so=False)


class Others(Protocol):
    """The agents of all seeds."""

    def agent_of(self, place: Place) -> FastEtcds | None:
        """The etcds of the seed in which the agent of an epoch lives and reaches its bucket."""


class FastEtcds:
    """All etcds of one seed, their agents, and the copies that are made there."""

    def __init__(
        self,
        seed: str,
        objects: Callable[[], Objects],
        *,
        buckets: Buckets,
        witness: Witness,
        others: Others,
        bucket: Link,
        timing: Timing,
        delay: float,
        has_clients: bool,
    ) -> None:
        self._seed, self._objects = seed, objects
        self._buckets, self._witness, self._others = buckets, witness, others
        self._bucket, self._timing, self._delay, self._has_clients = bucket, timing, delay, has_clients

    async def reconcile(self, key: Key) -> Outcome:
        """Do what an Etcd asks for, as etcd-druid and the pods would."""
        live = self._objects().get(Etcd.resource, key)
        if live is None:
            self._witness.serves(key.namespace, self._seed, is_so=False)
            return Done()
        typed = live.decode(Etcd)
        if typed.spec.backup.source_store is not None:
            return await self._copy(live, typed)
        place = place_of(typed)
        serves = typed.spec.replicas > 0 and not self._bucket.is_cut and place not in self._buckets.ended
        if serves and not self._buckets.data.get(place):
            if metadata_keys.FOUNDING not in live.metadata.annotations:
                self._witness.violations.append(f"{live} starts without data, and is not the first")
            self._buckets.write(place)
        elif serves and self._has_clients:
            self._buckets.write(place)
        self._witness.serves(key.namespace, self._seed, is_so=serves)
        await self._ready(live, typed, is_so=serves)
        return Wait("Polls", "the CopyOperation is read again", after=POLL)

    async def call(self, namespace: str, path: str, body: bytes) -> bytes:
        """The answer of an agent. Raises `Unreachable`."""
        live = self._objects().get(Etcd.resource, Key(namespace, "etcd-main"))
        if live is None:
            raise Unreachable("no agent")
        typed = live.decode(Etcd)
        if typed.spec.replicas == 0:
            raise Unreachable("no agent: etcd-main has no replicas")
        epoch = int(live.metadata.annotations[metadata_keys.EPOCH])
        place, ended = place_of(typed), self._buckets.ended
        if typed.spec.backup.source_store is not None:
            message = "" if place in self._buckets.data else "it is copying"
            return msgspec.json.encode(CopyOperationStatus(epoch, initiated=True, message=message))
        if path == "copyop/initiate" and not self._bucket.is_cut:
            assert msgspec.json.decode(body, type=InitiateCopyOperation).epoch == epoch
            ended.setdefault(place, Status.INITIAL)
            if ended[place] is Status.INITIAL:
                asyncio.get_running_loop().call_later(self._delay, self._closes, place)
        status = ended.get(place)
        operation = CopyOperation(epoch, status, Writer.SOURCE) if status is not None else None
        return msgspec.json.encode(CopyOperationStatus(epoch, operation is not None, operation))

    def has_agent(self, place: Place) -> bool:
        """True if the agent of an epoch lives here, and reaches its bucket."""
        if self._bucket.is_cut or not self._objects().are_there:
            return False
        return any(
            item.spec.replicas and item.spec.backup.source_store is None and place_of(item) == place
            for _, item in self._etcds()
        )

    def close(self, place: Place) -> None:
        """The agent sees the CopyOperation: etcd ends, and the final snapshot is stored."""
        for live, typed in self._etcds():
            if place_of(typed) == place:
                self._witness.serves(live.namespace, self._seed, is_so=False)
        self._buckets.ended[place] = Status.READY

    def _etcds(self) -> list[tuple[Object, Etcd]]:
        return [(object_, object_.decode(Etcd)) for object_ in self._objects().list(Etcd.resource)]

    def _closes(self, place: Place) -> None:
        if self._objects().are_there and self._buckets.ended[place] is Status.INITIAL:
            self.close(place)

    async def _copy(self, live: Object, typed: Etcd) -> Outcome:
        source = typed.spec.backup.source_store
        assert source is not None
        ended, data, place = self._buckets.ended, self._buckets.data, (source.container or "", source.prefix)
        await asyncio.sleep(self._delay)
        if self._bucket.is_cut:
            return Wait("BucketCut", "no way to the bucket", after=POLL)
        if data.get(place_of(typed)):
            await self._ready(live, typed, is_so=True)
            return Done()
        ended.setdefault(place, Status.INITIAL)
        owner = self._others.agent_of(place)
        if ended[place] is Status.INITIAL and owner is None:
            await asyncio.sleep(self._timing.progress_timeout)
            if self._others.agent_of(place) is None:
                ended[place] = Status.READY
        if ended[place] is Status.INITIAL:
            if owner is not None:
                owner.close(place)
            return Wait("Waits", "for Ready", after=2)
        ended[place] = Status.DONE
        data[place_of(typed)] = list(data.get(place, []))
        await self._ready(live, typed, is_so=True)
        return Done()

    async def _ready(self, live: Object, typed: Etcd, *, is_so: bool) -> None:
        generation = live.metadata.generation
        if (typed.status.ready, typed.status.observed_generation) != (is_so, generation):
            await self._objects().status(Etcd.resource, live, {"ready": is_so, "observedGeneration": generation})


def place_of(etcd: Etcd) -> Place:
    """Where the data of an etcd are."""
    store = etcd.spec.backup.store
    assert store is not None
    return store.container or "", store.prefix
