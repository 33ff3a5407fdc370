"""The answer about an update of a machine, from its NodeUpgrade."""

from __future__ import annotations

import msgspec

from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.meta import Tree
from espalier.upgrades.hooks.machines import SOON, _progress
from espalier.upgrades.hooks.wire import Progress


def node_upgrade(**metadata: str) -> NodeUpgrade:
    spec: Tree = {"machine": {"kind": "Machine", "name": "a"}, "kubernetesVersion": "v1.36.3", "nodeType": "Worker"}
    status = {"completed": True}
    return msgspec.convert({"metadata": {"name": "a", **metadata}, "spec": spec, "status": status}, NodeUpgrade)


def test_an_earlier_upgrade_that_goes_is_waited_for() -> None:
    """It was completed, but of another version: this update has not begun."""
    going = _progress(node_upgrade(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert going == Progress("waiting for an earlier NodeUpgrade a to be deleted", SOON)
    assert _progress(node_upgrade()).message != going.message
