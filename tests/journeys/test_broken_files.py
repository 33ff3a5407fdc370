"""A local environment whose files are broken says which, and what to do, and loses nothing."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Condition
from espalier.cli.kit.connecting.home import Home
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.objects import Object
from espalier.kube.transports.http import HttpTransport
from tests.support.environments.environment import LocalEnvironment, local_environment
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

FLAGS = ("--boot-seconds", "0.05")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment that ran once."""
    env = LocalEnvironment(tmp_path_factory.mktemp("kept") / "home")
    env.home.mkdir()
    env.up(*FLAGS)
    assert env.espalier("down").code == 0
    return env.home


@pytest.fixture
def env(stored: Path, tmp_path: Path) -> Iterator[LocalEnvironment]:
    """A copy of it."""
    env = LocalEnvironment(tmp_path / "home")
    shutil.copytree(stored, env.home)
    yield env
    env.espalier("down")


def content(folder: Path) -> dict[str, bytes]:
    """Everything in it but what each start writes."""
    files = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in ("world.lock", "world.log")
    ]
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal"))
    }


def refused(env: LocalEnvironment, file: Path, *says: str, detached: bool = True) -> None:
    """`up` says this of the file, and changes nothing."""
    before = content(env.home)
    ways: list[tuple[str, ...]] = [(), ("--detach",)] if detached else [()]
    for way in ways:
        result = env.espalier("up", *way, *FLAGS)
        output = " ".join(result.err.split())
        assert result.code == 2, result
        assert "Traceback" not in result.out + result.err
        assert str(file) in output, output
        for words in says:
            assert words in output, output
    assert content(env.home) == before


def starts(env: LocalEnvironment) -> None:
    env.up(*FLAGS)
    assert "cluster.anywhere.eks.amazonaws.com/laptop" in env.names("get", "clusters")


def garbage(file: Path) -> None:
    file.write_bytes(b"\x00\xffgarbage\n" * 1000)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def halved(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 8192 * 4096)


