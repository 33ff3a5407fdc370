"""Condition Moving on a Cluster at the source of its move, or where it is being restored: nobody acts on the cluster.
Whoever reads its status learns how that ends. The manager leaves the cluster alone, so the command writes it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from espalier.api.conditions import timestamp
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.kube.errors import Conflict, NotFound
from espalier.moving.objects import CLUSTER, MOVING
from espalier.moving.sides import Side


class Standings(NamedTuple):
    """The conditions of moves that a command makes: reasons, and messages that say how to go on."""

    copying: tuple[str, str]
    handed_over: tuple[str, str]
    ways: str
    """The ways out of a move that stopped."""
    ends_ready: bool = False
    """True if condition Ready becomes False with the hand-over, because the cluster is about to be deleted."""


BY_MOVE = Standings(
    (
        Reason.CLUSTER_BEING_MOVED,
        "the cluster is being moved to another management cluster, and neither acts on it; if no `espalier move` runs, "
        "give it here again to go on, or with --back to take the move back",
    ),
    (
        Reason.CLUSTER_HANDED_OVER,
        "the cluster is handed over to another management cluster, and what is left here is deleted; if no `espalier "
        "move` runs, give it here again to end the move",
    ),
    "give `espalier move` here again to go on, or with --back to take the move back",
)
RESTORED = (
    Reason.CLUSTER_BEING_RESTORED,
    "the cluster is being restored, and nobody acts on it before all of its objects are there; if no `espalier move` "
    "runs, give it again with --from-folder to go on, or with --back, too, to delete what is there",
)
_READY = "Ready"
_ATTEMPTS = 5
_LONGEST = 4000
"""Characters of a message, of which an API server takes 32768."""


def of_management_cluster(command: str, *, is_deletion: bool = False) -> Standings:
    """Those of a command that moves a management cluster to or from its bootstrap."""
    again = f"if no `{command}` runs, give it again to go on"
    why = "because it is being deleted" if is_deletion else "because it is being created"
    return Standings(
        (Reason.CLUSTER_BEING_MOVED, f"the management cluster is being moved, {why}; {again}"),
        (Reason.CLUSTER_HANDED_OVER, f"the management cluster is handed over, {why}; {again}"),
        f"give `{command}` again to go on",
        ends_ready=is_deletion,
    )


def refused(problems: list[str], ways: str) -> tuple[str, str]:
    """Reason and message of a move that ended because of these problems."""
    text = "; ".join(problems)
    why = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return Reason.MOVE_REFUSED, f"the move to another management cluster stopped, and nobody acts: {why}; {ways}"


async def report(
    side: Side, key: Key, standing: tuple[str, str] | None, now: datetime, *, ends_ready: bool = False
) -> None:
    """Write how a move stands; with None, that there is none. With `ends_ready`, condition Ready says the same."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            cluster = await side.client.get(CLUSTER, key.name, key.namespace)
        except NotFound:
            return
        before: list[Tree] = (cluster.tree.get("status") or {}).get("conditions") or []
        after = _changed(before, standing, cluster.metadata.generation, now)
        if ends_ready and standing is not None:
            reason, message = standing
            after = [
                item | {"status": "False", "reason": reason, "message": message} if item.get("type") == _READY else item
                for item in after
            ]
        if after == before:
            return
        metadata = {"uid": cluster.metadata.uid, "resourceVersion": cluster.resource_version}
        patch: dict[str, Any] = {"metadata": metadata, "status": {"conditions": after}}
        try:
            await side.client.patch(
                CLUSTER, key.name, key.namespace, patch=patch, type=PatchType.MERGE, subresource="status"
            )
        except Conflict:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def tree_of(standing: tuple[str, str], generation: int, since: datetime) -> Tree:
    """The condition as it is stored."""
    reason, message = standing
    return {
        "type": MOVING,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(since),
        "observedGeneration": generation,
    }


def _changed(before: list[Tree], standing: tuple[str, str] | None, generation: int, now: datetime) -> list[Tree]:
    present = next((condition for condition in before if condition.get("type") == MOVING), None)
    others = [condition for condition in before if condition is not present]
    if standing is None:
        return others
    new = tree_of(standing, generation, now)
    if present is not None and "lastTransitionTime" in present:
        new["lastTransitionTime"] = present["lastTransitionTime"]
    return [*others, new]
