"""A machine's waits before anything is made on this host: no root is needed to report them."""

from __future__ import annotations

import asyncio
import shutil
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from espalier.api.resource import Key
from espalier.apiserver.storage.store import MemoryStore
from espalier.providers.docker.cluster_api import DockerMachine
from espalier.realnodes.nspawn import container, machines
from espalier.realnodes.nspawn.bases import NodeBase
from espalier.realnodes.nspawn.system import limits
from espalier.realnodes.nspawn.system.commands import CommandFailed
from tests.support.environments.node_provider import DATA, NoBases, Provider, provider, ready, says


@dataclass(frozen=True)
class Base:
    """One of which only the names of its images are read."""

    version: str
    images: Mapping[str, str]
    lower = ""
    store = Path("/nonexistent")

    def clone_store(self, target: Path) -> None:
        raise AssertionError(f"nothing should be made of it in {target}")


class AnyBase(NoBases):
    """One for each version, with images of these programs."""

    def __init__(self, *programs: str) -> None:
        self._images = {f"registry.k8s.io/{program}:1": "sha256:0" for program in programs}

    def find(self, version: str) -> NodeBase:
        return Base(version, self._images)


async def waits(env: Provider, reason: str) -> str:
    """The sentence with which a machine waits for this reason; nothing is written down of it then."""
    await env.until(DockerMachine.resource, "garden-a", says(reason))
    assert env.state.nodes() == []
    message: str = ready(env.cache(DockerMachine.resource).get(Key("default", "garden-a")))["message"]
    return message


async def test_version_without_a_base_says_what_to_build(tmp_path: Path) -> None:
    async with provider(tmp_path / "nodes", MemoryStore(), NoBases()) as env:
        await env.make_machine("garden-a", DATA, version="v1.33.1-eks-1-33-1")
        expected = "there is no base for nodes of Kubernetes 1.33.1: run `espalier assets build`"
        assert await waits(env, "BaseMissing") == expected


async def test_invalid_version_says_what_is_allowed(tmp_path: Path) -> None:
    async with provider(tmp_path / "nodes", MemoryStore(), AnyBase()) as env:
        await env.make_machine("garden-a", DATA, version="newest")
        assert await waits(env, "BaseMissing") == "Kubernetes version 'newest': allowed is a version like v1.35.4"


async def test_base_without_requested_image_is_named(
    tmp_path: Path,
) -> None:
    programs = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "pause")
    async with provider(tmp_path / "nodes", MemoryStore(), AnyBase(*programs)) as env:
        await env.make_machine("garden-a", DATA, version="v1.35.4-eks-1-35-1")
        assert await waits(env, "ImageMissing") == (
            "the base for nodes of Kubernetes 1.35.4 lacks images of coredns, etcd: "
            "run `espalier assets build node-base-1.35.4`"
        )


async def test_full_disk_is_told_before_any_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10 * 1024**3, 9 * 1024**3, 1024**3))
    async with provider(tmp_path / "nodes", MemoryStore(), AnyBase()) as env:
        await env.make_machine("garden-a", DATA)
        assert await waits(env, "DiskFull") == f"{tmp_path / 'nodes'} has 1.0 GiB left; a node needs 2"


async def test_limit_of_the_host_is_told_with_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "allowed_watchers", lambda: 16)
    async with provider(tmp_path / "nodes", MemoryStore(), AnyBase()) as env:
        await env.make_machine("garden-a", DATA)
        assert "sysctl -w fs.inotify.max_user_instances=" in await waits(env, "HostLimit")


async def test_node_with_an_unnoticed_boot_is_observed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """systemctl may wait for ever for the end of a boot that is over; nothing else would look at the node again."""

    async def wait_for_ever(*command: str, seconds: float) -> str:
        raise CommandFailed(command, -9, f"timed out after {seconds:g} s", timed_out=True)

    monkeypatch.setattr(machines, "run", wait_for_ever)
    monkeypatch.setattr(container, "inside", lambda _running, *command: command)
    running = cast(container.Running, SimpleNamespace(init=SimpleNamespace(alive=True)))
    async with asyncio.timeout(1):
        await machines._booted(running)
