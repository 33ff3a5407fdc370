"""The plans that the dashboard shows: those of `espalier plan`, for a cluster as it is."""

from __future__ import annotations

from espalier.api.resource import Key
from espalier.cli.clusters.plans import plan_text
from espalier.cli.clusters.plans.planning import PlanRequest
from espalier.cli.kit.failures import Failure
from espalier.clusters.design.drift.gate import Isolation
from espalier.dashboard.models.plans import Plan
from espalier.kube.client import Client
from espalier.providers.registry import PROVIDERS

WIDTH = 110
"""Characters of a line; the page wraps longer ones."""


async def plan_of(client: Client, key: Key) -> Plan:
    """The plan of a cluster. Raises errors of `espalier.kube.errors`."""
    try:
        planned = await PlanRequest(PROVIDERS, [], "", Isolation.LAYERS, None).of_cluster(client, key)
    except Failure as failure:  # for lack of rights
        return Plan(problem=f"The plan is not shown: {failure}")
    if not planned:
        return Plan(problem="The plan is not shown: the cluster does not exist any more")
    preview = planned[0].now
    return Plan(
        tuple(plan_text.lines(preview, WIDTH)),
        preview.is_empty,
        bool(preview.stops),
        preview.drift,
        preview.drifted,
    )
