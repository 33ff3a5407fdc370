"""Copies as they are written to a target that has some of them already."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from espalier.api.capi.cluster import CLUSTER_NAME_LABEL
from espalier.api.core import NAMESPACE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import MOVED_FROM_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.local.environment.management import install_definitions
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.moving.copies import Copies
from espalier.moving.objects import Item, Place
from espalier.moving.record import Record
from espalier.moving.sides import Inventory, Side
from espalier.runtime.virtual import Simulation, run
from tests.support.objects.moved_clusters import GARDEN, NoRules

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MOVE = Record(1, "source", "target")
RESTORE = Record(1, "source", "target", is_restore=True)
MADE_FOR_IT = {CLUSTER_NAME_LABEL: GARDEN.name}


class Rules(NoRules):
    """The cluster names a Secret."""

    def named(self, at: Inventory, key: Key) -> Iterable[Place]:
        return [("", SECRET.kind, Key(SYSTEM_NAMESPACE, "garden"))]


class Completing(NoRules):
    """The target needs a Secret, which it may have."""

    completing = Rules.named


def secret(content: str, mark: str | None = None, **labels: str) -> Tree:
    metadata: Tree = {"name": "garden", "namespace": SYSTEM_NAMESPACE, "labels": labels}
    if mark is not None:
        metadata["annotations"] = {MOVED_FROM_ANNOTATION: mark}
    return {"metadata": metadata, "stringData": {"content": content}}


async def write(source: Server, target: Server, record: Record) -> None:
    """Copy everything as a move of this record does."""
    here, there = (Side(Client(InProcessTransport(server)), uid) for server, uid in ((source, "source"), (target, "t")))
    copies = Copies("source", there, Rules())
    read = await here.read(), await there.read()
    await copies.write(*read, copies.uids(*read), {GARDEN: record})


async def served(simulation: Simulation, *secrets: Tree) -> tuple[Server, Client]:
    server = Server(MemoryStore(), now=simulation.clock.now, random=simulation.random)
    await server.start()
    client = Client(InProcessTransport(server), field_manager="somebody")
    await client.apply(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
    for item in secrets:
        await client.create(SECRET, item)
    return server, client


def written(here: Tree, there: Tree | None, record: Record) -> tuple[str, str]:
    """Content and mark of the Secret at the target."""
    results: list[Object] = []

    async def main(simulation: Simulation) -> None:
        source, _ = await served(simulation, here)
        target, client = await served(simulation, *([there] if there is not None else []))
        await write(source, target, record)
        results.append(await client.get(SECRET, "garden", SYSTEM_NAMESPACE))
        await source.close()
        await target.close()

    run(main, epoch=EPOCH, seed=1)
    (item,) = results
    return item.tree["data"]["content"], item.metadata.annotations.get(MOVED_FROM_ANNOTATION, "")


OLD, NEW = "b2xk", "bmV3"


@pytest.mark.parametrize(
    ("there", "record", "expected"),
    [
        pytest.param(None, MOVE, (NEW, "source/1"), id="absent"),
        pytest.param(secret("old"), MOVE, (OLD, ""), id="of others"),
        pytest.param(secret("old", "other/1", **MADE_FOR_IT), MOVE, (OLD, "other/1"), id="of another source"),
        pytest.param(secret("old", "source/1"), MOVE, (NEW, "source/1"), id="a copy"),
        pytest.param(
            secret("old", "source/1", **MADE_FOR_IT), RESTORE, (NEW, "source/restore/1"), id="restored over a move's"
        ),
        pytest.param(
            secret("old", "source/0", **MADE_FOR_IT), RESTORE, (NEW, "source/0"), id="restored over an earlier move's"
        ),
    ],
)
def test_copy_replaces_only_what_was_copied(there: Tree | None, record: Record, expected: tuple[str, str]) -> None:
    labels = there["metadata"]["labels"] if there is not None else {}
    assert written(secret("new", **labels), there, record) == expected


def test_shared_copy_keeps_the_mark_of_its_move() -> None:
    """Others at the target may use it: whoever takes that move back leaves it, so a restore need not claim it."""
    assert written(secret("new"), secret("old", "source/1"), RESTORE) == (NEW, "source/1")


def test_complete_copy_is_not_written_again() -> None:
    async def main(simulation: Simulation) -> None:
        (source, user), (target, _) = await served(simulation, secret("new")), await served(simulation)
        for server in (source, target):
            client = Client(InProcessTransport(server))
            await install_definitions([Cluster], client)
            await client.apply(NAMESPACE, {"metadata": {"name": GARDEN.namespace}})
        await user.create(Cluster.resource, {"metadata": {"name": GARDEN.name, "namespace": GARDEN.namespace}})
        status = {"status": {"phase": "Running"}}
        await user.patch(
            Cluster.resource, GARDEN.name, GARDEN.namespace, patch=status, type=PatchType.MERGE, subresource="status"
        )
        for _ in range(2):
            before = target.requests.copy()
            await write(source, target, MOVE)
        asked = {verb for verb, *_ in target.requests - before}
        assert asked == {"list"}
        await source.close()
        await target.close()

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize(
    ("there", "is_copied"),
    [
        pytest.param([], True, id="absent"),
        pytest.param([secret("old", "source/1")], True, id="copied before"),
        pytest.param([secret("old")], False, id="its own"),
    ],
)
def test_target_gets_only_what_it_has_not_itself(there: list[Tree], is_copied: bool) -> None:
    results: list[Item] = []

    async def main(simulation: Simulation) -> None:
        (source, user), (target, other) = await served(simulation, secret("new")), await served(simulation, *there)
        here, at_target = Side(user, "source"), Side(other, "t")
        copies = Copies("source", at_target, Completing())
        results.extend(copies.members(await here.read(), await at_target.read(), GARDEN))
        await source.close()
        await target.close()

    run(main, epoch=EPOCH, seed=1)
    assert [item.object.name for item in results] == ["garden"] * is_copied
