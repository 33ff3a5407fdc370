"""Backups of a real history, and what etcd answers that was started with a restored data directory."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

from espalier.etcd.client import Client
from espalier.etcd.database.backend import Record, State, write_backend
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.results import Event, KeyValue
from espalier.etcdbackup.restore.members import Membership, membership
from espalier.etcdbackup.snapshots import deltas
from espalier.etcdbackup.snapshots.names import Snapshot
from espalier.etcdbackup.stores.store import Store
from tests.support.etcd.backups import delta_content, packed
from tests.support.etcd.etcd_histories import EVERYTHING

PEER = "unix://peer:0"
OF_TESTS: Membership = membership("default", "", "etcd-cluster", PEER)
"""The membership with which `RealEtcd` is started."""


def stored_events(events: Sequence[Event]) -> list[deltas.Event]:
    """Events of a watch as deltas have them."""
    return [
        deltas.event(
            deltas.KeyValue(
                event.item.key,
                event.item.create_revision,
                event.item.mod_revision,
                event.item.version,
                event.item.value,
                event.item.lease,
            ),
            event.item.mod_revision,
            is_deletion=event.type == "DELETE",
        )
        for event in events
    ]


def records(events: Sequence[Event]) -> list[Record]:
    """Events as records of etcd's database."""
    made: list[Record] = []
    for event in events:
        item = event.item
        sub = made[-1].sub + 1 if made and made[-1].main == item.mod_revision else 0
        if event.type == "DELETE":
            made.append(Record(item.mod_revision, sub, True, rpc.KeyValue(key=item.key)))
            continue
        kv = rpc.KeyValue(
            key=item.key,
            value=item.value,
            create_revision=item.create_revision,
            mod_revision=item.mod_revision,
            version=item.version,
            lease=item.lease,
        )
        made.append(Record(item.mod_revision, sub, False, kv))
    return made


def full_content(events: Sequence[Event], state: State) -> bytes:
    """The content of a full snapshot of an etcd to which this happened."""
    file = io.BytesIO()
    write_backend(file, records(events), state)
    return file.getvalue() + hashlib.sha256(file.getvalue()).digest()


async def put_full(store: Store, snapshot: Snapshot, content: bytes) -> None:
    """Store a full snapshot."""
    await store.put(snapshot.key, packed(content, snapshot.compression))


async def put_delta(store: Store, snapshot: Snapshot, events: Sequence[Event]) -> None:
    """Store the events of a delta."""
    await store.put(snapshot.key, packed(delta_content(stored_events(events)), snapshot.compression))


async def everything(client: Client) -> tuple[KeyValue, ...]:
    """All keys of an etcd, in order."""
    return (await client.do(EVERYTHING)).items


def database(folder: Path) -> Path:
    """The database in a data directory."""
    return folder / "member/snap/db"
