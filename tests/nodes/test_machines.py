"""Machines as containers, by Cluster API's contract: the provider alone, on the embedded API server."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from espalier.api.resource import Key
from espalier.apiserver.storage.store import MemoryStore
from espalier.assets.cache import assets_folder, is_finished
from espalier.providers.docker.cluster_api import DockerCluster, DockerMachine
from espalier.realnodes.nspawn import container
from espalier.realnodes.nspawn.clusters import CARRIED, CILIUM_MISSING
from espalier.realnodes.nspawn.setup import remove_everything
from espalier.realnodes.nspawn.system import cgroups, processes
from espalier.realnodes.nspawn.system.state import State
from tests.support.environments.footprint import Footprint, footprint
from tests.support.environments.node_provider import ADDRESSES, VERSION, is_provisioned, provider, ready, says
from tests.support.waiting import eventually

GOOD = b"""\
## template: jinja
#cloud-config
write_files:
- path: /run/cluster-api/placeholder
  content: ""
- path: /etc/greeting
  owner: root:root
  permissions: '0640'
  content: hello {{ ds.meta_data.local_hostname }}
users:
- name: gardener
  shell: /bin/sh
runcmd:
- id gardener
- echo success > /run/cluster-api/bootstrap-success.complete
"""
CILIUM = Path(__file__).parents[2] / "examples" / "docker-cilium.yaml"
ONLY_V2 = """\
set -e
mount --make-rprivate /
umount --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec "$@"
"""
"""Runs a command where only cgroup v2 is mounted; the machine's other mounts stay as they are."""
BAD = b"#cloud-config\nruncmd:\n- echo watering; echo the well is dry >&2; exit 3\n"


def root_file_system() -> Path | None:
    results = [home for home in assets_folder().glob("node-root-*") if is_finished(home)]
    return max(results, key=lambda home: home.stat().st_mtime) / "rootfs" if results else None


def why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("systemd-nspawn") is None:
        return "needs systemd-nspawn (package systemd-container)"
    return "" if root_file_system() else "needs a node's root file system: espalier assets build node-root"


pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@dataclass(frozen=True)
class Debian:
    """A base without Kubernetes: what its nodes run is all in their bootstrap data."""

    lower: str
    version = VERSION.removeprefix("v")
    images: dict[str, str]
    store: Path

    def clone_store(self, target: Path) -> None:
        target.mkdir()


class Bases:
    """Only of one version."""

    def find(self, version: str) -> Debian:
        if version != Debian.version:
            raise LookupError(f"there is no base for nodes of Kubernetes {version}")
        return Debian(str(root_file_system()), {}, Path("/nonexistent"))

    def all(self) -> list[Debian]:
        return []


@pytest.fixture
async def before(tmp_path: Path) -> AsyncIterator[Footprint]:
    """The machine before a test; whatever a failed one leaves is taken away after it."""
    yield footprint(tmp_path)
    await remove_everything(State(tmp_path / "nodes"))


async def test_machine_becomes_a_node_and_leaves_nothing(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore(), Bases()) as env:
        await env.make_cluster()
        await env.make_machine("garden-a", GOOD)
        await env.until(DockerMachine.resource, "garden-a", is_provisioned)
        value = env.cache(DockerMachine.resource).get(Key("default", "garden-a"))
        assert value is not None
        record, _ = env.node("garden-a")
        assert value.tree["spec"]["providerID"] == "docker:////garden-a"
        assert value.tree["status"]["addresses"] == [
            {"type": "InternalIP", "address": record.address},
            {"type": "Hostname", "address": "garden-a"},
        ]
        assert await env.inside("garden-a", "cat", "/etc/greeting") == "hello garden-a"
        assert await env.inside("garden-a", "stat", "-c", "%a %U", "/etc/greeting") == "640 root\n"
        assert "gardener" in await env.inside("garden-a", "getent", "passwd", "gardener")
        assert (await env.inside("garden-a", "hostname")).strip() == "garden-a"
        assert footprint(tmp_path) != before
        await env.delete_machine("garden-a")
        await env.delete_cluster()
        assert footprint(tmp_path) == before


async def test_nodes_reach_each_other_by_address_and_host(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore(), Bases()) as env:
        await env.make_cluster()
        for name in ("garden-a", "garden-b"):
            await env.make_machine(name, GOOD)
        for name in ("garden-a", "garden-b"):
            await env.until(DockerMachine.resource, name, is_provisioned)
        other, _ = env.node("garden-b")
        for address in (other.address, str(ADDRESSES.bridge)):
            await env.inside("garden-a", "ping", "-c", "1", "-W", "5", address)


