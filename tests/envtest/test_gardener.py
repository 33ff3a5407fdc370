"""A garden whose API server is Gardener's own judges our objects."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from espalier.api import core
from espalier.api.gardener import GARDEN_KINDS
from espalier.api.gardener.garden.differences import CASES, UNREAD_FIELDS, Case
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.metadata_keys import SECRET_DIGESTS
from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.cli.local.environment.garden.gardens import RESOURCES
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, KubeError
from espalier.kube.transports.wire import Request
from espalier.shoots.gardener_api.transport import GardenTransport
from espalier.shoots.secrets import digests
from espalier.shoots.secrets import names as secret_names
from tests.support.environments.control_plane import find_assets, why_no_assets
from tests.support.environments.gardener import RealGarden, real_garden, why_no_gardener
from tests.support.gardens.demo_objects import objects_of_a_garden
from tests.support.gardens.gardener_fields import undeclared
from tests.support.gardens.judged_objects import HOME, judged, objects, prepare
from tests.support.left_files import folder_of_a_fixture

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

STATUSES = ("BackupBucket", "BackupEntry", "Seed", "Shoot", "Project")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def garden(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealGarden]:
    """Gardener's API server for the tests of this module."""
    binaries = find_assets()
    if lacking := why_no_gardener() or ("" if binaries else why_no_assets()):
        pytest.skip(lacking)
    assert binaries is not None
    with folder_of_a_fixture(tmp_path_factory, "gardener") as folder:
        async with real_garden(folder, binaries) as made:
            yield made


@pytest.fixture(scope="module")
def demo() -> list[Tree]:
    """All objects of `espalier demo garden`, with a shoot."""
    return objects_of_a_garden()


async def test_the_demo_garden_is_accepted(demo: list[Tree], garden: RealGarden) -> None:
    client = Client(GardenTransport(garden.client.transport), user_agent="espalier-cli")
    refused = []
    for body in demo:
        try:
            await client.create(RESOURCES[body["kind"]], body)
        except AlreadyExists:
            assert body["kind"] == core.NAMESPACE.kind
        except KubeError as error:
            refused.append(f"{body['kind']} {body['metadata']['name']}: {error}")
    assert refused == []
    assert {"Project", "CloudProfile", "CredentialsBinding", "ShootState", *STATUSES} <= {item["kind"] for item in demo}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def prepared(garden: RealGarden) -> Client:
    """A client of the garden, in which there is what judged objects name."""
    client = Client(GardenTransport(garden.client.transport), user_agent="espalier-cli")
    await prepare(client)
    return client


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.what}")
async def test_gardener_judges_as_its_page_says(case: Case, prepared: Client) -> None:
    assert ((await judged(prepared, case)) == "") is case.gardener


async def test_gardener_accepts_what_is_changed(prepared: Client) -> None:
    refusals = [await judged(prepared, Case(kind, "", {}, True, True)) for kind in await objects(prepared)]
    assert refusals == [""] * len(refusals)


async def test_fields_that_gardener_alone_has_are_listed(garden: RealGarden) -> None:
    answer = await garden.client.raw(Request("GET", "/openapi/v3/apis/core.gardener.cloud/v1beta1"))
    schemas = json_trees.decode(answer.body)["components"]["schemas"]
    kinds = {kind.resource.kind: kind for kind in GARDEN_KINDS}
    assert {kind: tuple(undeclared(kinds[kind], schemas)) for kind in UNREAD_FIELDS} == UNREAD_FIELDS


async def test_a_shoot_keeps_digests_of_its_secrets(prepared: Client) -> None:
    """As its gardenlet reports them: Gardener has no such annotation."""
    reported = digests.reported({name: {"key": name.encode()} for name in secret_names.PERSISTED})
    patch: Tree = {"metadata": {"annotations": {SECRET_DIGESTS: reported}}}
    await prepared.patch(Shoot.resource, "plum", HOME, patch=patch, type=PatchType.MERGE)
    shoot = await prepared.get(Shoot.resource, "plum", HOME)
    assert shoot.metadata.annotations[SECRET_DIGESTS] == reported
