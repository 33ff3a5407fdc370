"""Clusters whose management cluster is lost, restored from a folder: nothing rolls, nobody is active twice."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from espalier.api import conditions as condition_list
from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, MOVED_FROM_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound, Unreachable
from espalier.moving.copies import Refused, mark_of, record_of
from espalier.moving.objects import CLUSTER
from espalier.moving.record import Record
from tests.support.environments.managed_environment import CALM, GARDEN, NAMESPACE, ManagedEnvironment
from tests.support.environments.mortal_commands import is_active, mortal
from tests.support.environments.two_management_clusters import back_up, between, mover, objects, restoring, side
from tests.support.servers.clusterctl import node_versions
from tests.support.servers.dying import Dying

pytestmark = pytest.mark.embedded


def test_a_cluster_restored_elsewhere_is_settled(tmp_path: Path) -> None:
    """The drill: back up, lose the management cluster, restore."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        workload = await source.workload()
        nodes, before, ours = await node_versions(workload), await objects(source), source.written()
        present = await source.client.get(Cluster.resource, GARDEN.name, NAMESPACE)
        taken = await back_up(source.client, tmp_path / "saved")
        assert (source.written() - ours, list(taken.left_out)) == ({}, [])
        assert await source.client.get(Cluster.resource, GARDEN.name, NAMESPACE) == present
        await source.managing.stop()
        written = target.written()
        await (await restoring(tmp_path / "saved", target.client)).restore([GARDEN])
        await asyncio.sleep(CALM)
        assert target.written() - written == {}
        assert (await objects(target), await node_versions(workload)) == (before, nodes)
        restored = await target.client.get(Cluster.resource, GARDEN.name, NAMESPACE)
        assert MOVE_ANNOTATION not in restored.metadata.annotations
        status = restored.decode(Cluster).status
        assert (status.ready, condition_list.get(status.conditions, "Moving")) == (True, None)
        await target.change(kubernetesVersion="1.36")  # it is acted on
        await target.until_ready()

    between(story)


@pytest.mark.parametrize("writes", [pytest.param(1, marks=pytest.mark.soak), 9])
def test_a_restore_killed_after_some_writes_goes_on(tmp_path: Path, writes: int) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        before = await objects(source)
        await back_up(source.client, tmp_path / "saved")
        await source.managing.stop()
        written, dying = target.written(), Dying(writes)
        for _ in range(200):
            dying.is_dead = False
            try:
                await (await restoring(tmp_path / "saved", mortal(target, dying))).restore([GARDEN])
            except Unreachable:
                await asyncio.sleep(1)
                if is_active(target):  # once all is there
                    assert await objects(target) == before
            else:
                break
        assert dying.writes > 2 * len(before)
        await asyncio.sleep(CALM)
        assert (target.written() - written, await objects(target)) == ({}, before)
        await (await restoring(tmp_path / "saved", target.client)).restore([GARDEN])  # there is nothing left to do
        await asyncio.sleep(CALM)
        assert target.written() - written == {}

    between(story)


def test_a_restore_taken_back_leaves_nothing_there(tmp_path: Path) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        workload = await source.workload()
        nodes = await node_versions(workload)
        await back_up(source.client, tmp_path / "saved")
        await source.managing.stop()
        dying = Dying(40)
        with pytest.raises(Unreachable):
            await (await restoring(tmp_path / "saved", mortal(target, dying))).restore([GARDEN])
        await asyncio.sleep(CALM)
        half = await target.client.get(Cluster.resource, GARDEN.name, NAMESPACE)
        moving = condition_list.get(half.decode(Cluster).status.conditions, "Moving")
        assert moving is not None
        assert (moving.status, moving.reason) == ("True", "ClusterBeingRestored")
        await (await restoring(tmp_path / "saved", target.client)).take_back([GARDEN])
        await asyncio.sleep(CALM)
        assert (await objects(target), target.clusters.get(GARDEN)) == (set(), None)
        assert await node_versions(workload) == nodes
        again = await restoring(tmp_path / "saved", target.client)
        await again.restore([GARDEN])
        await target.until_ready()
        with pytest.raises(Refused, match="is restored, and acted on"):
            await again.take_back([GARDEN])

    between(story)


def test_cluster_not_noted_as_restored_is_idle(tmp_path: Path) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        await back_up(source.client, tmp_path / "saved")
        await source.managing.stop()
        restore = await restoring(tmp_path / "saved", target.client)

        def full(_: Key) -> None:
            raise OSError(28, "No space left on device")

        restore.finish = full
        with pytest.raises(OSError, match="No space"):
            await restore.restore([GARDEN])
        await asyncio.sleep(CALM)
        assert not is_active(target)
        await (await restoring(tmp_path / "saved", target.client)).restore([GARDEN])
        await target.until_ready()

    between(story)


