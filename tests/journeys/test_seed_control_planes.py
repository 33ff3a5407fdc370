"""The control plane of a shoot in seeds of this process: etcd, its agent and the API server run as containers."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from espalier.api.core import CONFIG_MAP, NAMESPACE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from espalier.api.etcd.calls import CopyOperationStatus, InitiateCopyOperation
from espalier.api.gardener.etcd import Etcd
from espalier.api.resource import Key
from espalier.cli.local.environment.seed_programs.agent import CallRefused
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound
from espalier.shoots.control_plane.programs import API_SERVER, CONTROLLER_MANAGER
from tests.support.etcd.seed_control_planes import Plane, on_seeds
from tests.support.gardens.seeds import SHOOT, is_ready

ETCD_POD = Key(SHOOT, "etcd-main-0")


def test_writes_survive_the_end_of_every_container() -> None:
    async def story(plane: Plane) -> None:
        await plane.start_etcd(1)
        await plane.start_api_server()
        await plane.note("first")

        plane.seed.kill(ETCD_POD, "etcd")
        await plane.until(plane.etcd_ready)
        await plane.until(plane.answers)
        assert await plane.notes() == ["first"]
        await plane.note("second")

        plane.seed.kill(ETCD_POD, "backup-restore")
        await plane.until(plane.answers)
        await plane.note("third")

        [pod] = await pods_of_api_server(plane)
        plane.seed.kill(pod, API_SERVER)
        await plane.until(plane.answers)
        [status] = (await plane.client.get(POD, pod.name, SHOOT)).tree["status"]["containerStatuses"]
        assert status["restartCount"] == 1
        assert await plane.notes() == ["first", "second", "third"]

        await plane.seed.destroy()
        await asyncio.sleep(3600)
        await plane.seed.start()
        await plane.until(plane.answers)
        assert await plane.notes() == ["first", "second", "third"]

    on_seeds(story, "a")


@pytest.mark.demand("G57")
def test_api_server_ends_and_returns_with_its_etcd() -> None:
    async def story(plane: Plane) -> None:
        await plane.start_etcd(1)
        await plane.start_api_server()
        await plane.note("first")
        await plane.client.patch(
            Etcd.resource, "etcd-main", SHOOT, patch={"spec": {"replicas": 0}}, type=PatchType.MERGE
        )
        [pod] = await pods_of_api_server(plane)

        async def has_ended() -> bool:
            result = plane.seed.workload.object(POD, pod)
            assert result is not None
            [status] = result.tree["status"]["containerStatuses"]
            return bool(status["restartCount"])

        await plane.until(has_ended)
        assert not await plane.answers()

        await plane.client.patch(
            Etcd.resource, "etcd-main", SHOOT, patch={"spec": {"replicas": 1}}, type=PatchType.MERGE
        )
        await plane.until(plane.answers)
        assert await plane.notes() == ["first"]

    on_seeds(story, "a")


@pytest.mark.demand("G57")
def test_controllers_are_unhealthy_without_api_server() -> None:
    async def story(plane: Plane) -> None:
        await plane.start_etcd(1)
        await plane.start_api_server()
        await plane.deploy(CONTROLLER_MANAGER)
        await plane.until(lambda: plane.has_ready(CONTROLLER_MANAGER, 1))
        await plane.scale(API_SERVER, 0)
        await plane.until(lambda: plane.has_ready(CONTROLLER_MANAGER, 0))
        await plane.scale(API_SERVER, 1)
        await plane.until(lambda: plane.has_ready(CONTROLLER_MANAGER, 1))

    on_seeds(story, "a")


@pytest.mark.demand(
    "G37", "G39", "G49", "G57", "G60", "G67", G1="with etcd and API server", G44="two API servers as witnesses"
)
def test_control_plane_moves_with_all_written_data() -> None:
    async def story(source: Plane, destination: Plane) -> None:
        await source.start_etcd(1)
        await source.start_api_server()
        await source.note("first")

        await source.scale(API_SERVER, 0)
        with pytest.raises(CallRefused, match="epoch: found 7, allowed is 1"):
            await source.call(SHOOT, "copyop/initiate", msgspec.json.encode(InitiateCopyOperation(epoch=7)), None)
        await source.call(SHOOT, "copyop/initiate", msgspec.json.encode(InitiateCopyOperation(epoch=1)), None)

        async def handed_over() -> bool:
            answer = await source.call(SHOOT, "copyop/status", b"", None)
            result = msgspec.json.decode(answer, type=CopyOperationStatus).copy_operation
            return result is not None and result.status == "Ready"

        await source.until(handed_over)
        assert not is_ready(source.seed, "etcd-main-0")
        await source.delete_etcd()

        await destination.start_etcd(2, copy=True)
        await destination.delete_etcd()
        await destination.start_etcd(2)
        await destination.start_api_server()
        assert await destination.notes() == ["first"]
        assert not await source.answers()

    on_seeds(story, "a", "b")


def test_data_of_a_deleted_claim_move_with_the_shoot() -> None:
    async def story(source: Plane, destination: Plane) -> None:
        await source.start_etcd(1)
        await source.start_api_server()
        await source.client.delete(PERSISTENT_VOLUME_CLAIM, "etcd-main-etcd-main-0", SHOOT)
        await source.note("first")
        await source.scale(API_SERVER, 0)
        await source.call(SHOOT, "copyop/initiate", msgspec.json.encode(InitiateCopyOperation(epoch=1)), None)
        await destination.start_etcd(2, copy=True)
        await destination.delete_etcd()
        await destination.start_etcd(2)
        await destination.start_api_server()
        assert await destination.notes() == ["first"]

    on_seeds(story, "a", "b")


def test_etcd_of_a_deleted_claim_has_its_backups() -> None:
    async def story(plane: Plane) -> None:
        await plane.start_etcd(1)
        await plane.start_api_server()
        await plane.note("first")
        [before] = (await plane.client.list(PERSISTENT_VOLUME_CLAIM, SHOOT)).items
        await plane.client.delete(PERSISTENT_VOLUME_CLAIM, before.name, SHOOT)
        await asyncio.sleep(400)  # until a delta snapshot has it
        await plane.client.delete(POD, "etcd-main-0", SHOOT)
        await asyncio.sleep(10)
        await plane.until(plane.answers)
        [after] = (await plane.client.list(PERSISTENT_VOLUME_CLAIM, SHOOT)).items
        assert after.metadata.uid != before.metadata.uid
        assert await plane.notes() == ["first"]

    on_seeds(story, "a")


@pytest.mark.demand("G2", "G53", G65="seed anew")
def test_waiting_destination_takes_powerless_source() -> None:
    async def story(source: Plane, destination: Plane) -> None:
        await source.start_etcd(1)
        await source.start_api_server()
        await source.note("first")
        await asyncio.sleep(400)  # until a delta snapshot has it
        await source.seed.destroy()

        await destination.start_etcd(2, copy=True)
        await destination.delete_etcd()
        await destination.start_etcd(2)
        await destination.start_api_server()
        assert await destination.notes() == ["first"]

        await source.seed.start()
        await asyncio.sleep(600)
        assert not await source.answers()
        assert not is_ready(source.seed, "etcd-main-0")

    on_seeds(story, "a", "b")


@pytest.mark.soak
def test_same_seed_of_chance_tells_same_story_again() -> None:
    async def story(plane: Plane) -> list[str]:
        await plane.start_etcd(1)
        await plane.start_api_server()
        await plane.note("first")
        plane.seed.kill(ETCD_POD, "etcd")
        await plane.until(plane.answers)
        results = [*(await plane.client.list(POD)).items, *(await plane.shoot.list(CONFIG_MAP)).items]
        return [str(item.tree) for item in results]

    first, again, other = (on_seeds(story, "a", seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


async def pods_of_api_server(plane: Plane) -> list[Key]:
    listed = await plane.client.list(POD, SHOOT, labels="role=apiserver")
    return [pod.key for pod in listed.items]


@pytest.mark.demand("G42")
def test_namespace_takes_its_control_plane_and_data() -> None:
    async def story(plane: Plane) -> None:
        await plane.start_etcd(1)
        await plane.start_api_server()
        await plane.client.delete(NAMESPACE, SHOOT)

        async def is_gone() -> bool:
            try:
                await plane.client.get(NAMESPACE, SHOOT)
            except NotFound:
                return True
            return False

        await plane.until(is_gone)
        assert not (await plane.client.list(POD)).items
        assert not (await plane.client.list(PERSISTENT_VOLUME)).items

    on_seeds(story, "a")
