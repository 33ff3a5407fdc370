"""A node to upgrade: a folder as its disk, stand-ins as its programs, an embedded API server; and how it is killed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from urllib.parse import parse_qsl

from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.errors import ApiError
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import ADMIN, Request
from espalier.runtime.virtual import VirtualLoop
from espalier.simulator.hosts import folder, static_pods
from espalier.simulator.hosts.programs import FAULTS, MERGE, Host
from espalier.upgrader import contents, steps
from espalier.upgrader.api import Api, Response, Unreachable
from espalier.upgrader.changes import Changes
from espalier.upgrader.contents import Contents, ImageFile
from espalier.upgrader.files import Files
from espalier.upgrader.host import Clock, Commands, Result
from espalier.upgrader.node import Node

OLD, NEW = "v1.35.4", "v1.36.3"
OLD_CONTAINERD, NEW_CONTAINERD = "2.1.5", "2.3.7"
OLD_PLUGINS, NEW_PLUGINS = "1.7.1", "1.9.1"
NAME = "node-1"
POLICY = "/etc/kubernetes/audit-policy.yaml"
CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubeadm.k8s.io/v1beta4",
    "kind": "ClusterConfiguration",
    "kubernetesVersion": OLD,
    "etcd": {"local": {"dataDir": "/var/lib/etcd", "imageTag": "3.6.6-0"}},
    "apiServer": {
        "extraArgs": [{"name": "audit-policy-file", "value": POLICY}],
        "extraVolumes": [{"name": "audit-policy", "hostPath": POLICY, "mountPath": POLICY}],
    },
}
NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)


class Killed(BaseException):
    """The program was killed here."""


@dataclass
class Doom:
    """Kills at a chosen one of the moments at which something has been, or is about to be, changed."""

    at: int = -1
    seen: int = 0
    moments: list[str] = field(default_factory=list)

    def moment(self, what: str) -> None:
        """Count one, and kill if it is the one."""
        self.moments.append(what)
        self.seen += 1
        if self.seen - 1 == self.at:
            raise Killed(what)


class KillableFiles(Files):
    """Dies before, after and in the middle of changes. Nothing is flushed to the disk: no power fails here."""

    def __init__(self, root: Path, doom: Doom) -> None:
        super().__init__(root)
        self._doom = doom
        self.free: int | None = None
        self.shares = False
        """True if files can be linked, as on one file system."""

    def _around(self, what: str, change: Callable[[], None]) -> None:
        self._doom.moment(f"before {what}")
        change()
        self._doom.moment(f"after {what}")

    def _make_folder(self, place: Path) -> None:
        self._around(f"making {place}", lambda: super(KillableFiles, self)._make_folder(place))

    def _hard_link(self, source: Path, staged: Path) -> bool:
        if self.shares:
            self._around(f"linking {staged}", lambda: os.link(source, staged))
        return self.shares

    def _copy(self, source: Path, staged: Path) -> None:
        content = source.read_bytes()
        self._pour(content, staged)

    def _write(self, staged: Path, content: bytes) -> None:
        self._pour(content, staged)

    def _pour(self, content: bytes, staged: Path) -> None:
        self._doom.moment(f"before writing {staged}")
        staged.write_bytes(content[: len(content) // 2])
        self._doom.moment(f"in the middle of writing {staged}")
        staged.write_bytes(content)
        self._doom.moment(f"after writing {staged}")

    def _set_owner_and_mode(self, staged: Path, mode: int, owner: tuple[int, int] | None) -> None:
        self._around(f"marking {staged}", lambda: super(KillableFiles, self)._set_owner_and_mode(staged, mode, owner))

    def _rename(self, staged: Path, place: Path) -> None:
        self._around(f"renaming to {place}", lambda: os.replace(staged, place))

    def _remove(self, place: Path) -> None:
        self._around(f"removing {place}", lambda: super(KillableFiles, self)._remove(place))

    def _remove_folder(self, place: Path) -> None:
        self._around(f"removing {place}", lambda: super(KillableFiles, self)._remove_folder(place))

    def _free(self, place: Path) -> int:
        return super()._free(place) if self.free is None else self.free


class KillableCommands(Commands):
    """Runs the stand-ins, and dies before and after each command."""

    def __init__(self, host: Host, doom: Doom) -> None:
        super().__init__()
        self._host = host
        self._doom = doom
        self.ran: list[str] = []

    def _run(self, command: Sequence[str], timeout: float) -> CompletedProcess[bytes]:
        text = " ".join(command[command.index("--") + 1 :])
        self._doom.moment(f"before {text}")
        code, output = self._host.run(command)
        self.ran.append(text)
        self._doom.moment(f"after {text}")
        return CompletedProcess(command, code, output.encode())

    def follow(self, *command: str, timeout: float, say: Callable[[str], None]) -> Result:
        result = self.run(*command, timeout=timeout)
        say(result.output)
        return result


class Cluster:
    """An API server, asked from synchronous code."""

    def __init__(self, version: str = OLD) -> None:
        # No minute passes for the server between two requests, however busy the machine is.
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self._server = Server(MemoryStore(), now=lambda: NOW, random=random.Random(1), version=version)
        self._runner.run(self._server.start())

    def close(self) -> None:
        self._runner.run(self._server.close())
        self._runner.close()

    @property
    def version(self) -> str:
        return self._server.version

    @version.setter
    def version(self, version: str) -> None:
        self._server.version = version

    def request(self, method: str, path: str, body: Any = None, content_type: str = MERGE) -> tuple[int, bytes]:
        path, _, query = path.partition("?")
        headers = {"content-type": "application/json" if method == "POST" else content_type}
        content = b"" if body is None else json.dumps(body).encode()
        try:
            response = self._runner.run(
                self._server.serve(Request(method, path, dict(parse_qsl(query)), headers, content), ADMIN)
            )
        except ApiError as error:
            return error.status.code, encode_json(error.status)
        return response.status, response.body

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, content = self.request(method, path, body)
        return status, json.loads(content)

    def make(self, path: str, **object_: Any) -> Any:
        status, made = self.ask("POST", path, object_)
        assert status == 201, made
        return made


class KillableApi(Api):
    """Asks the embedded server, and dies before and after each request that changes something."""

    def __init__(self, cluster: Cluster, host: Host, doom: Doom) -> None:
        super().__init__({}, Path())
        self._cluster = cluster
        self._simulated = host
        self._doom = doom
        self.down = False
        self.down_with = ""
        """The version of the kubelet from which on the API server does not answer."""
        self.ready = (200, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n")

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Response:
        if self.down or (self.down_with and self._simulated.running("kubelet") == self.down_with):
            raise Unreachable("the API server does not answer (simulated)")
        if path == "/readyz?verbose":
            return Response(*self.ready)
        if method != "GET":
            self._doom.moment(f"before {method} {path}")
        status, content = self._cluster.request(method, path, body, content_type)
        if method != "GET":
            self._doom.moment(f"after {method} {path}")
        return Response(status, content.decode())


@dataclass
class Simulated:
    """One node that can be upgraded again and again, and killed while it is."""

    root: Path
    image: Path
    cluster: Cluster
    doom: Doom = field(default_factory=Doom)
    time: float = 0.0
    messages: list[str] = field(default_factory=list)
    later: dict[float, Callable[[], None]] = field(default_factory=dict)
    """Events in the environment, by time."""
    changes: Changes = field(default_factory=Changes)

    def __post_init__(self) -> None:
        self.host = Host(self.root, self.cluster.ask)
        self.commands = KillableCommands(self.host, self.doom)
        self.api = KillableApi(self.cluster, self.host, self.doom)
        self.files = KillableFiles(self.root, self.doom)
        self.node = Node(
            NAME,
            self.files,
            self.commands,
            self.api,
            self.image,
            contents.read(self.image),
            Clock(lambda: self.time, self._wait),
            self.messages.append,
        )

    def _wait(self, seconds: float) -> None:
        self.time += seconds
        for due in [due for due in self.later if due <= self.time]:
            self.later.pop(due)()

    def fail(self, **faults: Any) -> None:
        (self.root / FAULTS).unlink(missing_ok=True)
        (self.root / FAULTS).write_text(json.dumps(faults))

    def reported(self) -> str:
        return str(self.cluster.ask("GET", f"/api/v1/nodes/{NAME}")[1]["status"]["nodeInfo"]["kubeletVersion"])

    def step(self, name: str, *, etcd: str = "") -> str:
        """Run one step, as the container of its name does; `etcd` is the version that the pod names."""
        if name == "copy":
            return steps.copy(self.node, self.node.contents.version, self.changes, etcd)
        if name == "kubeadm":
            role = steps.FIRST if self.node.control_plane else steps.WORKER
            sentence = steps.kubeadm(self.node, self.node.contents.version, steps.KubeadmOptions(role), self.changes)
            self.cluster.version = NEW
            return sentence
        if name == "kubelet":
            return steps.kubelet(self.node, self.changes)
        if name == "done":
            return steps.done(self.node, self.changes)
        return {"containerd": steps.containerd, "cni-plugins": steps.cni_plugins}[name](self.node)

    def installed(self) -> dict[str, str]:
        """Text by path, of all programs that an upgrade may replace."""
        machine = folder.Machine(NAME, OLD)
        return {path: (self.root / path).read_text() for path in folder.programs(machine)}

    def disk(self) -> dict[str, str]:
        """Checksum by path, of all files."""
        result = (os.path.join(folder, name) for folder, _, names in os.walk(self.root) for name in names)
        return {
            os.path.relpath(path, self.root): hashlib.sha256(Path(path).read_bytes()).hexdigest()
            for path in sorted(result)
            if os.path.isfile(path)
        }


STEPS = ("copy", "containerd", "cni-plugins", "kubeadm", "kubelet", "done")


def old_programs() -> Mapping[str, str]:
    return folder.programs(folder.Machine(NAME, OLD, OLD_CONTAINERD, OLD_PLUGINS))


def new_programs() -> Mapping[str, str]:
    return folder.programs(folder.Machine(NAME, NEW, NEW_CONTAINERD, NEW_PLUGINS))


def build_image(
    target: Path,
    version: str = NEW,
    machine: str | None = None,
    *,
    containerd: str = NEW_CONTAINERD,
    plugins: str = NEW_PLUGINS,
    without: str = "",
) -> None:
    """The folder of an upgrader image for simulated nodes, without the programs whose `component/program` begins so."""
    texts = folder.components(version, containerd, plugins)
    if without:
        texts = {name: text for name, text in texts.items() if not name.startswith(without)}
    for name, text in texts.items():
        place = target / contents.COMPONENTS / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    files = {
        name: ImageFile(hashlib.sha256(text.encode()).hexdigest(), len(text.encode())) for name, text in texts.items()
    }
    versions = {"containerd": containerd, "cni-plugins": plugins}
    image_contents = Contents(version, machine or os.uname().machine, versions, files)
    (target / contents.CONTENTS).write_text(contents.dump(image_contents))


@contextmanager
def simulated(place: Path, *, control_plane: bool = True, system: str = "ubuntu") -> Iterator[Simulated]:
    """A node of the old version in its cluster, and an image of the new one."""
    cluster = Cluster()
    pods = [*static_pods.rendered(CONFIGURATION, OLD).values()] if control_plane else []
    folder.make(place / "host", folder.Machine(NAME, OLD, OLD_CONTAINERD, OLD_PLUGINS, system, static_pods=pods))
    build_image(place / "image")
    register(cluster)
    node = Simulated(place / "host", place / "image", cluster)
    node.host.boot()
    if not control_plane:
        cluster.version = NEW
    try:
        yield node
    finally:
        cluster.close()


def register(cluster: Cluster) -> None:
    """The objects of the node."""
    cluster.make("/api/v1/nodes", apiVersion="v1", kind="Node", metadata={"name": NAME})
    report(cluster)
    if cluster.ask("GET", "/api/v1/namespaces/kube-system")[0] != 200:
        cluster.make("/api/v1/namespaces", apiVersion="v1", kind="Namespace", metadata={"name": "kube-system"})
    cluster.make(
        "/api/v1/namespaces/kube-system/configmaps",
        apiVersion="v1",
        kind="ConfigMap",
        metadata={"name": "kubeadm-config"},
        data={"ClusterConfiguration": json.dumps(CONFIGURATION)},
    )


def report(cluster: Cluster, version: str = OLD, ready: str = "True") -> None:
    """Report the state of the node, as the kubelet does."""
    status = {
        "nodeInfo": {"kubeletVersion": version},
        "conditions": [{"type": "Ready", "status": ready, "reason": "Said", "message": "said in a test"}],
    }
    code, answer = cluster.ask("PATCH", f"/api/v1/nodes/{NAME}/status", {"status": status})
    assert code == 200, answer