def test_copies_of_a_move_are_not_taken_by_a_restore(tmp_path: Path) -> None:
    """A move was killed after it had copied; only its own source ends it."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        await back_up(source.client, tmp_path / "saved")
        dying = Dying(60)
        with pytest.raises(Unreachable):
            await (await mover(mortal(source, dying), mortal(target, dying))).move([GARDEN])
        half = await objects(target)
        assert half
        written = target.written()
        restore = await restoring(tmp_path / "saved", target.client)
        for act in (restore.check, restore.restore, restore.take_back):
            with pytest.raises(Refused, match=r"default/garden is being moved .* `espalier move --to-kubeconfig`"):
                await act([GARDEN])
        assert (target.written() - written, await objects(target)) == ({}, half)
        await (await mover(source.client, target.client)).move([GARDEN])
        await target.until_ready()
        restore = await restoring(tmp_path / "saved", target.client)
        with pytest.raises(Refused, match="default/garden is restored, and acted on"):
            await restore.take_back([GARDEN])

    between(story)


def test_interrupted_restore_is_named_by_commands(tmp_path: Path) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        await back_up(source.client, tmp_path / "saved")
        dying = Dying(80)
        with pytest.raises(Unreachable):
            await (await restoring(tmp_path / "saved", mortal(target, dying))).restore([GARDEN])
        sentence = r"Cluster default/garden is being restored .* `espalier move --from-folder`"
        away = await mover(target.client, source.client)
        for act in (away.move, away.take_back):
            with pytest.raises(Refused, match=sentence):
                await act([GARDEN])
        assert "`espalier move --from-folder`" in (await back_up(target.client, tmp_path / "more")).left_out[GARDEN]
        there = await mover(source.client, target.client)
        with pytest.raises(Refused, match="exists at the target with other content"):
            await there.move([GARDEN])
        await (await restoring(tmp_path / "saved", target.client)).take_back([GARDEN])
        assert await objects(target) == set()

    between(story)


async def scaled(env: ManagedEnvironment) -> None:
    patch = {"spec": {"replicas": 5}}
    await env.client.patch(
        MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE
    )


def test_a_copy_that_was_edited_is_not_acted_on(tmp_path: Path) -> None:
    """Somebody edits an object before it is compared; the same command writes it again."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        before = await objects(source)
        await back_up(source.client, tmp_path / "saved")
        await source.managing.stop()
        edits: list[asyncio.Future[None]] = []

        def edit(sentence: str) -> None:
            if "objects written" in sentence:
                edits.append(asyncio.ensure_future(scaled(target)))

        restore = await restoring(tmp_path / "saved", target.client)
        restore.say = edit
        with pytest.raises(Refused, match=r"garden-md-0: spec.replicas changed during the move"):
            await restore.restore([GARDEN])
        await asyncio.gather(*edits)
        await asyncio.sleep(CALM)
        assert not is_active(target)
        assert await objects(target) == before
        written = target.written()
        await (await restoring(tmp_path / "saved", target.client)).restore([GARDEN])
        await asyncio.sleep(CALM)
        assert (target.written() - written, await objects(target)) == ({}, before)

    between(story)


def test_a_cluster_being_changed_is_not_backed_up(tmp_path: Path) -> None:
    async def story(source: ManagedEnvironment, _target: ManagedEnvironment) -> None:
        await source.change(kubernetesVersion="1.36")
        taken = await back_up(source.client, tmp_path / "saved", [GARDEN, Key(NAMESPACE, "nobody")])
        assert taken.clusters == []
        assert "is being changed: wait until condition Ready is True" in taken.left_out[GARDEN]
        assert "does not exist" in taken.left_out[Key(NAMESPACE, "nobody")]

    between(story)


def test_what_the_target_has_is_not_overwritten(tmp_path: Path) -> None:
    """A Cluster that still is where it was, or another one of its name."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        await back_up(source.client, tmp_path / "saved")
        with pytest.raises(Refused, match="default/garden still exists at the management cluster"):
            await (await restoring(tmp_path / "saved", source.client)).restore([GARDEN])
        await target.apply()
        with pytest.raises(Refused, match="default/garden exists at the target with other content"):
            await (await restoring(tmp_path / "saved", target.client)).restore([GARDEN])
        with pytest.raises(Refused, match="Cluster default/nobody is not in the folder"):
            await (await restoring(tmp_path / "saved", target.client)).restore([Key(NAMESPACE, "nobody")])

    between(story)


def test_reverted_killed_move_deletes_nothing_restored(tmp_path: Path) -> None:
    """The move left a Secret with the content that a restore wants, and nothing else."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        await back_up(source.client, tmp_path / "saved")
        await killed_in_the_copy(source, target)
        (left,) = await copies_of_secrets(target)
        await (await restoring(tmp_path / "saved", target.client)).restore([GARDEN])
        await target.until_ready()
        before = await objects(target)
        with pytest.raises(Refused, match="is at the target, and not by this move"):
            await (await mover(source.client, target.client)).take_back([GARDEN])
        assert await objects(target) == before
        here = await side(source.client)
        moved = Record(1, here.uid, (await side(target.client)).uid)
        there = await (await side(target.client)).read()
        assert [item.name for item in there.items if mark_of(item.object) == moved.mark] == [], left

    between(story)


async def killed_in_the_copy(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
    """A move that died when it had written one Secret."""
    dying = Dying(3)
    with pytest.raises(Unreachable):
        await (await mover(mortal(source, dying), mortal(target, dying))).move([GARDEN])
    record = record_of(await source.client.get(CLUSTER, GARDEN.name, NAMESPACE))
    assert record is not None
    (secret, *_) = (await source.client.list(SECRET, SYSTEM_NAMESPACE, labels=f"{names.CLUSTER}=garden")).items
    with suppress(NotFound):
        await target.client.delete(CLUSTER, GARDEN.name, NAMESPACE)
    metadata = {"name": secret.name, "namespace": secret.namespace, "labels": secret.metadata.labels}
    metadata["annotations"] = {MOVED_FROM_ANNOTATION: record.mark}
    body = {name: value for name, value in secret.tree.items() if name != "metadata"}
    await target.client.apply(SECRET, body | {"metadata": metadata})


async def copies_of_secrets(env: ManagedEnvironment) -> list[str]:
    secrets = (await env.client.list(SECRET, SYSTEM_NAMESPACE, labels=f"{names.CLUSTER}=garden")).items
    return [secret.name for secret in secrets if mark_of(secret)]
