"""The layer between a container's command and the process that runs it; buckets that are folders."""

from __future__ import annotations

import asyncio
import os
import random
import shlex
from pathlib import Path
from typing import cast

import pytest

from espalier.api.resource import Key
from espalier.cli.kit.failures import Failure
from espalier.cli.local import demo_migration
from espalier.cli.local.environment.seed_processes.assembly import RealControlPlanes, version_of
from espalier.cli.local.environment.seed_processes.buckets import FolderBuckets, FolderLink
from espalier.cli.local.environment.seed_processes.mounts import Folder, Mounts
from espalier.cli.local.environment.seed_processes.process import run_process
from espalier.cli.local.environment.seed_programs.command_line import with_flags
from espalier.etcdbackup.stores.errors import Refused
from espalier.etcdbackup.stores.local import LocalStore
from espalier.runtime.clock import SystemClock
from espalier.shoots.extension import OperationFailed
from espalier.simulator.pods.runtimes.in_process import Container
from espalier.simulator.pods.runtimes.life import Life
from espalier.simulator.pods.runtimes.pod_network import PodNetwork
from tests.support.waiting import eventually


def test_paths_of_mounts_are_replaced_everywhere(tmp_path: Path) -> None:
    paths = ("/srv/ca", "/srv/ca-kubelet", "/run/etcd", "/var/etcd/data")
    mounts = Mounts({path: Folder(tmp_path) for path in paths}, Folder(tmp_path))
    here = {path: str(folder.path) for path, folder in mounts.folders.items()}
    assert mounts.here("--client-ca-file=/srv/ca/ca.crt") == f"--client-ca-file={here['/srv/ca']}/ca.crt"
    assert mounts.here("--kubelet-ca=/srv/ca-kubelet/ca.crt") == f"--kubelet-ca={here['/srv/ca-kubelet']}/ca.crt"
    assert mounts.here("unix:///run/etcd/client.sock") == f"unix://{here['/run/etcd']}/client.sock"
    assert mounts.here("data-dir: /var/etcd/data/new\n") == f"data-dir: {here['/var/etcd/data']}/new\n"
    for other in ("--etcd-prefix=/registry", "/srv/cats", "/run/etcd-main", "/home/run/etcd"):
        assert mounts.here(other) == other


def test_a_folder_goes_with_its_volume(tmp_path: Path) -> None:
    volume = Folder(tmp_path)
    (volume.path / "member").mkdir()
    del volume
    assert list(tmp_path.iterdir()) == []


def test_flags_are_replaced_in_place_or_added() -> None:
    command = ["run", "--listen=0.0.0.0:8080", "--epoch=1", "--", "etcd", "--listen=:1"]
    assert with_flags(command, {"listen": "127.0.0.1:0", "timing": "t"}) == [
        "run", "--listen=127.0.0.1:0", "--epoch=1", "--timing=t", "--", "etcd", "--listen=:1",
    ]  # fmt: skip


async def test_cut_off_bucket_is_unreadable_not_empty(tmp_path: Path) -> None:
    everywhere = tmp_path / "buckets"
    everywhere.mkdir()
    link = FolderLink("the network", tmp_path / "seen", everywhere)
    managed = FolderBuckets(link)
    await managed.ensure_bucket("file:///b", {})
    store = LocalStore(link.folder / "b" / "apple" / "1")
    await store.put("key", b"value")
    link.cut()
    with pytest.raises(Refused):
        await store.head("key")
    with pytest.raises(OperationFailed, match="no route"):
        await managed.delete_folder("file:///b", "apple", {})
    link.restore()
    assert (await store.read("key", most=10)).data == b"value"
    await managed.delete_folder("file:///b", "apple", {})
    assert list((everywhere / "b").iterdir()) == []


async def test_stores_of_other_seeds_use_the_own_network(tmp_path: Path) -> None:
    planes = RealControlPlanes(tmp_path, tmp_path, "1.36.3")
    link, other = planes.link_to_buckets("the network"), planes.link_to_buckets("another")
    connect = planes.connect(link)
    assert await connect("file:///") == ""
    link.cut()
    assert await connect("file:///") == "there is no such folder"
    assert await planes.connect(other)("file:///") == ""
    link.restore()
    assert await connect("file:///") == ""


@pytest.mark.parametrize("times", [2, 3, 6])
async def test_cancelled_container_leaves_no_process(tmp_path: Path, times: int) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    script = f"trap '' TERM; echo $$ >{shlex.quote(str(pid))}; while :; do sleep 60; done"
    running = asyncio.create_task(run_process(container(), ["/bin/sh", "-c", script]))
    number = int(await asyncio.to_thread(pid.read_text))
    for _ in range(times):
        running.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await running
    # Cancelled again while it starts, asyncio has killed it and not seen its end yet.
    await eventually(lambda: not exists(number))


def exists(process: int) -> bool:
    """True also for a process that has ended, and whose end nobody asked for."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def container() -> Container:
    """A container without a pod around it; its program has no use of its network."""
    return Container(
        *(Key("etcd-main-0", "shoot"), "uid", "etcd", "image", (), {}, {}, SystemClock(), random.Random(1)),
        *(cast(PodNetwork, None), Life("etcd"), lambda *_: None),
    )


async def test_a_program_that_is_no_kubernetes_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed is Kubernetes"):
        await version_of(Path("/bin/echo"))


async def test_demonstration_tells_how_programs_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/nowhere")
    with pytest.raises(Failure, match="espalier assets build tests"):
        await demo_migration.show(real=True)
