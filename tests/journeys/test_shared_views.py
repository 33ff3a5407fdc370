"""Typed views of objects are shared by all who look: nobody changes one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.kube import objects
from espalier.kube.client import PatchType
from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation
from tests.support.environments.managed_clusters import NAMESPACE
from tests.support.environments.managed_environment import managed_environment
from tests.support.environments.many_clusters import all_ready, apply

Views = dict[tuple[bytes, type[Any]], Any]


def changed(views: Views) -> list[str]:
    """The kinds of the views that are no longer as their bytes say."""
    return [
        type_.__name__
        for (raw, type_), view in views.items()
        if objects.encode_json(view) != objects.encode_json(msgspec.json.decode(raw, type=type_))
    ]


@pytest.mark.soak
@pytest.mark.embedded
def test_nobody_changes_a_view_that_others_see(monkeypatch: pytest.MonkeyPatch) -> None:
    views: Views = {}
    look = objects._view

    def remembered(raw: bytes, type_: Any) -> Any:
        return views.setdefault((raw, type_), look(raw, type_))

    monkeypatch.setattr(objects, "_view", remembered)

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await apply(env.client, 2)
            await all_ready(env.clusters, 2, seconds=900)
            more = [{"op": "replace", "path": "/spec/workerNodeGroupConfigurations/0/count", "value": 3}]
            await env.client.patch(Cluster.resource, "garden-000", NAMESPACE, patch=more, type=PatchType.JSON)
            await asyncio.sleep(600)
            await env.client.delete(Cluster.resource, "garden-001", NAMESPACE)
            await asyncio.sleep(600)

    virtual.run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)
    assert len(views) > 500
    assert changed(views) == []
    seen = next(view for view in views.values() if isinstance(view, Cluster))
    seen.metadata.labels = {**seen.metadata.labels, "a": "b"}
    assert changed(views) == ["Cluster"]
