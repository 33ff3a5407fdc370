"""Bootstraps of management clusters that are refused, or fail."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.cli.kit import flags
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Exit, Failure
from espalier.cli.management import creating
from espalier.cli.management.bootstraps import GivenBootstrap, LocalBootstrap, Nodes
from espalier.cli.management.own_infrastructure import ManagementCluster, bootstrap_of
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.management.steps import Refused
from tests.support.environments.bootstraps import Quiet
from tests.support.environments.empty_api_servers import with_servers


def kubeconfig(path: Path, port: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    made = Kubeconfig.of_cluster(
        "laptop", server=f"https://127.0.0.1:{port}", certificate_authority=b"", user="u", credentials="t"
    )
    made.merge_into(path)
    return path


def test_local_environment_is_taken_as_bootstrap(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    same = kubeconfig(kubeconfig(home.kubeconfig, 1).with_name("copy"), 1)
    assert isinstance(bootstrap_of(same, home), GivenBootstrap)
    assert isinstance(bootstrap_of(kubeconfig(tmp_path / "other", 2), home), ManagementCluster)


@pytest.mark.parametrize(
    ("code", "expected"), [(0, None), (1, Exit.REFUSED), (3, Exit.UNREACHABLE), (4, Exit.TIMEOUT), (-9, Exit.REFUSED)]
)
def test_failed_bootstrap_exits_as_its_process_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, expected: Exit | None
) -> None:
    async def communicate() -> tuple[bytes, bytes]:
        return b"", b"a line\nerror: the reason\n"

    async def process(*_words: str, **_options: object) -> Any:
        return SimpleNamespace(communicate=communicate, returncode=code)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", process)
    bootstrap = LocalBootstrap(Home(tmp_path), Nodes())
    if expected is None:
        asyncio.run(bootstrap._espalier("up"))
        return
    with pytest.raises(Failure, match=r": the reason$") as failed:
        asyncio.run(bootstrap._espalier("up"))
    assert failed.value.exit is expected


@pytest.mark.parametrize(("has_bootstrap", "words"), [(True, "--nodes: found real"), (False, "already exists")])
def test_simulated_bootstrap_gets_no_real_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_bootstrap: bool, words: str
) -> None:
    """Whoever repeats the command with another flag would have simulated machines managed as real nodes."""
    monkeypatch.setenv("ESPALIER_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    home = Home(tmp_path).of_management_cluster("oak")
    home.clusters.mkdir(parents=True)
    home.want_bootstrap(wanted=has_bootstrap)
    started: list[tuple[str, ...]] = []

    async def start(_bootstrap: LocalBootstrap, *arguments: str) -> None:
        started.append(arguments)

    monkeypatch.setattr(LocalBootstrap, "_espalier", start)
    cluster: Any = SimpleNamespace(name="oak", namespace="default")
    made = creating._bootstrap(cluster, flags.Connection(), Nodes(is_real=True), None, dry_run=False)
    _, (wrong,) = asyncio.run(made)
    assert words in wrong
    assert not any("real" in arguments for arguments in started)


def test_bootstrap_without_a_record_creates_nothing() -> None:
    async def story(bootstrap: Client, _cluster: Client) -> None:
        asked: Any = SimpleNamespace(cluster={"spec": {}})
        with pytest.raises(Refused, match="it has no ConfigMap eksa-system/management-cluster"):
            await creating._run(asked, bootstrap, "", Path("kubeconfig"), {}, Quiet(), SimpleNamespace())  # type: ignore[arg-type]

    with_servers(story)
