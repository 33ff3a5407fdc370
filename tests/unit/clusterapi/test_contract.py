"""Statuses of infrastructure, as any provider's controller or a person may write them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.clusterapi import contract
from espalier.kube.objects import Object


def infrastructure(status: Any) -> Object:
    return Object(msgspec.json.encode({"kind": "StableCluster", "metadata": {"name": "a"}, "status": status}))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("ready", "InvalidStatus: Expected `object`, got `str` - at `$.status`"),
        ({"ready": True, "conditions": None}, "InvalidStatus: Expected `array`, got `null` - at `$.status.conditions`"),
        ({"ready": "yes"}, "InvalidStatus: Expected `bool | null`, got `str` - at `$.status.ready`"),
        (
            {"ready": True, "failureReason": [1]},
            "InvalidStatus: Expected `str`, got `array` - at `$.status.failureReason`",
        ),
    ],
)
def test_an_unreadable_status_is_a_failure(status: Any, message: str) -> None:
    object_ = infrastructure(status)
    assert (contract.is_provisioned(object_), contract.failure(object_), contract.control_plane_broken(object_)) == (
        False,
        message,
        "",
    )


def test_a_long_failure_is_cut() -> None:
    object_ = infrastructure({"ready": True, "failureReason": "Stuck", "failureMessage": "m" * 100_000})
    assert contract.is_provisioned(object_)
    assert contract.failure(object_) == f"Stuck: {'m' * 993}..."
