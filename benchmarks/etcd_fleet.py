"""A fleet in the etcd of a real API server: a cluster that was really made, copied there under other names.

What clusters differ in (name, namespace, uids, digests of their content) has the same length in each, so a copy has the
bytes that the API server would have stored, in JSON and in protobuf.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

import msgspec

from espalier.api.core import SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.resource import Key
from espalier.clusters.design.drift import gate
from espalier.etcd.client import Client as EtcdClient
from espalier.etcd.requests import Put, Range, Txn
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.providers.docker.kinds import DockerDatacenterConfig

NAMESPACES = ("fleet-a", "fleet-b")
"""Clusters take turns in them."""
FIRST = Key(NAMESPACES[0], "garden-00000")
PAGE = 500
CONCURRENT = 16

_UID = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_EVENTS = b"/registry/events/"
"""Events are gone after an hour."""


@dataclass(frozen=True)
class Stored:
    """An object of the first cluster, cut at all in which clusters differ: every second part is such a word."""

    key: list[bytes]
    value: list[bytes]

    def copy(self, words: Mapping[bytes, bytes]) -> tuple[bytes, bytes]:
        """Key and value with other words."""
        key, value = (b"".join([words.get(part, part) for part in parts]) for parts in (self.key, self.value))
        return key, value


class Fleet:
    """Clusters in an etcd, of which the first was made by a manager."""

    def __init__(self, etcd: EtcdClient, objects: Mapping[bytes, bytes], kubeconfig: bytes) -> None:
        self.count = 1
        self.sizes: Counter[str] = Counter()
        """Bytes of keys and values of one cluster, by kind."""
        self.numbers: Counter[str] = Counter()
        for key, value in objects.items():
            self.sizes[_table(key)] += len(key) + len(value)
            self.numbers[_table(key)] += 1
        self._etcd = etcd
        self._kubeconfig = kubeconfig
        self._uids = {_uid(value) for value in objects.values()}
        (cluster,) = (value for key, value in objects.items() if key.endswith(_path(Cluster)))
        marks = Object(cluster).metadata.annotations
        self._uid = Object(cluster).metadata.uid.encode()
        self._gate = marks[metadata_keys.GATE_ANNOTATION].encode()
        self._copied = marks[metadata_keys.KUBECONFIG_ANNOTATION].encode()
        words = [FIRST.name.encode(), FIRST.namespace.encode(), self._gate, self._copied, *self._uids]
        cut = re.compile(b"(" + b"|".join(map(re.escape, words)) + b")")
        stored = {key: Stored(cut.split(key), cut.split(value)) for key, value in objects.items()}
        self._marked = [stored[next(k for k in objects if k.endswith(_path(kind)))] for kind in _MARKED]
        # Objects of one kind get revisions of their own, as those that an API server has written.
        tables = defaultdict(list)
        for key, item in stored.items():
            tables[_table(key)].append(item)
        self._batches = [[item for item in batch if item] for batch in zip_longest(*tables.values())]

    async def grow(self, count: int) -> None:
        """Copy the first cluster until there are so many."""
        numbers = iter(range(self.count, count))

        async def work() -> None:
            for number in numbers:
                words = self._words(number)
                for batch in self._batches:
                    copies = (item.copy(words) for item in batch)
                    await self._etcd.do(Txn(success=tuple(Put(key, value) for key, value in copies)), timeout=120)

        await asyncio.gather(*(work() for _ in range(CONCURRENT)))
        self.count = max(self.count, count)

    def _words(self, number: int) -> dict[bytes, bytes]:
        """What the words of the first cluster are in another one. It carries digests of its own content."""
        words = {uid: str(uuid.uuid5(uuid.UUID(uid.decode()), str(number))).encode() for uid in self._uids}
        words[FIRST.name.encode()] = f"garden-{number:05}".encode()
        words[FIRST.namespace.encode()] = NAMESPACES[number % len(NAMESPACES)].encode()
        kubeconfig = self._kubeconfig.replace(FIRST.name.encode(), words[FIRST.name.encode()])
        words[self._copied] = hashlib.sha256(words[self._uid] + kubeconfig).hexdigest()[:16].encode()
        cluster, *children = (Object(item.copy(words)[1]) for item in self._marked)
        words[self._gate] = gate.content_hash(cluster, children).encode()
        return words


_MARKED = (Cluster, DockerDatacenterConfig)


async def fleet_of(etcd: EtcdClient, client: Client) -> Fleet:
    """The fleet of the first cluster, which is Ready and that no manager works on."""
    objects = {}
    async for page in etcd.pages(msgspec.structs.replace(Range.of_prefix(b"/registry/"), limit=PAGE)):
        for item in page.items:
            if FIRST.name.encode() in item.key and not item.key.startswith(_EVENTS):
                objects[item.key] = item.value
    secret = await client.get(SECRET, f"{FIRST.name}-kubeconfig", FIRST.namespace)
    return Fleet(etcd, objects, secret.decode(Secret).data["value"])


def _path(kind: type[Cluster] | type[DockerDatacenterConfig]) -> bytes:
    """The end of the key of an object that has the cluster's name."""
    return f"{kind.resource.group}/{kind.resource.plural}/{FIRST.namespace}/{FIRST.name}".encode()


def _table(key: bytes) -> str:
    """The kind of an object, by its key: /registry/GROUP/PLURAL/NAMESPACE/NAME, without a group for built-in ones."""
    return key.decode().split("/")[-3]


def _uid(value: bytes) -> bytes:
    """The uid of an object. In protobuf, that of the object comes before those of its owners."""
    if value.startswith(b"{"):
        return Object(value).metadata.uid.encode()
    match = _UID.search(value)
    assert match is not None
    return match.group()


def bytes_by_kind(fleet: Fleet) -> Iterator[str]:
    """The largest kinds of one cluster."""
    for table, size in fleet.sizes.most_common():
        yield f"{fleet.numbers[table]} {table}: {size / 1024:.1f} KiB"
