"""A management cluster creates another one, with the components of providers as files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from espalier.api.core import DEPLOYMENT, NODE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.management import record as records
from tests.support.environments import component_folders
from tests.support.environments.environment import LocalEnvironment
from tests.support.environments.managed_clusters import EXAMPLES
from tests.support.killed_commands import killed_at

pytestmark = pytest.mark.embedded

MANIFEST = EXAMPLES / "management.yaml"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[LocalEnvironment]:
    """A machine; what runs there in the end is stopped."""
    home = tmp_path / "home"
    home.mkdir()
    machine = LocalEnvironment(home)
    yield machine
    for folder in home.glob("management-clusters/*"):
        machine.espalier("down", "--delete-data", ESPALIER_HOME=str(folder))


@pytest.mark.demand(L54="by an existing management cluster, with components of providers from files")
def test_management_cluster_makes_and_deletes_another(machine: LocalEnvironment, tmp_path: Path) -> None:
    """Its creation is killed, and the bootstrap is upgraded in the middle."""
    assert machine.espalier("create", "cluster", "-f", str(MANIFEST)).code == 0
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    folder = component_folders.written(tmp_path / "components")
    by = ("--bootstrap-kubeconfig", str(kubeconfig))
    second = tmp_path / "second.yaml"
    second.write_text(MANIFEST.read_text().replace("name: management", "name: second"))
    words = ("create", "cluster", "-f", str(second), *by, "--components", str(folder))
    listed = machine.espalier(*words, "--dry-run=server", COLUMNS="80")
    assert listed.code == 0, listed.err
    assert "3. install Cluster API in cluster second" in listed.out
    killed_at(machine, words, "  move cluster")
    upgraded = machine.espalier("upgrade", "management-components", "management")
    assert upgraded.code == 0, upgraded.err
    made = machine.espalier(*words, COLUMNS="80")
    assert made.code == 0, made.err
    own = machine.home / "second" / "second-eks-a-cluster.kubeconfig"
    asyncio.run(holds(kubeconfig, own))
    deleted = machine.espalier("delete", "cluster", "second", *by)
    assert deleted.code == 0, deleted.err
    assert not own.exists()


async def holds(first: Path, second: Path) -> None:
    """The second one manages itself, the first one has nothing of it."""
    async with connection.connect(flags.Connection(second)) as connected:
        client = connected.client
        assert [item.name for item in (await client.list(Cluster.resource)).items] == ["second"]
        assert await records.managed(client) == (Key("default", "second"), records.RUNNING)
        assert len((await client.list(NODE)).items) == 3
        assert await client.get(DEPLOYMENT, "espalier-controller-manager", SYSTEM_NAMESPACE)
    async with connection.connect(flags.Connection(first)) as connected:
        client = connected.client
        assert [item.name for item in (await client.list(Cluster.resource)).items] == ["management"]
        assert await records.of_bootstrap(client, Key("default", "second")) is None
