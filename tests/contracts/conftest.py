"""The subjects of contracts: the embedded API server with each of its stores, and a real control plane."""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.apiserver.builtin.builtin import KINDS
from espalier.apiserver.server import Server
from espalier.apiserver.storage.encryption import Encryption
from espalier.apiserver.storage.etcd_keys import Keys
from espalier.apiserver.storage.etcd_store import EtcdStore
from espalier.apiserver.storage.sqlite import SqliteStore
from espalier.apiserver.storage.store import MemoryStore, Store
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Transport
from tests.support.environments.control_plane import ControlPlane
from tests.support.etcd.etcds import NEWEST_ETCD, Clients, Limits
from tests.support.left_files import folder_of_a_fixture
from tests.support.servers.kubectl import Kubectl, find_kubectl
from tests.support.servers.kubectl_things import CRD, THING, embedded_server
from tests.support.servers.kubectl_things import NAMESPACE as CONTRACT_NAMESPACE
from tests.support.servers.widgets import GROUP, definition, established


@asynccontextmanager
async def running(store: Store) -> AsyncIterator[Server]:
    server = Server(store, now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()
    yield server
    await server.close()


@pytest.fixture(scope="session")
def control_plane(shared_control_plane: ControlPlane) -> ControlPlane:
    """One for all contracts: each takes a namespace of its own."""
    return shared_control_plane


@pytest.fixture
async def in_memory() -> AsyncIterator[Server]:
    async with running(MemoryStore()) as server:
        yield server


def encryption() -> Encryption:
    """Of all kinds: what holds for an encrypted store holds for one in clear, which takes fewer steps."""
    keys = [{"name": "one", "secret": base64.b64encode(bytes(32)).decode()}]
    rule = {"resources": ["*.*"], "providers": [{"aesgcm": {"keys": keys}}, {"identity": {}}]}
    return Encryption({"kind": "EncryptionConfiguration", "resources": [rule]})


@pytest.fixture
async def on_disk(tmp_path: Path) -> AsyncIterator[Server]:
    async with running(SqliteStore(tmp_path / "objects.db", encryption())) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def etcd(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Clients]:
    """One for all contracts: each server has a prefix of its own there."""
    if reason := NEWEST_ETCD.lacks():
        pytest.skip(reason)
    with folder_of_a_fixture(tmp_path_factory, "etcd") as folder:
        async with NEWEST_ETCD.run(folder, Limits()) as clients:
            yield clients


@pytest.fixture
async def on_etcd(etcd: Clients, tmp_path: Path) -> AsyncIterator[Server]:
    store = EtcdStore(etcd(), Keys(KINDS, f"/{tmp_path.name}"), encryption=encryption())
    async with running(store) as server:
        yield server


@pytest.fixture(
    params=[
        pytest.param("in_memory", marks=pytest.mark.embedded),
        pytest.param("on_disk", marks=pytest.mark.embedded),
        pytest.param("on_etcd", marks=pytest.mark.envtest),
        pytest.param("real", marks=pytest.mark.envtest),
    ]
)
def transport(request: pytest.FixtureRequest) -> Transport:
    if request.param != "real":
        return InProcessTransport(request.getfixturevalue(request.param))
    real: ControlPlane = request.getfixturevalue("control_plane")
    return HttpTransport(Kubeconfig.load([real.kubeconfig]).context(), environment={})


@pytest.fixture
async def client(transport: Transport) -> AsyncIterator[Client]:
    client = Client(transport, field_manager="contract", user_agent="contract")
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: Client) -> str:
    return (await client.create(NAMESPACE, {"metadata": {"generateName": "contract-"}})).name


@pytest.fixture
async def widgets(client: Client, namespace: str) -> str:
    """A namespace in which Widgets can be made."""
    await client.apply(CUSTOM_RESOURCE_DEFINITION, definition())
    await established(client, f"widgets.{GROUP}")
    return namespace


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.embedded),
        pytest.param("envtest", marks=pytest.mark.envtest),
    ]
)
def real(request: pytest.FixtureRequest) -> ControlPlane | None:
    """The real control plane; None where the embedded server is tried instead."""
    return request.getfixturevalue("control_plane") if request.param == "envtest" else None


@pytest.fixture
async def kubectl(real: ControlPlane | None, tmp_path: Path) -> AsyncIterator[Kubectl]:
    program = find_kubectl()
    if real is None:
        async with embedded_server(tmp_path) as kubeconfig:
            kubectl = Kubectl(program, kubeconfig, tmp_path)
            kubectl.namespace = "default"
            yield kubectl
    else:
        kubectl = Kubectl(program, real.kubeconfig, tmp_path)
        namespace = await kubectl("create", "-f", "-", "-o", "name", stdin=CONTRACT_NAMESPACE)
        kubectl.namespace = namespace.strip().removeprefix("namespace/")
        yield kubectl


@pytest.fixture
async def with_things(kubectl: Kubectl) -> Kubectl:
    """kubectl against a server that knows the kind Thing and has one, of the name one."""
    await kubectl("apply", "-f", "-", stdin=CRD)
    await kubectl("wait", "--for=condition=Established", "crd/things.example.org")
    await kubectl("apply", "-f", "-", stdin=THING)
    return kubectl
