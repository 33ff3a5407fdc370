"""Kubeconfigs of shoots: what is said where the API server is not available."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.gardener.garden.shoot import Shoot
from espalier.cli.shoots.shoot_kubeconfig import not_available


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"hibernated": True}, "the shoot is hibernated"),
        ({"conditions": [{"type": "APIServerAvailable", "status": "True"}]}, ""),
        (
            {
                "conditions": [
                    {"type": "APIServerAvailable", "status": "Unknown", "reason": "HandedOver", "message": "a"}
                ]
            },
            "HandedOver: a",
        ),
        ({"lastOperation": {"type": "Create", "state": "Processing", "description": "b"}}, "Create 0 %: b"),
        ({"lastOperation": {"type": "Create", "state": "Succeeded"}}, ""),
    ],
)
def test_absent_api_server_of_a_shoot_has_a_reason(status: dict[str, object], why: str) -> None:
    tree = {
        "metadata": {"name": "apple", "namespace": "garden-dev"},
        "spec": {"provider": {"type": "local"}, "seedName": "east"},
        "status": {"seedName": "east", **status},
    }
    assert not_available(msgspec.convert(tree, Shoot)) == why