async def test_failed_bootstrap_shows_its_last_output(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore(), Bases()) as env:
        await env.make_cluster()
        await env.make_machine("garden-a", BAD)
        await env.until(DockerMachine.resource, "garden-a", says("BootstrapFailed"))
        value = env.cache(DockerMachine.resource).get(Key("default", "garden-a"))
        assert ready(value)["message"] == ("the bootstrap data failed; their last lines:\nwatering\nthe well is dry")
        await env.delete_machine("garden-a")
        await env.delete_cluster()
        assert footprint(tmp_path) == before


async def test_nodes_outlive_their_provider_and_are_adopted(tmp_path: Path, before: Footprint) -> None:
    store = MemoryStore()
    async with provider(tmp_path / "nodes", store, Bases()) as env:
        await env.make_cluster()
        await env.make_machine("garden-a", GOOD)
        await env.until(DockerMachine.resource, "garden-a", is_provisioned)
        await env.make_machine("garden-b", GOOD)
        await env.until(DockerMachine.resource, "garden-b", says("Bootstrapping"))
        booted, booting = env.node("garden-a"), env.node("garden-b")
    async with provider(tmp_path / "nodes", store, Bases()) as env:
        await env.until(DockerMachine.resource, "garden-b", is_provisioned)
        assert (env.node("garden-a"), env.node("garden-b")) == (booted, booting)
        for name in ("garden-a", "garden-b"):
            await env.delete_machine(name)
        await env.delete_cluster()
        assert footprint(tmp_path) == before


async def test_node_with_dead_processes_is_switched_on_again(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore(), Bases()) as env:
        await env.make_cluster()
        await env.make_machine("garden-a", GOOD)
        await env.until(DockerMachine.resource, "garden-a", is_provisioned)
        record, running = env.node("garden-a")
        await env.inside("garden-a", "touch", "/etc/planted")
        await cgroups.end_all(record.id)
        folder = env.state.folder(record.id)
        # It may run again before anybody saw it boot: then its condition was Ready all the time.
        await eventually(lambda: container.find(folder), lambda again: again not in (None, running))
        await env.until(DockerMachine.resource, "garden-a", says("Ready"))
        await env.inside("garden-a", "test", "-e", "/etc/planted")


async def test_node_without_its_object_is_removed_later(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore(), Bases()) as env:
        await env.make_cluster()
        await env.make_machine("garden-a", GOOD)
        await env.until(DockerMachine.resource, "garden-a", is_provisioned)
        _, running = env.node("garden-a")
    async with provider(tmp_path / "nodes", MemoryStore(), Bases()) as env:
        async with asyncio.timeout(60):
            await processes.ended(running.init)
        await env.make_cluster()
        await env.make_machine("garden-b", GOOD)
        await env.until(DockerMachine.resource, "garden-b", is_provisioned)
        assert [record.name for record in env.state.nodes()] == ["garden-b"]


async def test_environment_is_removed_without_its_provider(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore(), Bases()) as env:
        await env.make_cluster()
        await env.make_machine("garden-a", GOOD)
        await env.until(DockerMachine.resource, "garden-a", is_provisioned)
        _, running = env.node("garden-a")
    assert processes.identify(running.init.pid) == running.init
    await remove_everything(State(tmp_path / "nodes"))
    assert footprint(tmp_path) == before


async def test_nodes_live_on_cgroup_v2_alone() -> None:
    story = "test_machine_becomes_a_node_and_leaves_nothing"
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--mount", "sh", "-c", ONLY_V2, "sh", sys.executable, "-m", "pytest", f"{__file__}::{story}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert "1 passed" in output.decode(), output.decode()


async def test_second_environment_is_refused(tmp_path: Path, before: Footprint) -> None:
    async with (
        provider(tmp_path / "nodes", MemoryStore(), Bases()) as first,
        provider(tmp_path / "others", MemoryStore(), Bases()) as second,
    ):
        await first.make_cluster()
        await first.until(DockerCluster.resource, "garden", is_provisioned)
        while_first = footprint(tmp_path)
        await second.make_cluster(becomes=says("AddressesMissing"))
        value = second.cache(DockerCluster.resource).get(Key("default", "garden"))
        assert "another local environment runs real nodes here" in ready(value)["message"]
        assert not is_provisioned(value)
        assert footprint(tmp_path) == while_first
        await second.delete_cluster()
        await first.delete_cluster()
        assert footprint(tmp_path) == before


async def test_cilium_is_refused_with_the_missing_parts(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore(), Bases()) as env:
        asked, _ = yaml.safe_load_all(CILIUM.read_text())
        asked["metadata"]["namespace"] = "default"
        await env.make_cluster(manifest=asked)
        value = env.cache(DockerCluster.resource).get(Key("default", "garden"))
        assert value is not None
        carried = next(condition for condition in value.tree["status"]["conditions"] if condition["type"] == CARRIED)
        assert (carried["status"], carried["reason"], carried["message"]) == ("False", "CiliumMissing", CILIUM_MISSING)
        await env.delete_cluster()
