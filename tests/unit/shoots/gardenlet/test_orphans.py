"""When what a seed has of a shoot is left over, and when nobody may touch it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.errors import KubeError, NotFound, Unreachable
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome
from espalier.shoots.gardenlet.names import SHOOT_UID
from espalier.shoots.gardenlet.reconciling import orphans
from tests.support.gardens.gardenlet_scopes import TECHNICAL_ID, an_object, shoot

GONE = NotFound.of("apple is gone")


def cluster(has: Tree | None, uid: str = "1") -> Object:
    metadata = {"annotations": {SHOOT_UID: uid}}
    return an_object(Cluster.resource, TECHNICAL_ID, metadata=metadata, spec={"shoot": has} if has else {})


async def reconciled(
    monkeypatch: pytest.MonkeyPatch, seen: Object, *, known: Object | None = None, live: Object | KubeError = GONE
) -> tuple[Outcome, bool]:
    """The outcome for a Cluster, and whether the flow that leaves its shoot ran.

    `known` is the Shoot in the garden's cache, `live` what a read gives.
    """
    runs: list[object] = []

    async def run(*_: object) -> Any:
        runs.append(_)
        return SimpleNamespace(outcome=Done())

    async def get(*_: object) -> Object:
        if isinstance(live, KubeError):
            raise live
        return live

    monkeypatch.setattr(orphans, "run", run)
    monkeypatch.setattr(Controller, "watch", lambda *_, **__: None)
    observer = SimpleNamespace(
        seed={Cluster.resource: SimpleNamespace(get=lambda _key: seen)},
        garden={Shoot.resource: None},
        shoot_of=lambda _name: known,
        scope=None,
    )
    tools = SimpleNamespace(garden=SimpleNamespace(client=SimpleNamespace(get=get)), clock=SystemClock(), rng=None)
    made = orphans.controller(cast(Any, observer), cast(Any, tools))
    return await made._reconcile(Key("", TECHNICAL_ID)), bool(runs)


async def test_leftovers_of_a_deleted_shoot_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await reconciled(monkeypatch, cluster(shoot().tree)) == (Done(), True)


async def test_later_shoot_holds_nothing_of_the_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    later = msgspec.json.decode(shoot().raw)
    later["metadata"]["uid"] = "2"
    assert (await reconciled(monkeypatch, cluster(shoot().tree), live=Object(msgspec.json.encode(later))))[1]


async def test_shoot_lost_in_the_cache_alone_is_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that was cut may have missed that it is back."""
    assert await reconciled(monkeypatch, cluster(shoot().tree), live=shoot()) == (Done(), False)


async def test_shoot_with_its_technical_id_is_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await reconciled(monkeypatch, cluster(shoot().tree), known=shoot()) == (Done(), False)


async def test_silent_garden_leaves_all_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, is_left = await reconciled(monkeypatch, cluster(shoot().tree), live=Unreachable("no route"))
    assert isinstance(outcome, Fault)
    assert not is_left


@pytest.mark.parametrize("has", [None, shoot().tree], ids=["no shoot", "another one than it is marked with"])
async def test_cluster_without_an_owner_is_left_alone(monkeypatch: pytest.MonkeyPatch, has: Tree | None) -> None:
    assert await reconciled(monkeypatch, cluster(has, uid="2")) == (Done(), False)
