"""The record on disk of what a local environment has on the machine: written before creation, deleted after removal.

One folder for each node and one file about the network. Files are replaced whole, so a reader finds the old or the
new content, whatever moment the writer ended at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeVar

import msgspec

from espalier.api.resource import Key

_NODE = "node.json"
_NETWORK = "network.json"


class NodeRecord(msgspec.Struct, frozen=True):
    """One node. `id` names it on the machine (interface, cgroup, folder), `name` in its cluster."""

    id: str
    name: str
    namespace: str
    uid: str
    """The uid of the infrastructure object: another object of the same name is another node, unless it was moved."""
    cluster: str
    address: str
    version: str
    """Kubernetes version of the base that the node was made from."""
    control_plane: bool = False
    crashed: bool = False
    """Stopped on purpose to simulate a failure: it is not started again."""
    owner: str = ""
    """The management cluster that acts on it; empty for the local environment's own API server."""
    authority: str = ""
    """Fingerprint of the key of its cluster's certificate authority, by which it is known after a move."""
    endpoint: str = ""
    """The address of its cluster's control plane."""
    instance: str = ""
    """The uid of its first object, if it was moved: what the node itself is called does not change."""

    @property
    def instance_id(self) -> str:
        """The uid that the node was made with."""
        return self.instance or self.uid

    @property
    def key(self) -> Key:
        """Of the infrastructure object."""
        return Key(self.namespace, self.name)

    @property
    def cluster_key(self) -> Key:
        """Of the Cluster."""
        return Key(self.namespace, self.cluster)


class EndpointRecord(msgspec.Struct, frozen=True):
    """The address of a control plane on the bridge, with its Cluster."""

    cluster: str
    """Namespace and name."""
    uid: str
    address: str
    port: int


class NetworkRecord(msgspec.Struct, frozen=True):
    """The bridge, and the addresses of control planes on it."""

    bridge: str
    range: str
    endpoints: tuple[EndpointRecord, ...] = ()


def node_id(uid: str) -> str:
    """The id of a node on the machine: short, because interface names are."""
    return f"esp-{uid.replace('-', '')[:8]}"


class NodeFolder:
    """Paths of one node. Creates no files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = path / _NODE
        self.root = path / "root"
        """Mount point of the overlay."""
        self.upper = path / "upper"
        self.work = path / "work"
        self.containerd = path / "containerd"
        self.pid = path / "pid"
        """The PID file of systemd-nspawn."""
        self.console = path / "console.log"

    @property
    def id(self) -> str:
        """Name of the node on the machine."""
        return self.path.name


class State:
    """The folder of a local environment's real nodes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, id_: str) -> NodeFolder:
        """Paths of a node."""
        return NodeFolder(self.root / id_)

    def nodes(self) -> list[NodeRecord]:
        """All recorded nodes, by name."""
        records = (_read(path, NodeRecord) for path in self._node_files())
        return sorted((record for record in records if record), key=lambda record: (record.namespace, record.name))

    def node(self, id_: str) -> NodeRecord | None:
        """A recorded node."""
        return _read(self.folder(id_).record, NodeRecord)

    def write_node(self, record: NodeRecord) -> None:
        """Record a node."""
        _write(self.folder(record.id).record, record)

    def forget_node(self, id_: str) -> None:
        """Delete the folder of a removed node; the record last."""
        folder = self.folder(id_)
        with suppress(FileNotFoundError):
            for entry in os.listdir(folder.path):
                path = folder.path / entry
                if path == folder.record:
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            folder.record.unlink(missing_ok=True)
            folder.path.rmdir()

    def network(self) -> NetworkRecord | None:
        """The network, None when there is none."""
        return _read(self.root / _NETWORK, NetworkRecord)

    def write_network(self, record: NetworkRecord) -> None:
        """Record the network."""
        _write(self.root / _NETWORK, record)

    def forget_network(self) -> None:
        """Delete the record of the network after its removal."""
        for path in (*self.root.glob("balancer.*"), *self.root.glob("registry.*"), self.root / _NETWORK):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.root.rmdir()

    def taken(self) -> Iterator[IPv4Address]:
        """Addresses in use."""
        for record in self.nodes():
            yield IPv4Address(record.address)
        network = self.network()
        for endpoint in network.endpoints if network else ():
            yield IPv4Address(endpoint.address)

    def _node_files(self) -> list[Path]:
        return sorted(self.root.glob(f"*/{_NODE}"))


R = TypeVar("R", bound=msgspec.Struct)


def _read(path: Path, type_: type[R]) -> R | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"{path}: {error}; it was written by another version: remove its nodes with that one"
        ) from None


def _write(path: Path, record: msgspec.Struct) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=1))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
