"""Every command that reads clusters, on one that was taken over from EKS Anywhere."""

from __future__ import annotations

import asyncio
import shlex
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.clusters.plans.dashboard_plans import plan_of
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.printing import output
from espalier.cli.main import program
from espalier.dashboard.observation import ADVICE, Observation
from espalier.dashboard.pages import Pages, Place
from espalier.kube.client import Client
from espalier.kube.discovery import Discovery
from espalier.runtime.clock import LoopClock
from tests.support.command_line import shown
from tests.support.environments.managed_environment import GARDEN
from tests.support.environments.of_eks_anywhere import EPOCH, adopter, on_site

pytestmark = pytest.mark.embedded

COLUMNS = 80
READING: dict[str, tuple[str, ...]] = {
    "adopt plan": ("default/garden", "adopted"),
    "adopt plan garden": ("criSocket", "adopted"),
    "describe cluster garden": ("KubeadmControlPlane", "MachineDeployment", "garden-md-0"),
    "generate support-bundle garden --output {folder}/bundle.tar.gz": ("bundle.tar.gz",),
    "get cluster garden": ("garden",),
    "get clusters -A": ("garden", "laptop"),
    "get clusters -A -o wide": ("garden",),
    "get clusters -A -o yaml": ("kind: Cluster", "name: garden"),
    "kubeconfig garden": ("kind: Config", "client-certificate-data"),
    "plan --manager -A": ("Cluster default/garden", "Nothing would change", "→ garden"),
    "renew certificates garden --dry-run server": ("kubeconfig of the", "authority of etcd"),
    "top": ("default/garden", "3/3"),
    "top -o wide": ("default/garden", "v0.26.0"),
    "top -o json": ('"wanted": 3',),
    "upgrade plan management-components": ("Cluster API",),
    "upgrades list": ("No in-place upgrades found",),
}
"""Command lines, and words of their output."""
CODES = {"plan --manager -A": 1}
"""Exit codes that are not 0: a plan has 1 where something would be written, at once or with the next change."""
OTHERS = """
adopt apply
adopt undo
assets build
assets list
assets prune
check-images
completion
create cluster
dashboard
delete cluster
demo
down
download images
etcd-agent copy
etcd-agent list
etcd-agent restore
etcd-agent run
etcd-agent show
etcd-agent verify
etcd-guard
garden
gardenlet
generate clusterconfig
generate grafana-dashboard
generate hardware
generate objects
generate prometheus-rules
generate tinkerbelltemplateconfig
generate vsphere-privileges
image build
image push
import images
list images
manager
manifests
move
nodes crash
nodes list
nodes logs
nodes shell
releases import
releases list
releases show
rollout pause
rollout restart
rollout resume
rollout undo
seeds evacuate
seeds list
shoots describe
shoots events
shoots flow
shoots list
shoots migrate
shoots plan
status
up
upgrade cluster
upgrade management-components
upgrades describe
upgrades retry
validate
version
"""
"""Commands that change something, read nothing of a cluster, or need an upgrade; pages of the dashboard are below."""


def test_each_command_is_read_here_or_named() -> None:
    contexts = [context for context in shown() if not isinstance(context.command, click.Group)]
    names = {context.command_path.removeprefix("espalier ") for context in contexts}
    others = set(OTHERS.strip().splitlines())
    read = {name for name in names for line in READING if f"{line} ".startswith(f"{name} ")}
    assert others | read == names
    assert not others & read


async def call(line: str) -> int:
    """Run a command in this loop, as its command line says; its exit code."""
    context = click.Context(program, info_name="espalier", **program.context_settings)
    rest = shlex.split(line)
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        is_group = isinstance(command, click.Group)
        context = click.Context(command, context, name) if is_group else command.make_context(name, rest, context)
    callback: Any = context.command.callback
    return await callback(**context.params) or 0


@pytest.mark.parametrize("line", READING)
def test_command_reads_an_adopted_cluster(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def story(client: Client, _store: MemoryStore) -> None:
        @asynccontextmanager
        async def connect(flag: flags.Connection, *_transport: object) -> AsyncIterator[connection.Connected]:
            yield connection.Connected(client, flag.namespace or GARDEN.namespace)

        monkeypatch.setattr(connection, "connect", connect)
        monkeypatch.setattr(output, "width", lambda *_: COLUMNS)
        monkeypatch.setenv("ESPALIER_HOME", str(tmp_path / "home"))
        await adopter(client, stops=True).apply(None)
        capsys.readouterr()
        assert await call(line.format(folder=tmp_path)) == CODES.get(line, 0)
        told = capsys.readouterr()
        text = told.out + told.err
        assert [word for word in READING[line] if word not in text] == [], text
        assert "Traceback" not in text
        if not {"yaml", "json", "kubeconfig", "plan"} & set(line.split()):  # a plan has no tables
            assert [row for row in text.splitlines() if len(row) > COLUMNS and str(tmp_path) not in row] == []
        if "bundle" in line:
            with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
                names = archive.getnames()
            assert any("kubeadmcontrolplanes" in name for name in names), names
            assert any("machinedeployments" in name for name in names), names

    on_site(story)


def test_dashboard_shows_an_adopted_cluster() -> None:
    async def story(client: Client, _store: MemoryStore) -> None:
        await adopter(client, stops=True).apply(None)
        observation = Observation(client, LoopClock(EPOCH), (), await Discovery(client).resources(), ADVICE)
        pages = Pages(observation, plan_of, Place("/", "server"))
        async with pages.running():
            await asyncio.sleep(10)
            assert "garden" in pages._fleet.page()
            async with pages._clusters.use(GARDEN) as view:
                await view.wait_filled()
                await asyncio.sleep(30)
                page = view.page()
        assert view.absence == ""
        for word in ("KubeadmControlPlane", "garden-md-0", "DockerMachine"):
            assert word in page
        assert page.count('class="state') >= 3

    on_site(story)
