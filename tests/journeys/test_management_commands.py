"""`espalier create cluster` of a management cluster, as it is called: on a machine on which nothing runs."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.environments.environment import CommandResult, LocalEnvironment
from tests.support.environments.managed_clusters import EXAMPLES

pytestmark = pytest.mark.embedded

MANIFEST = EXAMPLES / "management.yaml"
WORKLOAD = (EXAMPLES / "docker.yaml").read_text().replace("name: laptop", "name: management")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[LocalEnvironment]:
    """A machine; what runs there in the end is stopped."""
    home = tmp_path / "home"
    home.mkdir()
    machine = LocalEnvironment(home)
    yield machine
    for folder in home.glob("management-clusters/*"):
        machine.espalier("down", "--delete-data", ESPALIER_HOME=str(folder))


def folder_of(machine: LocalEnvironment) -> Path:
    return machine.home / "management-clusters" / "management"


def in_one_line(told: CommandResult) -> str:
    return " ".join(told.err.split())


def test_a_management_cluster_is_created_from_nothing(machine: LocalEnvironment) -> None:
    listed = machine.espalier("create", "cluster", "-f", str(MANIFEST), "--dry-run=server")
    assert (listed.code, listed.out.splitlines()[0]) == (0, "1. start the bootstrap")
    assert not folder_of(machine).exists()
    made = machine.espalier("create", "cluster", "-f", str(MANIFEST), COLUMNS="80")
    assert made.code == 0, made.err
    assert "cluster default/management manages itself" in made.err
    assert str(folder_of(machine)) in made.err
    kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    left = {one.name for one in folder_of(machine).iterdir()}
    assert left == {"bootstrap", "clusters", "world.lock", "world.log"}
    told = machine.espalier("create", "cluster", "-f", "-", stdin=WORKLOAD, KUBECONFIG=str(kubeconfig))
    assert told.code == 0, told.err
    again = machine.espalier("create", "cluster", "-f", str(MANIFEST))
    assert (again.code, "already exists, and manages itself" in in_one_line(again)) == (1, True)