def of_another_program(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE songs (title TEXT)")
    database.close()


@pytest.mark.parametrize(
    ("spoil", "says"),
    sampled(
        [
            (garbage, "is not a database of this program"),
            (empty, "is empty, but"),
            (Path.unlink, "is not there, but"),
            (halved, "is damaged"),
            (of_another_program, "is a database of another program"),
        ],
        1,
    ),
)
def test_a_broken_database_is_named_and_left_alone(
    env: LocalEnvironment, spoil: Callable[[Path], None], says: str
) -> None:
    database = Home(env.home).database
    data = database.read_bytes()
    spoil(database)
    refused(env, database, says, "restore the file from a backup", "`espalier down --delete-data`")
    database.write_bytes(data)
    starts(env)


@pytest.mark.soak
def test_environment_with_a_lost_database_is_deleted(env: LocalEnvironment) -> None:
    garbage(Home(env.home).database)
    assert env.espalier("up", *FLAGS).code == 2
    assert env.espalier("down", "--delete-data").code == 0
    starts(env)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("spoil", [garbage, empty, Path.unlink], ids=lambda spoil: spoil.__name__)
def test_broken_file_of_the_authority_is_only_named(
    env: LocalEnvironment, name: str, spoil: Callable[[Path], None]
) -> None:
    folder = Home(env.home).authority
    spoil(folder / name)
    refused(env, folder / name, f"move the folder {folder} away", detached=name == "ca.key")
    folder.rename(folder.with_name("away"))
    starts(env)


@pytest.mark.soak
def test_a_key_of_another_certificate_is_named(env: LocalEnvironment, stored: Path, tmp_path: Path) -> None:
    other = LocalEnvironment(tmp_path / "other")
    other.home.mkdir()
    other.up(*FLAGS)
    other.espalier("down")
    key = Home(env.home).authority / "ca.key"
    shutil.copy(Home(other.home).authority / "ca.key", key)
    refused(env, key, "does not match ca.crt")


@pytest.mark.soak
def test_broken_kubeconfig_is_named_lost_one_rewritten(env: LocalEnvironment) -> None:
    kubeconfig = Home(env.home).kubeconfig
    kubeconfig.write_text("clusters: {")
    refused(env, kubeconfig, "Move the file away, and `espalier up` writes a new one")
    kubeconfig.unlink()
    starts(env)


@pytest.mark.soak
def test_a_start_that_got_no_further_is_begun_anew(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path)
    Home(tmp_path).database.touch()
    try:
        starts(env)
    finally:
        env.espalier("down")


@pytest.mark.soak
def test_a_port_that_is_taken_is_reported_once(env: LocalEnvironment) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        for way in ((), ("--detach",)):
            result = env.espalier("up", *way, "--port", str(port), *FLAGS)
            assert result.code == 1, result
            assert " ".join(result.err.split()).partition("error: ")[2] == (
                f"cannot listen on 127.0.0.1:{port}: the port is in use; choose another port with --port, "
                "or stop that program"
            )


# -- folders that take nothing


class Namespace(NamedTuple):
    """Where a file system is mounted that nobody else sees."""

    enter: tuple[str, ...]
    root: Path

    def seen(self, path: Path) -> Path:
        """A path there, from here."""
        return self.root / path.relative_to("/")

    def run(self, *command: str) -> None:
        subprocess.run([*self.enter, *command], check=True)


@contextmanager
def mounted(script: str, folder: Path) -> Iterator[Namespace]:
    """A mount of this folder by a shell, which is gone with this process, however that ends."""
    command = ["unshare", "--mount", "sh", "-c", f"{script} && echo mounted && exec cat", "sh", str(folder)]
    try:
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        pytest.skip("needs unshare, of Linux")
    with holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"mounted\n":
            pytest.skip("needs the right to mount a file system")
        of = f"/proc/{holder.pid}"
        yield Namespace(("nsenter", f"--mount={of}/ns/mnt", f"--wd={folder}"), Path(of, "root"))


@pytest.mark.soak
@pytest.mark.parametrize("free", sampled([0, 4096, 300_000], 1))
def test_full_disk_is_named_and_start_succeeds_later(tmp_path: Path, free: int) -> None:
    with mounted('mount -t tmpfs -o size=400k,mode=0700 tmpfs "$1"', tmp_path) as small:
        env = LocalEnvironment(tmp_path, small.enter)
        ballast = small.seen(tmp_path / "ballast")
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        os.truncate(ballast, max(ballast.stat().st_size - free, 0))
        for way in ((), ("--detach",)):
            result = env.espalier("up", *way, *FLAGS)
            output = " ".join(result.err.split())
            assert result.code == 2, result
            assert "Traceback" not in result.out + result.err
            assert f"{tmp_path}/" in output, result
            assert "make room on its disk, or set ESPALIER_HOME to another folder" in output, result
        ballast.unlink()
        small.run("mount", "-o", "remount,size=100m", str(tmp_path))
        try:
            starts(env)
        finally:
            env.espalier("down")


@pytest.mark.soak
def test_a_folder_that_can_only_be_read_is_named(env: LocalEnvironment) -> None:
    with mounted('mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"', env.home) as namespace:
        inside = LocalEnvironment(env.home, namespace.enter)
        for way in ((), ("--detach",)):
            result = inside.espalier("up", *way, *FLAGS)
            assert result.code == 2, result
            output = " ".join(result.err.split())
            assert f"{env.home}/world.lo" in output
            assert os.strerror(errno.EROFS) in output
            assert "mount it read-write, or set ESPALIER_HOME to another folder" in output
    starts(env)


# -- workload clusters

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEnvironment]:
    """An environment with a cluster, which does not run."""
    env = LocalEnvironment(tmp_path_factory.mktemp("garden") / "home")
    env.home.mkdir()
    env.up(*FLAGS)
    assert env.apply(EXAMPLE, "create", "--timeout", "300s").code == 0
    assert env.espalier("down").code == 0
    yield env
    env.espalier("down")


