"""`espalier gardenlet`: which kubeconfig of the garden it starts with."""

from __future__ import annotations

import pytest

from espalier.cli.kit.failures import Failure
from espalier.cli.programs.gardenlet import check_user
from espalier.kube.transports.wire import ADMIN, User
from tests.support.servers.embedded_server import client_of, new_server

EAST = "gardener.cloud:system:seed:east"
SEEDS = ("gardener.cloud:system:seeds",)


@pytest.mark.parametrize(
    ("user", "told"),
    [
        (User(EAST, SEEDS), f"found user {EAST} of groups gardener.cloud:system:seeds"),
        (User("gardener.cloud:system:seed:west", ("people",)), "of groups people"),
    ],
)
async def test_gardenlet_of_another_seed_is_refused(user: User, told: str) -> None:
    server = new_server()
    await server.start()
    with pytest.raises(Failure) as refused:
        await check_user(client_of(server, user), "west")
    assert told in str(refused.value)
    assert "--seed west: user gardener.cloud:system:seed:west of group gardener.cloud:system:seeds" in str(
        refused.value
    )


@pytest.mark.parametrize("user", [User("gardener.cloud:system:seed:west", SEEDS), ADMIN])
async def test_gardenlet_starts_with_its_own_user(user: User) -> None:
    server = new_server()
    await server.start()
    await check_user(client_of(server, user), "west")
