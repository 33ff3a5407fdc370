"""Control planes of real programs: etcd, kube-apiserver and kube-controller-manager as processes of this machine."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from espalier.api.etcd.timing import Timing
from espalier.api.gardener import images
from espalier.cli.backups import backup_reads, store_connections
from espalier.cli.local.environment.seed_processes.buckets import FolderBuckets, FolderLink
from espalier.cli.local.environment.seed_processes.etcd import EtcdProcesses
from espalier.cli.local.environment.seed_processes.kubernetes import KubernetesProcesses
from espalier.etcdbackup.agent.backups import Settings as BackupSettings
from espalier.etcdbackup.stores.local import LocalStore
from espalier.shoots.gardenlet.context import Connect, ReadBackup
from espalier.shoots.local_provider.backups import Stores
from espalier.simulator.connections import Link
from espalier.simulator.pods.runtimes.in_process import InProcessProgram

VERSION_SECONDS = 30.0


class RealControlPlanes:
    """See `ControlPlanes`. Schedulers are idle: nothing would run the pods that they place."""

    def __init__(self, home: Path, programs: Path, version: str, etcd: Path | None = None) -> None:
        """`programs` is a folder with `environment.programs.CONTROL_PLANE_PROGRAMS`, `version` that of Kubernetes.

        `etcd` runs instead of the one in there.
        """
        self.version = version
        self._home = home
        self._programs = programs
        self._etcd = etcd or programs / "etcd"
        self._buckets = home / "buckets"
        self._buckets.mkdir()
        self._seeds = 0

    @classmethod
    @asynccontextmanager
    async def with_programs(cls, programs: Path, *, etcd: Path | None = None) -> AsyncIterator[RealControlPlanes]:
        """Control planes with all state in a temporary folder."""
        version = await version_of(programs / "kube-apiserver")
        with tempfile.TemporaryDirectory(prefix="espalier-", ignore_cleanup_errors=True) as home:
            yield cls(Path(home), programs, version, etcd)

    def link_to_buckets(self, name: str) -> Link:
        """See `ControlPlanes`."""
        self._seeds += 1
        return FolderLink(name, self._home / f"buckets-{self._seeds}", self._buckets)

    def programs(self, bucket: Link, timing: Timing, backups: BackupSettings) -> Mapping[str, InProcessProgram]:
        """See `ControlPlanes`."""
        etcd = EtcdProcesses(self._home, self._etcd, _folder_link(bucket).folder, backups.schedule)
        kubernetes = KubernetesProcesses(self._home, self._programs, f"v{self.version}")
        return {
            images.program(images.ETCD): etcd.run_etcd,
            images.program(images.AGENT): etcd.run_agent,
            images.program(images.KUBE_APISERVER): kubernetes.run_api_server,
            images.program(images.KUBE_CONTROLLER_MANAGER): kubernetes.run_controller_manager,
        }

    def stores(self, bucket: Link) -> Stores:
        """See `ControlPlanes`."""
        return FolderBuckets(_folder_link(bucket))

    def read_backup(self, bucket: Link) -> ReadBackup:
        """See `ControlPlanes`."""
        folder = _folder_link(bucket).folder
        return backup_reads.through(lambda url, _credentials: LocalStore(folder / url.removeprefix("file:///")))

    def connect(self, bucket: Link) -> Connect:
        """See `ControlPlanes`."""
        folder = _folder_link(bucket).folder

        async def connect(place: str) -> str:
            return await store_connections.to_folder(folder / place.removeprefix("file:///"))

        return connect


def _folder_link(bucket: Link) -> FolderLink:
    """The result of `link_to_buckets`."""
    assert isinstance(bucket, FolderLink)  # noqa: S101 - the garden has no other
    return bucket


async def version_of(program: Path) -> str:
    """The version of a Kubernetes program, such as `1.36.3`. Raises `OSError`, `ValueError`, `TimeoutError`."""
    process = await asyncio.create_subprocess_exec(program, "--version", stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(VERSION_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()  # unread output would block `wait`
    name, _, version = output.decode(errors="replace").strip().rpartition(" v")
    if name != "Kubernetes":
        raise ValueError(f"{program} --version: found {output[:100]!r}, allowed is Kubernetes vVERSION")
    return version
