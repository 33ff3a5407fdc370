"""Text written by others never controls the terminal of the reader: commands on a terminal, and a server full of it."""

from __future__ import annotations

import io
import random
import re
import unicodedata
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import CORE_EVENT
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, SYSTEM_NAMESPACE
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.connection import Connected
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.main import run
from espalier.kube.client import Client, PatchType
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.kinds import KINDS
from espalier.releases import Releases
from tests.support.environments.prepared_cluster import prepare
from tests.support.servers.faults import Interceptor

pytestmark = pytest.mark.embedded

EXAMPLE = Path(__file__).parents[2] / "examples" / "docker.yaml"
CONTROLS = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066"]
HOSTILE = "".join(f"{control}[2J" for control in CONTROLS) + "[/red][bold]{0}\x1b]8;;https://evil.example\x07click"
OWN_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def hostile_status(generation: int = 1) -> Tree:
    condition = {"status": "False", "reason": "Stuck", "message": HOSTILE, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"conditions": [{**condition, "type": type_} for type_ in ("Ready", "KubeadmUpgraded", "Available")]}


async def plant(client: Client) -> None:
    """A cluster and what belongs to it, with hostile text wherever an API server takes it."""
    labels = {CLUSTER_NAME_LABEL: "garden", "cluster.x-k8s.io/cluster-name": "garden"}
    for tree in (document.tree for document in read_manifests(EXAMPLE.read_bytes(), source="example")):
        kind = Cluster if tree["kind"] == "Cluster" else DockerDatacenterConfig
        tree["metadata"] |= {"namespace": "default", "annotations": {"note": HOSTILE}}
        if kind is Cluster:
            args = {"audit-log-path": HOSTILE}
            tree["spec"]["controlPlaneConfiguration"]["apiServerExtraArgs"] = args
        await client.create(kind.resource, tree)
    spec = {"machine": {"name": "garden-x"}, "kubernetesVersion": "v1.36.3-eks-1-36-1", "nodeType": "Worker"}
    upgrade = {"metadata": {"name": "garden-x-node-upgrader", "namespace": SYSTEM_NAMESPACE}, "spec": spec}
    plane: Tree = {
        "metadata": {"name": "garden", "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "spec": {
            "version": "v1.36.3",
            "replicas": 1,
            "machineTemplate": {"spec": {"infrastructureRef": {"kind": "A", "name": "a", "apiGroup": "a.example"}}},
            "kubeadmConfigSpec": {},
        },
    }
    await client.create(NodeUpgrade.resource, upgrade)
    await client.create(KubeadmControlPlane.resource, plane)
    for resource, name, namespace in (
        (Cluster.resource, "garden", "default"),
        (NodeUpgrade.resource, "garden-x-node-upgrader", SYSTEM_NAMESPACE),
        (KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE),
    ):
        patch = {"status": hostile_status()}
        await client.patch(resource, name, namespace, patch=patch, type=PatchType.MERGE, subresource="status")
    uid = (await client.get(Cluster.resource, "garden", "default")).metadata.uid
    event = {
        "metadata": {"name": "garden.1", "namespace": "default"},
        "involvedObject": {"kind": "Cluster", "name": "garden", "namespace": "default", "uid": uid},
        "type": "Warning",
        "reason": "Stuck",
        "message": HOSTILE,
    }
    await client.create(CORE_EVENT, event)


class Angry(Interceptor):
    """A server that refuses everything, in hostile words."""

    async def request(self, transport: Transport, request: Request) -> Response:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 418, "reason": HOSTILE}
        return Response(418, msgspec.json.encode({**status, "message": HOSTILE}), {"content-type": "application/json"})


def ran(patch: pytest.MonkeyPatch, arguments: Sequence[str], *, angry: bool = False) -> tuple[int, str]:
    """Exit code and all that a command printed on a terminal."""

    @asynccontextmanager
    async def connect(_flags: object) -> AsyncIterator[Connected]:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        server = Server(MemoryStore(), now=lambda: now, random=random.Random(1))
        await server.start()
        transport: Transport = InProcessTransport(server)
        client = Client(transport, user_agent="journey")
        await prepare(client, Releases.load(), KINDS)
        await plant(client)
        if angry:
            client = Client(Angry()(transport), user_agent="journey")
        try:
            yield Connected(client, "default")
        finally:
            await client.close()
            await server.close()

    terminal = Terminal()
    patch.setattr(connection, "connect", connect)
    patch.setattr("sys.stdout", terminal)
    patch.setattr("sys.stderr", terminal)
    patch.setenv("COLUMNS", "4000")
    patch.setenv("TERM", "xterm-256color")
    code = run(arguments)
    return code, terminal.getvalue()


def steering(text: str) -> list[str]:
    """The control sequences left in a text that a terminal would obey, apart from the program's own colours."""
    rest = OWN_COLOURS.sub("", text)
    return [
        repr(item) for item in rest if (unicodedata.category(item) == "Cc" and item != "\n") or item in "\u202e\u2066"
    ]


COMMANDS = (
    ("get", "clusters"),
    ("get", "clusters", "-o", "wide"),
    ("get", "clusters", "-o", "json"),
    ("get", "clusters", "-o", "yaml"),
    ("get", "clusters", "garden", "-o", "jsonpath={.metadata.annotations}{.status.conditions[0].message}"),
    ("get", "clusters", "garden", "-o", "jsonpath={.metadata.annotations.note}"),
    ("get", "clusters", f"no{HOSTILE}"),
    ("describe", "cluster", "garden"),
    ("describe", "cluster", "garden", "--all"),
    ("describe", "cluster", "garden", "-o", "json"),
    ("describe", "cluster", "garden", "-o", "yaml"),
    ("describe", "cluster", f"no{HOSTILE}"),
    ("upgrades", "list"),
    ("upgrades", "list", "-o", "json"),
    ("upgrades", "describe", "garden-x-node-upgrader"),
    ("upgrades", "retry", f"no{HOSTILE}"),
    ("releases", "list"),
    ("plan", "--manager", "-A"),
    ("plan", "--manager", "-A", "-o", "json"),
    ("plan", "-f", str(EXAMPLE)),
    ("kubeconfig", f"no{HOSTILE}"),
    ("no" + HOSTILE,),
)


@pytest.mark.soak
@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: ascii(" ".join(arguments))[1:60])
def test_no_command_passes_on_what_steers_a_terminal(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, told = ran(monkeypatch, arguments)
    assert told
    assert steering(told) == []
    if "-o" not in arguments and "garden" in arguments:
        assert code == 0
        assert "[/red][bold]" in told, "and what it is, can be seen"


@pytest.mark.soak
@pytest.mark.parametrize(
    "arguments",
    [command for command in COMMANDS if command[0] in ("get", "describe", "upgrades", "plan")][:12:3],
    ids=str,
)
def test_no_refusal_of_a_server_steers_a_terminal(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, told = ran(monkeypatch, arguments, angry=True)
    assert code != 0
    assert steering(told) == []
    assert "[/red][bold]" in told


def test_a_program_that_reads_gets_what_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Terminal, "isatty", lambda _self: False)
        _, told = ran(patch, ("get", "clusters", "garden", "-o", "jsonpath={.metadata.annotations.note}"))
    assert told == HOSTILE


def test_progress_prints_markup_literally() -> None:
    paper = io.StringIO()
    with Progress(Console(file=paper, width=4000)) as progress:
        progress.wait(HOSTILE)
        progress.say(HOSTILE)
    assert steering(paper.getvalue()) == []
    assert paper.getvalue().count("[/red][bold]") == 2
