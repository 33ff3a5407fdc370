"""The plan for machines that are upgraded in place comes true."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.meta import Tree
from espalier.clusters.effects.machines import Group
from espalier.clusters.preview.previews import Preview
from espalier.kube.errors import ApiError
from tests.support.environments.in_place_environment import (
    IN_PLACE,
    generations,
    identities,
    journey,
    machines,
    manifest,
    marks,
    past_admission,
)
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment
from tests.support.environments.upgraders import Upgraders
from tests.support.histories import in_place_hooks as hooks
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

FALLBACK = {**IN_PLACE, "fallback": "RollingUpdate"}
CERTIFICATE: Tree = {"certSans": ["garden.example"]}
TAINTED: Tree = {"taints": [{"key": "a", "value": "b", "effect": "PreferNoSchedule"}]}
VERSION: Tree = {"kubernetesVersion": "1.36"}


def asked(
    strategy: Tree, *, control_plane: Tree | None = None, workers: Tree | None = None, count: int = 1, **more: object
) -> Tree:
    """Fields of a Cluster whose machines are upgraded in place."""
    how = {"upgradeRolloutStrategy": strategy}
    return {
        "controlPlaneConfiguration": {"count": count, **how, **(control_plane or {})},
        "workerNodeGroupConfigurations": [{"name": "md-0", "count": 2, **how, **(workers or {})}],
        **more,
    }


CHANGES: dict[str, tuple[Tree, Tree]] = {
    "a version": (IN_PLACE, asked(IN_PLACE, **VERSION)),
    "a version with the fallback": (FALLBACK, asked(FALLBACK, **VERSION)),
    "a version and a field of the control plane": (FALLBACK, asked(FALLBACK, control_plane=CERTIFICATE, **VERSION)),
    "a version and a field of workers": (FALLBACK, asked(FALLBACK, workers=TAINTED, **VERSION)),
    "a field of both": (FALLBACK, asked(FALLBACK, control_plane=CERTIFICATE, workers=TAINTED)),
    "a field that is to be rolled": (IN_PLACE, asked(FALLBACK, workers=TAINTED)),
    "another number": (IN_PLACE, asked(IN_PLACE, workers={"count": 3})),
}


@pytest.mark.demand("U26")
@pytest.mark.soak
@pytest.mark.parametrize("change", sampled(CHANGES, 0, 1, 4))
def test_machines_change_in_place_or_not_as_planned(change: str) -> None:
    strategy, wanted = CHANGES[change]

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = {machine.name for machine in await machines(env)}
        preview = await env.preview(GARDEN, await manifest(env, wanted))
        assert (preview.refusals, preview.stops) == ((), "")
        await env.change(**wanted)
        await env.until_ready()
        await env.until_machines_rest("garden")
        after = {machine.name for machine in await machines(env)}
        assert {item.name for group in preview.groups for item in group.going} == before - after
        assert sum(group.coming for group in preview.groups) == len(after - before)
        planned = {item.name for group in preview.groups for item in group.upgraded}
        assert planned == {node for node, _ in upgraders.ran}
        assert {bool(group.fallback) for group in preview.groups if group.replaced} <= {True}
        assert {bool(group.fallback) for group in preview.groups if not group.replaced} <= {False}
        assert await marks(env) == []

    journey(story, strategy=strategy)


REFUSED: dict[str, Tree] = {
    "a field of the control plane": asked(IN_PLACE, control_plane=CERTIFICATE),
    "a version and a field of workers": asked(IN_PLACE, workers=TAINTED, **VERSION),
    "a field of both": asked(IN_PLACE, control_plane=CERTIFICATE, workers=TAINTED, **VERSION),
}


@pytest.mark.parametrize("change", sampled(REFUSED, 0))
def test_a_refused_change_is_planned_as_refused(change: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before, written = await identities(env), await generations(env)
        preview = await env.preview(GARDEN, await manifest(env, REFUSED[change]))
        with pytest.raises(ApiError) as refused:
            await env.change(**REFUSED[change])
        details = refused.value.status.details
        assert details is not None
        assert {(refusal.field, refusal.message) for refusal in preview.refusals} == {
            (cause.field, cause.message) for cause in details.causes
        }
        async with past_admission(env.client):
            await env.change(**REFUSED[change])
        stored = await as_it_is(env)
        assert stored.stops.startswith("InPlaceUpgradeRefused: bootstrap.")
        assert stored.objects == ()
        assert stored.groups
        assert all(nothing_but_refused(group) for group in stored.groups)
        await asyncio.sleep(600)
        assert await identities(env) == before
        assert await generations(env) == written

    journey(story)


@pytest.mark.soak
def test_refusals_in_place_stand_beside_other_refusals() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        change = asked(IN_PLACE, control_plane={**CERTIFICATE, "apiServerExtraArgs": {"v": "x"}})
        preview = await env.preview(GARDEN, await manifest(env, change))
        where = "spec.controlPlaneConfiguration."
        assert {refusal.field for refusal in preview.refusals} == {
            f"{where}apiServerExtraArgs.v",
            f"{where}upgradeRolloutStrategy",
        }

    journey(story)


def nothing_but_refused(group: Group) -> bool:
    return bool(group.refused) and not (group.going or group.coming or group.upgraded)


async def as_it_is(env: ManagedEnvironment, **manager: FrontEnd) -> Preview:
    return await env.preview(GARDEN, [], **manager)


@pytest.mark.soak
def test_hooks_are_planned_as_they_are_answered() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        written, by_hooks = await generations(env), {"front_end": FrontEnd.HOOKS}
        for change, refused in ((VERSION, ()), (asked(IN_PLACE, workers=TAINTED, count=3, **VERSION), ("taints",))):
            preview = await env.preview(GARDEN, await manifest(env, change), **by_hooks)
            assert bool(preview.refusals) is bool(refused)
            assert [len(group.upgraded) for group in preview.groups] == ([] if refused else [3, 2])
            assert not any(group.going for group in preview.groups)
        async with past_admission(env.client):
            await env.change(**asked(IN_PLACE, workers=TAINTED, count=3, **VERSION))
        await env.until(
            lambda item: any(condition.reason == "InPlaceUpgradeRefused" for condition in item.status.conditions)
        )
        stored = await as_it_is(env, **by_hooks)
        assert stored.stops.startswith("InPlaceUpgradeRefused: bootstrap.joinConfiguration.nodeRegistration.taints")
        assert await generations(env) == written, "Cluster API was not even asked"
        fallback = asked(FALLBACK, workers=TAINTED, count=3)
        replaced = await env.preview(GARDEN, await manifest(env, fallback), **by_hooks)
        assert [(len(group.upgraded), len(group.replaced), bool(group.fallback)) for group in replaced.groups] == [
            (3, 0, False),
            (0, 2, True),
        ]

    hooks.journey(story)
