"""How often a cluster is rendered in its life, on an embedded API server and a simulated clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec
import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.clusters.act import controller
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render import layered
from espalier.clusters.design.rendered import Rendered
from espalier.kube.client import PatchType
from espalier.runtime.controllers.outcome import Outcome
from espalier.runtime.controllers.reconciler import Report
from tests.support.environments.cluster_lives import groups, journey
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment

pytestmark = pytest.mark.embedded


@dataclass
class Renderings:
    """Full renderings of the only cluster: counted for each of its reconciles, and compared at the end."""

    each: list[int] = field(default_factory=list)
    since_report: int = 0
    changed: int = 0
    """Objects that somebody wrote into after they were rendered."""
    _made: list[tuple[Rendered, bytes]] = field(default_factory=list)

    def add(self, objects: Rendered) -> None:
        self.since_report += 1
        self._made.append((objects, msgspec.json.encode(objects)))

    def end_reconcile(self) -> None:
        self.each.append(self.since_report)
        self.since_report = 0
        self.changed += sum(msgspec.json.encode(objects) != encoded for objects, encoded in self._made)
        self._made.clear()


@pytest.fixture
def renderings(monkeypatch: pytest.MonkeyPatch) -> Renderings:
    counted = Renderings()
    make, report = layered.render, controller.report

    def render(render_input: RenderInput) -> Rendered:
        objects = make(render_input)
        counted.add(objects)
        return objects

    def end(ctx: ClusterContext, outcome: Outcome) -> Report:
        made = report(ctx, outcome)
        counted.end_reconcile()
        return made

    monkeypatch.setattr(layered, "render", render)
    monkeypatch.setattr(controller, "report", end)
    return counted


async def live(env: ManagedEnvironment) -> None:
    """Create, scale, upgrade and delete a cluster."""
    await env.apply()
    await env.until_ready()
    await env.change(workerNodeGroupConfigurations=groups(4))
    await env.until_ready()
    await env.change(kubernetesVersion="1.36")
    await env.until_ready()
    await env.client.delete(Cluster.resource, "garden", NAMESPACE)
    await env.until_gone()


def test_a_reconcile_renders_once(renderings: Renderings) -> None:
    journey(live)
    assert 30 < len(renderings.each) < 80  # bursts of changes cause one reconcile each
    assert max(renderings.each) == 1
    assert sum(renderings.each) == 4, "as created, its owners noted, as scaled, and as upgraded"
    assert renderings.changed == 0


def test_a_settled_cluster_is_not_rendered_again(renderings: Renderings) -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(env.calm)
        renderings.each.clear()
        note = {"metadata": {"annotations": {"example.com/note": "read me"}}}
        await env.client.patch(Cluster.resource, "garden", NAMESPACE, patch=note, type=PatchType.MERGE)
        await asyncio.sleep(env.calm)
        assert renderings.each
        assert set(renderings.each) == {0}

    journey(story)
