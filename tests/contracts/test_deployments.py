"""API servers accept the Deployments of `espalier manifests`, whatever flags are given."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from espalier.api import core
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists
from tests.support.objects.deployments import combinations, deployed, pods

RESOURCES = {
    item.kind: item for item in (core.SERVICE, core.NETWORK_POLICY, core.POD_DISRUPTION_BUDGET, core.DEPLOYMENT)
}


async def test_every_combination_of_flags_is_accepted(client: Client, request: pytest.FixtureRequest) -> None:
    """Server-side apply, which refuses a field that the schema does not have."""
    with suppress(AlreadyExists):  # of another test, on a real API server
        await client.create(core.NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
    distinct: dict[str, Tree] = {}
    for words in combinations(all_=request.node.callspec.id == "in_memory"):
        for trees in deployed(pods(*words)):
            distinct |= {json.dumps(tree): tree for tree in trees}
    for tree in distinct.values():
        answer = await client.apply(RESOURCES[tree["kind"]], tree, field_manager="kubectl", dry_run=True)
        assert holds(answer.tree, tree), tree


def holds(stored: object, wanted: object) -> bool:
    """True if everything wanted is in the stored object: nothing was dropped."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(holds(stored.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(stored, list) and len(stored) == len(wanted) and all(map(holds, stored, wanted))
    return stored == wanted
