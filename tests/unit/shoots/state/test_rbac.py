"""G18: no member of a project reads the state of its shoots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from espalier.api.core import CLUSTER_ROLE, CORE_EVENT, ROLE_BINDING, SECRET
from espalier.api.gardener import names
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import PersistedSecret, ShootState
from espalier.api.resource import Resource
from espalier.cli.install.garden_manifests import of_garden
from espalier.kube.errors import Forbidden
from espalier.kube.rbac import Right
from espalier.kube.transports.wire import User
from espalier.shoots.state import rbac
from tests.support.gardens.shoot_states import NAME, PROJECT, World, json_of, told
from tests.support.servers.embedded_server import client_of

ALICE = User("alice", ("system:authenticated",))
GARDENLET = User("gardener.cloud:system:seed:a", ("gardener.cloud:system:seeds",))


def revealing(rights: Iterable[Right]) -> list[Right]:
    """Rights that would show ShootStates: by name, or by a wildcard in group or kind. None may be for people."""
    state = ShootState.resource
    return [
        right
        for right in rights
        if any(
            resource.group in (state.group, "*") and resource.plural in (state.plural, "*")
            for resource in right.resources
        )
    ]


async def grant(world: World, user: User, namespace: str, role: str) -> None:
    """Bind a ClusterRole that `espalier manifests --of garden` has, as `docs/migration.md` says."""
    client, metadata = world.garden.client, {"name": user.name, "namespace": namespace}
    (tree,) = (item for item in of_garden("") if item["kind"] == "ClusterRole" and item["metadata"]["name"] == role)
    await client.create(CLUSTER_ROLE, tree)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name}
    await client.create(ROLE_BINDING, {"metadata": metadata, "roleRef": reference, "subjects": [subject]})


@pytest.mark.demand("G18")
@told
async def test_project_admin_sees_shoots_but_no_state(world: World) -> None:
    await world.set_state(json_of(500_000))
    async with world.syncing():
        pass
    await world.states().persist(await world.shoot(), [PersistedSecret(name="ca", data={"ca.key": "aw=="})], 1)
    await grant(world, ALICE, PROJECT, "gardener.cloud:system:project-member")
    alice = client_of(world.garden.server, ALICE)
    assert (await alice.get(Shoot.resource, NAME, PROJECT)).name == NAME
    assert (await alice.list(SECRET, PROJECT)).items == []
    await alice.list(CORE_EVENT, PROJECT)  # `espalier shoots events`
    for resource, namespace in ((ShootState.resource, PROJECT), (SECRET, names.STATE_NAMESPACE)):
        with pytest.raises(Forbidden):
            await alice.list(resource, namespace)
    with pytest.raises(Forbidden):
        await alice.get(ShootState.resource, NAME, PROJECT)
    with pytest.raises(Forbidden):
        await alice.delete(ShootState.resource, NAME, PROJECT)


@told
async def test_project_viewer_reads_shoots_only(world: World) -> None:
    await grant(world, ALICE, PROJECT, "gardener.cloud:system:project-viewer")
    alice = client_of(world.garden.server, ALICE)
    assert [shoot.name for shoot in (await alice.list(Shoot.resource, PROJECT)).items] == [NAME]
    await alice.list(CORE_EVENT, PROJECT)  # `espalier shoots events`
    for refused in (
        alice.list(SECRET, PROJECT),
        alice.delete(Shoot.resource, NAME, PROJECT),
        alice.list(Shoot.resource),
    ):
        with pytest.raises(Forbidden):
            await refused


@pytest.mark.demand("G18")
@pytest.mark.parametrize("role", [rbac.PROJECT_VIEWER, rbac.PROJECT_ADMIN])
def test_roles_for_people_reveal_no_state(role: Sequence[Right]) -> None:
    assert revealing(role) == []


@pytest.mark.parametrize(
    "right",
    [
        Right((ShootState.resource,), ("get",)),
        Right((Resource("*", "", "*", ""),), ("get",)),
        Right((Resource("core.gardener.cloud", "", "*", ""),), ("list",)),
        Right((Shoot.resource, ShootState.resource), ("*",)),
    ],
)
def test_rights_that_reveal_state_are_found(right: Right) -> None:
    assert revealing([right]) == [right]
