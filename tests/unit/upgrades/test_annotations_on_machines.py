"""Annotations that the upgrade of a node writes on its Machine, and leaves there: those of others are not its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.vocabulary.upgrade_keys import UNFINISHED
from espalier.api.meta import Condition
from espalier.clusterapi.contract import SKIP_REMEDIATION_ANNOTATION
from espalier.runtime.controllers.outcome import Continue
from espalier.upgrades import names
from espalier.upgrades.node import context
from espalier.upgrades.node import steps as node_life
from espalier.upgrades.node.containers import STEPS
from espalier.upgrades.node.context import NodeUpgradeContext
from espalier.upgrades.node.observe import NodeScope
from tests.support.objects.observed_upgrades import NEW, machine, made, node, scope_of, working

OURS = names.protection("a-node-upgrader")


def marked(
    annotations: dict[str, str], scope: NodeScope | None = None
) -> tuple[NodeUpgradeContext, list[dict[str, str | None]]]:
    """The upgrade of node a, whose Machine has these annotations, and what becomes written on it."""
    written: list[dict[str, str | None]] = []

    async def merge(_resource: Any, _object: Any, patch: Any) -> None:
        written.append(patch["metadata"]["annotations"])

    writer: Any = SimpleNamespace(merge=merge)
    writer.with_caches = lambda _caches: writer
    there = machine("a", control_plane=True)
    tree = there.object.tree
    machine_object = made({**tree, "metadata": {**tree["metadata"], "annotations": annotations}})
    scope = replace(scope or scope_of([node("a")]), machine=replace(there, object=machine_object))
    view: Any = scope.cluster_view
    view.capi_objects.caches = {}
    tools: Any = SimpleNamespace(writer=writer)
    return NodeUpgradeContext(tools, scope), written


def run(of: Awaitable[None]) -> None:
    async def main() -> None:
        await of

    asyncio.run(main())


@pytest.mark.parametrize(("before", "after"), [(None, OURS), (OURS, OURS), ("", ""), ("by hand", "by hand")])
def test_foreign_health_check_exemption_stays(before: str | None, after: str) -> None:
    ctx, written = marked({} if before is None else {SKIP_REMEDIATION_ANNOTATION: before})
    run(context.skip_remediation(ctx))
    assert written[0][SKIP_REMEDIATION_ANNOTATION] == after


@pytest.mark.parametrize(("before", "is_taken"), [(OURS, True), ("", False), ("by hand", False)])
def test_own_health_check_exemption_is_removed(before: str, is_taken: bool) -> None:
    ctx, written = marked({SKIP_REMEDIATION_ANNOTATION: before})
    run(context.resume_remediation(ctx))
    assert written == [{SKIP_REMEDIATION_ANNOTATION: None} if is_taken else {}]


def test_a_machine_without_steps_left_is_not_written() -> None:
    """Nor is it kept from health checks for ever."""
    scope = scope_of([node("a", kubelet=NEW)])
    conditions = [Condition(type=step.condition, status="True", reason="Done") for step in STEPS]
    status = msgspec.structs.replace(scope.upgrade.status, conditions=conditions)
    done = replace(scope, upgrade=msgspec.structs.replace(scope.upgrade, status=status))
    for of, writes in ((done, 0), (scope, 1)):
        ctx, written = marked({}, of)
        assert asyncio.run(node_life.protect_machine(ctx)) == Continue()
        assert len(written) == writes


@pytest.mark.parametrize("has_pod", [True, False])
def test_changes_are_recorded_before_a_pod_exists(has_pod: bool) -> None:
    """With one, the upgrade of the group may have recorded what was reached: the note would come back for good."""
    ctx, written = marked({}, working() if has_pod else None)
    run(context.skip_remediation(ctx))
    assert (UNFINISHED in written[0]) is not has_pod


@pytest.mark.parametrize(("noted_by", "taken"), [("1", {UNFINISHED: None}), ("2", {}), ("", {})])
def test_note_of_an_earlier_upgrade_does_not_count(noted_by: str, taken: dict[str, None]) -> None:
    """Changes that the earlier upgrade may have made on the node are not undone by giving up the next one."""
    ctx, _ = marked({UNFINISHED: json.dumps({"upgrade": noted_by})})
    assert context.own_note(ctx) == taken
