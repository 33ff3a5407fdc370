"""A local environment as the bootstrap: whose machines a management cluster gets, and what the environment is told."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from espalier.api.resource import Key
from espalier.cli.clusters import chosen_release
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure
from espalier.cli.local.environment import real
from espalier.cli.management.bootstraps import GivenBootstrap
from espalier.cli.management.components.components import Components
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.realnodes.management import deployments

KEY = Key("default", "oak")
REAL = Components(
    [{"kind": "Namespace", "metadata": {"name": "capi-system"}}], "example.com/manager:v1", chosen_release.own_version()
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    authority = Authority.create("oak", now=now)
    kubeconfig = Kubeconfig.of_cluster(
        "espalier",
        server="https://127.0.0.1:1",
        certificate_authority=authority.certificate,
        user="admin",
        credentials=authority.issue_client("admin", now=now),
    )
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.kubeconfig.write_bytes(kubeconfig.to_bytes())
    return home


async def test_environment_of_real_nodes_gets_a_kubeconfig(home: Home) -> None:
    REAL.write(home.components)
    bootstrap = GivenBootstrap(home.kubeconfig, home)
    assert bootstrap.components == REAL
    await bootstrap.start()
    home.images_made.write_text("")
    for content in (b"first", b"second"):
        await bootstrap.reach_machines(KEY, content)
        (file,) = home.managers.glob("*.kubeconfig")
        assert (file.name, file.read_bytes()) == ("default.oak.kubeconfig", content)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.managers.stat().st_mode) == 0o700
    assert "real nodes" in bootstrap.left()[0]


async def test_new_kubeconfig_replaces_the_former_at_once(home: Home) -> None:
    """The environment reads it at any time, and what a full disk leaves of it must be no file without a context."""
    REAL.write(home.components)
    bootstrap = GivenBootstrap(home.kubeconfig, home)
    await bootstrap.start()
    home.images_made.write_text("")
    await bootstrap.reach_machines(KEY, b"first")
    with home.kubeconfig_of_manager(*KEY).open("rb") as former:
        await bootstrap.reach_machines(KEY, b"second")
        assert former.read() == b"first"
    assert sorted(path.name for path in home.managers.iterdir()) == ["default.oak.kubeconfig", "images"]


async def test_images_that_can_not_be_made_are_said(home: Home) -> None:
    REAL.write(home.components)
    bootstrap = GivenBootstrap(home.kubeconfig, home)
    await bootstrap.start()
    home.images_made.write_text("no mirror of Debian is known")
    with pytest.raises(Failure, match="no mirror of Debian is known"):
        await bootstrap.reach_machines(KEY, b"content")
    with pytest.raises(Failure, match="the bootstrap has ended"):  # it would make them again
        await bootstrap.reach_machines(KEY, b"content")


async def test_environment_of_simulated_machines_gets_none(home: Home) -> None:
    bootstrap = GivenBootstrap(home.kubeconfig, home)
    assert bootstrap.components is None
    await bootstrap.reach_machines(KEY, b"content")
    assert not home.managers.exists()


def test_name_of_a_cluster_is_one_file(home: Home) -> None:
    for name in ("..", "../oak", "a/b"):
        assert home.kubeconfig_of_manager("default", name).parent == home.managers


def test_broken_file_of_components_says_what_to_do(home: Home) -> None:
    home.components.write_bytes(b'{"clusterApi": 7}')
    with pytest.raises(Failure, match=r"components\.json.*`espalier up --nodes real` writes it anew"):
        Components.read(home.components)


@pytest.mark.parametrize("release", ["", "v0.0.1"])
def test_images_of_another_release_are_refused(home: Home, release: str) -> None:
    """They can't reconcile what this program writes next."""
    msgspec.structs.replace(REAL, release=release).write(home.components)
    with pytest.raises(Failure) as refused:
        Components.read(home.components)
    message, own = str(refused.value), chosen_release.own_version()
    assert f"found the images of release {release or f'before {own}'}, allowed is {own}" in message
    assert f"`ESPALIER_HOME={home.root} espalier up --detach --nodes real`" in message


def test_own_images_of_an_environment_are_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (real, deployments):
        monkeypatch.setattr(module, "MANAGERS", ())
    made = real.components_of(home.root)
    made.write(home.components)
    assert Components.read(home.components) == made
