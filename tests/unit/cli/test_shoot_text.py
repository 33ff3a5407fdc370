"""Lists and descriptions of shoots."""

from __future__ import annotations

import msgspec

from espalier.api.gardener.garden.shoot import Shoot
from espalier.cli.shoots import shoot_text


def shoot(seed: str, reason: str) -> Shoot:
    condition = {"type": "APIServerAvailable", "status": "Unknown", "reason": reason}
    tree = {
        "metadata": {"name": "apple", "namespace": "garden-dev"},
        "spec": {"provider": {"type": "local"}, "seedName": seed},
        "status": {"seedName": "east", "conditions": [condition]},
    }
    return msgspec.convert(tree, Shoot)


def test_silent_seed_is_shown_beside_its_name() -> None:
    assert shoot_text.row(shoot("east", "HandedOver"))[2] == "east"
    assert shoot_text.row(shoot("east", "StatusUnknown"))[2] == "east (silent)"
    assert shoot_text.row(shoot("west", "StatusUnknown"))[2] == "east (silent) -> west"
    assert dict(shoot_text.facts(shoot("east", "StatusUnknown")))["seed"].startswith(
        "east, whose gardenlet has stopped"
    )
