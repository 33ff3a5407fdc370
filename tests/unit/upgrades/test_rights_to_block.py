"""Rights that admission plugin OwnerReferencesPermissionEnforcement asks for, where an owner waits for what it owns."""

from __future__ import annotations

import pytest

from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.clusters.design.provider import infrastructures
from espalier.kube.rbac import Rights
from espalier.providers.registry import PROVIDERS
from espalier.shoots.etcd.setup import RIGHTS
from espalier.shoots.garden.roles import in_project
from espalier.shoots.local_provider import setup as local_provider
from espalier.shoots.machine_controller import setup as machine_controller
from espalier.upgrades import rbac
from tests.support.gardens.gardenlet_scopes import STARTED, shoot


def finalized(rights: Rights) -> set[str]:
    """The kinds on whose finalizers there is a right."""
    return {
        kind.plural
        for right in (*rights.everywhere, *rights.system)
        if (right.subresource, right.verbs) == ("finalizers", ("update",))
        for kind in right.resources
    }


@pytest.mark.parametrize(("front_end", "more"), [(FrontEnd.ANNOTATIONS, set()), (FrontEnd.HOOKS, {"machines"})])
def test_owners_of_upgrades_may_be_blocked(front_end: FrontEnd, more: set[str]) -> None:
    owners = {"kubeadmcontrolplanes", "machinedeployments", "controlplaneupgrades", "machinedeploymentupgrades"}
    assert finalized(rbac.rights(infrastructures(PROVIDERS), front_end)) == owners | more


@pytest.mark.parametrize(("seed", "names"), [("a", [("apple",)]), ("b", [])])
def test_a_shoot_may_be_blocked_by_its_shoot_state(seed: str, names: list[tuple[str, ...]]) -> None:
    moving = shoot("b", "a", **{metadata_keys.OWNERSHIP: STARTED.render()})
    granted = in_project(seed, [moving])
    blocking = [right for right in granted if (right.subresource, right.verbs) == ("finalizers", ("update",))]
    assert [right.names for right in blocking] == names
    assert all(right.resources == (Shoot.resource,) for right in blocking)


def test_an_etcd_may_be_blocked_by_what_it_owns() -> None:
    assert finalized(RIGHTS) == {"etcds"}


def test_extensions_may_block_the_owners_in_a_seed() -> None:
    machines = {"machinedeployments", "machinesets"}
    assert finalized(local_provider.RIGHTS) == {"operatingsystemconfigs", "controlplanes", *machines}
    assert finalized(machine_controller.RIGHTS) == machines
