"""Commands that wait: they stop early where only somebody helps, and only there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.api.definitions.reference import Prose, Remedy
from espalier.api.eksa.vocabulary import reasons
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.clusters.reports import waiting
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.printing.progress import Progress
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report.status import status_of
from espalier.kube.client import Client
from espalier.kube.objects import Object, to_bytes
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.virtual import Simulation, run
from tests.support.objects.made_clusters import made, objects
from tests.support.objects.observed_clusters import GARDEN

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Still:
    """An API server on which nothing happens any more."""

    def __init__(self, tree: Tree) -> None:
        self._stored = Object(to_bytes(tree))

    async def list(self, *_: Any, **__: Any) -> SimpleNamespace:
        return SimpleNamespace(items=[self._stored], resource_version="1")

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        await asyncio.get_running_loop().create_future()
        yield None


def reported(scope: Scope, reason: str) -> Tree:
    tree = dict(scope.object.tree)
    status = status_of(scope, Wait(reason, "do this"), NOW)
    tree["status"] = msgspec.to_builtins(status)
    return tree


@pytest.mark.demand(L52="every failure, and nothing else")
@pytest.mark.parametrize(
    "reason", [reason for reason in reasons.REASONS if reasons.CLUSTER in reason.kinds], ids=lambda x: x[0]
)
def test_command_stops_waiting_only_for_a_person(reason: Prose) -> None:
    """Whatever the table says: it is the same table from which the status is made."""
    client = cast(Client, Still(reported(made(objects=objects(workers={"readyReplicas": 0})), reason.name)))

    async def main(_: Simulation) -> None:
        began = asyncio.get_running_loop().time()
        with Progress() as progress, pytest.raises((Failure, Overdue)) as raised:
            await waiting.until_ready(client, Key(*GARDEN), generation=1, timeout=3600, progress=progress)
        took = asyncio.get_running_loop().time() - began
        if reason.remedy is Remedy.PERSON:
            assert (raised.type, took) == (Failure, waiting.PATIENCE)
            assert f"failed: {reason.name}: do this" in str(raised.value)
        else:
            assert (raised.type, took) == (Overdue, 3600)

    run(main, epoch=NOW, seed=1)
