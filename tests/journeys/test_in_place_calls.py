"""The cost of upgrades in place for API servers: each call by name, so that none comes back unnoticed."""

from __future__ import annotations

import pytest

from tests.support.environments.in_place_calls import bill

pytestmark = pytest.mark.embedded

AIM = 25

MANAGEMENT = {
    "create nodeupgrades": 1,
    "patch nodeupgrades/status": 9,  # its eight steps, and that it is completed
    "patch nodeupgrades": 1,  # its finalizer
    "patch machines": 3,  # kept from health checks, given back, and what was reached
    "patch dockermachines": 1,  # the template that it counts as cloned from
    "patch clusters/status": 1,  # how many nodes are upgraded
    "create events": 1,
}
WORKLOAD = {
    "create clusterroles": 1,
    "create serviceaccounts": 1,
    "create clusterrolebindings": 1,
    "create pods": 1,
    "delete clusterroles": 1,
    "delete pods": 1,
}


@pytest.mark.soak
def test_upgraded_node_costs_these_calls_only() -> None:
    """But for pods nothing is read: watches tell the rest, and they are the same for one node and for a hundred."""
    result = bill()
    both = {**MANAGEMENT, **WORKLOAD}
    assert result.control_plane_node == both | {
        "patch kubeadmconfigs": 1,
        "patch controlplaneupgrades/status": 1,
    }
    room = {"list pods": 1}  # whether those of the node have room elsewhere
    assert result.worker == both | room | {"patch machinedeploymentupgrades/status": 1}
    assert result.control_plane_node.total() <= AIM
    assert result.worker.total() <= AIM