def until(env: LocalEnvironment, holds: Callable[[Condition], bool]) -> Condition:
    """The condition ControlPlaneReady of the Cluster, as soon as this holds of it."""

    async def watched() -> Condition:
        client = Client(HttpTransport(Kubeconfig.load([Home(env.home).kubeconfig]).context(), environment={}))
        selected = "metadata.name=garden"
        try:
            async with asyncio.timeout(60):
                listed = await client.list(Cluster.resource, "default", fields=selected)
                if holds(ready(listed.items[0])):
                    return ready(listed.items[0])
                async for event in client.watch(
                    Cluster.resource, "default", resource_version=listed.resource_version, fields=selected
                ):
                    if holds(ready(event.object)):
                        return ready(event.object)
            raise AssertionError("the watch ended")
        finally:
            await client.close()

    return asyncio.run(watched())


def failure(env: LocalEnvironment) -> tuple[str, str]:
    """`status.failureReason` and `status.failureMessage` of the Cluster."""
    path = "{.status.failureReason}\n{.status.failureMessage}"
    result = env.espalier("get", "clusters", "garden", "-o", f"jsonpath={path}")
    reason, _, message = result.out.strip().partition("\n")
    return reason, message


def ready(cluster: Object) -> Condition:
    conditions = cluster.decode(Cluster).status.conditions
    return next(condition for condition in conditions if condition.type == "ControlPlaneReady")


@pytest.mark.soak
@pytest.mark.parametrize(
    "spoil", [garbage, empty, halved, of_another_program, Path.unlink], ids=lambda spoil: spoil.__name__
)
def test_workload_cluster_reports_broken_objects(garden: LocalEnvironment, spoil: Callable[[Path], None]) -> None:
    file = Home(garden.home).clusters / "eksa-system-garden" / "objects.db"
    data = file.read_bytes()
    spoil(file)
    broken = file.read_bytes() if file.exists() else None
    garden.up(*FLAGS)
    condition = until(garden, lambda item: item.status == "False")
    assert condition.reason == "ControlPlaneBroken"
    assert failure(garden) == (condition.reason, condition.message)
    assert f"the API server does not run: {file} is " in condition.message
    assert "restore the file from a backup" in condition.message
    assert (file.read_bytes() if file.exists() else None) == broken
    staged = file.with_name("back")
    staged.write_bytes(data)
    staged.replace(file)
    until(garden, lambda item: item.status == "True")
    assert failure(garden) == ("", "")
    assert garden.espalier("down").code == 0


@pytest.mark.soak
def test_workload_cluster_of_lost_objects_is_recreated(
    tmp_path: Path,
) -> None:
    with local_environment(tmp_path, *FLAGS) as env:
        assert env.apply(EXAMPLE, "create", "--timeout", "300s").code == 0
        env.down()
        file = Home(env.home).clusters / "eksa-system-garden" / "objects.db"
        file.unlink()
        env.up(*FLAGS)
        until(env, lambda item: item.status == "False")
        result = env.espalier("delete", "cluster", "garden", "--timeout", "300s")
        assert result.code == 0, result
        assert env.apply(EXAMPLE, "create", "--timeout", "300s").code == 0
        assert file.exists()


@pytest.mark.soak
def test_taken_port_of_cluster_is_named_and_waited_for(garden: LocalEnvironment) -> None:
    database = Home(garden.home).database
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT body FROM log WHERE \"table\" LIKE 'dockerclusters%' ORDER BY revision")
        port = json.loads(rows.fetchall()[-1][0])["spec"]["controlPlaneEndpoint"]["port"]
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        garden.up(*FLAGS)
        condition = until(garden, lambda item: item.status == "False")
        assert f"does not run: cannot listen on 127.0.0.1:{port}: the port is in use; it" in condition.message
        assert "it starts automatically when the address is free" in condition.message
    until(garden, lambda item: item.status == "True")
    assert garden.espalier("down").code == 0
