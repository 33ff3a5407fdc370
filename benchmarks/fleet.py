"""An API server that holds thousands of steady clusters: one that was really made, copied under other names.

    python -m benchmarks.fleet HOME COUNT      HOME is the folder of a stopped environment, with the cluster `garden`

Prints `serving` once it answers; `HOME/fleet.kubeconfig` is for its administrator, and `TOKENS` are for others who may
read all. Of each cluster it holds what a manager
reads; what Machines are made of is left out, for no cache of the manager has it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
import re
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.apiserver.http import MASTERS, HttpShell
from espalier.apiserver.server import Server
from espalier.apiserver.storage.sqlite import SqliteStore
from espalier.apiserver.storage.store import MemoryStore, Store
from espalier.cli.kit.connecting.home import Home
from espalier.clusters.design.drift import gate
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.objects import Object
from espalier.kube.transports.wire import User
from espalier.providers.docker.kinds import DockerDatacenterConfig

CLUSTER = "garden"
TOKENS = {f"token-of.reader-{number:02}": User(f"reader-{number:02}", (MASTERS,)) for number in range(16)}
LEFT_OUT = {
    KubeadmConfig.resource.group_resource,
    "dockermachines.infrastructure.cluster.x-k8s.io",
    "events.events.k8s.io",
    "events",
    "leases.coordination.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
}
"""Tables that no cache of a manager reads, and those that would make its webhooks be asked."""

_VERSION = re.compile(rb'"resourceVersion":"\d+"')


def load(source: Store, count: int) -> tuple[MemoryStore, Counter[str]]:
    """The objects of `source`, and those of the cluster so many times; how many of each table one cluster has."""
    target = MemoryStore()
    originals: list[tuple[str, Object]] = []
    for name, table in source.tables():
        if name in LEFT_OUT:
            continue
        for item in table.objects.values():
            if CLUSTER in item.name:
                originals.append((name, item))
            else:
                put(target, name, item.key, item.raw)
    uids = [item.metadata.uid for _, item in originals]
    for number in range(count):
        renamed = {CLUSTER.encode(): f"{CLUSTER}-{number:05}".encode()} | {
            uid.encode(): str(uuid.uuid5(uuid.UUID(uid), str(number))).encode() for uid in uids
        }
        for table_name, key, raw in with_marks(list(copies(originals, renamed))):
            put(target, table_name, key, raw)
    return target, Counter(name for name, _ in originals)


def copies(originals: list[tuple[str, Object]], renamed: dict[bytes, bytes]) -> Iterator[tuple[str, Key, bytes]]:
    for name, item in originals:
        raw, object_name = item.raw, item.name.encode()
        for old, new in renamed.items():
            raw, object_name = raw.replace(old, new), object_name.replace(old, new)
        yield name, Key(item.namespace, object_name.decode()), raw


def with_marks(objects: list[tuple[str, Key, bytes]]) -> Iterator[tuple[str, Key, bytes]]:
    """A steady cluster carries digests of its own content and of its own kubeconfig."""
    by_table = {name: raw for name, _, raw in objects}
    cluster = Object(by_table[Cluster.resource.group_resource])
    children = [Object(by_table[DockerDatacenterConfig.resource.group_resource])]
    secret = next(raw for name, key, raw in objects if name == "secrets" and key == kubeconfig_of(cluster))
    kubeconfig = cluster.metadata.uid.encode() + base64.b64decode(Object(secret).tree["data"]["value"])
    marks = cluster.metadata.annotations
    renewed = {
        marks[metadata_keys.GATE_ANNOTATION].encode(): gate.content_hash(cluster, children).encode(),
        marks[metadata_keys.KUBECONFIG_ANNOTATION].encode(): hashlib.sha256(kubeconfig).hexdigest()[:16].encode(),
    }
    for name, key, raw in objects:
        fresh = raw
        for old, new in renewed.items():
            fresh = fresh.replace(old, new)
        yield name, key, fresh


def kubeconfig_of(cluster: Object) -> Key:
    return Key(SYSTEM_NAMESPACE, f"{cluster.name}-kubeconfig")


def put(store: Store, table: str, key: Key, raw: bytes) -> None:
    version = f'"resourceVersion":"{store.revision + 1}"'.encode()
    store.put(table, key, Object(_VERSION.sub(version, raw, count=1)))


async def serve(home: Home, count: int) -> None:
    source = SqliteStore(home.database)
    await source.start()
    store, counts = load(source, count)
    await source.close()
    now = datetime.now(UTC)
    server = Server(store, now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()
    authority = Authority.load((home.authority / "ca.crt").read_bytes(), (home.authority / "ca.key").read_bytes())
    shell = HttpShell(
        server,
        host="127.0.0.1",
        port=0,
        serving=authority.issue_server("kube-apiserver", names=("127.0.0.1",), now=now),
        client_ca=authority.certificate,
        tokens=TOKENS,
    )
    await shell.start()
    Kubeconfig.of_cluster(
        "fleet",
        server=shell.url,
        certificate_authority=authority.certificate,
        user="admin",
        credentials=authority.issue_client("admin", groups=["system:masters"], now=now),
    ).merge_into(home.root / "fleet.kubeconfig")
    print("serving", sum(counts.values()), dict(counts), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Home(Path(sys.argv[1])), int(sys.argv[2])))
