"""Clusters that `espalier adopt apply` need not take over."""

from __future__ import annotations

import pytest

from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.management.adoption.apply import Adopter
from espalier.management.adoption.plan import ClusterPlan, State
from tests.support.objects.moved_clusters import NoRules
from tests.support.servers.small_server import SmallServer, client_of


@pytest.mark.parametrize(
    ("state", "sentence"),
    [(State.ADOPTED, "was taken over before"), (State.OURS, "is of this manager: nothing to take over")],
)
async def test_clusters_of_this_manager_were_not_taken_over(state: State, sentence: str) -> None:
    messages: list[str] = []
    client: Client = client_of(server := SmallServer())
    adopter = Adopter(client, NoRules(), messages.append)  # type: ignore[arg-type]
    await adopter._adopt(ClusterPlan(Key("default", "garden"), state, "Docker", "1.35", "v0.26.0"))
    assert (messages, server.requests) == ([f"cluster default/garden {sentence}"], [])
