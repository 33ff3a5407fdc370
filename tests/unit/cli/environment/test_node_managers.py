"""The managers of nodes follow the kubeconfigs in a folder."""

from __future__ import annotations

import asyncio
import base64
import errno
import random
import stat
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from espalier.api.core import NAMESPACE, SECRET
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.kit.connecting.home import Home
from espalier.cli.local.environment import node_managers
from espalier.cli.local.environment.node_managers import NodeManagers, ended, other_managers
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.runtime.clock import SystemClock
from espalier.runtime.component import Component
from tests.support.waiting import eventually


class Recorded(NodeManagers):
    """Notes which kubeconfigs are managed, and ends the managers of broken ones."""

    def __init__(self, home: Home, problem: str | Exception = "") -> None:
        async def make() -> str:
            self.made += 1
            if isinstance(problem, Exception):
                raise problem
            return problem

        super().__init__(home, lambda _owner: Component("nodes"), make, SystemClock(), random.Random(1))
        self.made = 0
        self.managed: list[bytes] = []
        self.attempts = 0

    async def _manage_once(self, _file: Path, content: bytes) -> None:
        self.attempts += 1
        if content == b"broken":
            raise OSError("nobody answers")
        self.managed.append(content)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.managed.remove(content)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_managers, "_PAUSE", 0.01)
    monkeypatch.setattr(node_managers, "_RETRY", 0.01)


async def test_kubeconfigs_are_managed_while_they_are_there(tmp_path: Path) -> None:
    managers = Recorded(Home(tmp_path))
    running = asyncio.create_task(managers.run())
    tmp_path /= "managers"
    tmp_path.mkdir()
    oak, elm = tmp_path / "default.oak.kubeconfig", tmp_path / "default.elm.kubeconfig"
    oak.write_bytes(b"oak")
    elm.write_bytes(b"elm")
    await eventually(lambda: sorted(managers.managed), lambda value: value == [b"elm", b"oak"])
    oak.write_bytes(b"oak with a new certificate")
    await eventually(lambda: sorted(managers.managed), lambda value: value == [b"elm", b"oak with a new certificate"])
    assert other_managers(tmp_path) == [elm, oak]
    elm.unlink()
    await eventually(lambda: managers.managed, lambda value: value == [b"oak with a new certificate"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert managers.managed == []


async def test_unreadable_kubeconfig_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    home.managers.mkdir()
    home.images_made.touch()
    ash, elm, oak = (home.managers / f"default.{name}.kubeconfig" for name in ("ash", "elm", "oak"))
    managers = Recorded(home)
    elm.write_bytes(b"elm")
    await managers._follow()
    for file in (ash, oak):
        file.write_bytes(file.name.encode())
    unreadable, read = {ash, elm}, Path.read_bytes

    def limited(path: Path) -> bytes:
        if path in unreadable:
            raise OSError(errno.EMFILE, "too many open files")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", limited)
    for _ in range(2):
        with capture_logs() as logged:
            await managers._follow()
            await asyncio.sleep(0)
    assert sorted(managers.managed) == [b"default.oak.kubeconfig", b"elm"]
    assert logged == []  # a second time
    unreadable.clear()
    await managers._follow()
    await asyncio.sleep(0)
    assert len(managers.managed) == 3
    await managers._stop([*managers._running])


async def test_manager_that_fails_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "managers").mkdir()
    (tmp_path / "managers" / "default.oak.kubeconfig").write_bytes(b"broken")
    managers = Recorded(Home(tmp_path))
    running = asyncio.create_task(managers.run())
    await eventually(lambda: managers.attempts, lambda attempts: attempts >= 3)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("problem", ["no mirror", OSError("no mirror"), ValueError("no mirror")])
async def test_images_are_made_for_a_creation_alone(tmp_path: Path, problem: str | Exception) -> None:
    home = Home(tmp_path)
    managers = Recorded(home, problem)
    await managers._follow()
    assert managers.made == 0
    home.managers.mkdir()
    for made in (1, 2):
        await managers._follow()
        assert managers._making is not None
        await asyncio.wait([managers._making])
        await managers._follow()
        assert (managers.made, home.images_made.exists()) == (made, True)
        assert home.images_made.read_text().endswith("no mirror")
        home.images_made.unlink()  # by the command that told the problem


@pytest.fixture
async def served() -> AsyncIterator[Client]:
    """The API server of a management cluster."""
    server = Server(MemoryStore(), now=SystemClock().now, random=random.Random(1))
    await server.start()
    client = Client(InProcessTransport(server))
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "eksa-system"}})
    yield client
    await client.close()
    await server.close()


def offered(authority: Authority, days: float) -> bytes:
    """A kubeconfig as Cluster API makes it, valid for so many days."""
    credentials = authority.issue_client("kubernetes-admin", groups=["system:masters"], now=NOW, days=days)
    return Kubeconfig.of_cluster(
        "mgmt",
        server="https://10.79.0.2:6443",
        certificate_authority=authority.certificate,
        user="mgmt-admin",
        credentials=credentials,
    ).to_bytes()


def secret_of(content: bytes) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "mgmt-kubeconfig", "namespace": "eksa-system"},
        "data": {"value": base64.b64encode(content).decode()},
    }


NOW = SystemClock().now()
AUTHORITY, STRANGER = (Authority.create("kubernetes", now=NOW, rng=random.Random(seed)) for seed in (1, 2))


async def test_kubeconfig_follows_a_newer_certificate(
    tmp_path: Path, served: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_managers, "_RENEWAL", 0.01)
    home = Home(tmp_path)
    home.managers.mkdir()
    file = home.kubeconfig_of_manager("team-a", "mgmt")
    present = offered(AUTHORITY, 10)
    file.write_bytes(present)
    with capture_logs() as logged:
        renewal = asyncio.create_task(Recorded(home)._renew(file, present, served))
        await eventually(lambda: logged, lambda lines: "mgmt-kubeconfig" in str(lines))  # it is not there
        await served.create(SECRET, secret_of(offered(STRANGER, 300)))
        await eventually(lambda: logged, lambda lines: "authority" in str(lines))
    assert len(logged) == 2
    assert file.read_bytes() == present
    newer = secret_of(offered(AUTHORITY, 300))
    await served.patch(SECRET, "mgmt-kubeconfig", "eksa-system", patch={"data": newer["data"]}, type=PatchType.MERGE)
    async with asyncio.timeout(30):
        await renewal
    renewed = Kubeconfig.load([file]).context()
    assert KeyPair(renewed.client_certificate or b"", b"").not_after > NOW + timedelta(days=200)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert other_managers(home.managers) == [file]


async def test_removed_kubeconfig_is_not_written_again(
    tmp_path: Path, served: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_managers, "_RENEWAL", 0.01)
    home = Home(tmp_path)
    home.managers.mkdir()
    file = home.kubeconfig_of_manager("default", "mgmt")
    await served.create(SECRET, secret_of(offered(AUTHORITY, 300)))
    with capture_logs() as logged:
        renewal = asyncio.create_task(Recorded(home)._renew(file, offered(AUTHORITY, 10), served))
        await eventually(lambda: logged, lambda lines: "No such file" in str(lines))
        await ended(renewal)
    assert not file.exists()


@pytest.mark.parametrize("key", [Key("default", "mgmt"), Key("team-a", "a.b"), Key("team-a", "ä/b")])
def test_file_of_a_kubeconfig_names_its_cluster(tmp_path: Path, key: Key) -> None:
    assert Home.manager_of(Home(tmp_path).kubeconfig_of_manager(*key)) == key
