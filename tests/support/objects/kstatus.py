"""The verdict of kstatus about an object, in our own words, and what holds for every status of a Cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from espalier.api.meta import Tree

CURRENT, IN_PROGRESS, FAILED, TERMINATING = "Current", "InProgress", "Failed", "Terminating"


def verdict(tree: Tree) -> str:
    """The verdict of Flux, and of Argo CD's library, about an object of a kind that they do not know."""
    metadata, status = tree.get("metadata") or {}, tree.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return TERMINATING
    seen, wanted = status.get("observedGeneration"), metadata.get("generation")
    if seen is not None and wanted is not None and seen != wanted:
        return IN_PROGRESS
    conditions: list[dict[str, Any]] = status.get("conditions") or []
    for item in conditions:  # the first of the two decides
        if item["type"] in ("Reconciling", "Stalled") and item["status"] == "True":
            return IN_PROGRESS if item["type"] == "Reconciling" else FAILED
    ready = next((condition["status"] for condition in conditions if condition["type"] == "Ready"), "True")
    return CURRENT if ready == "True" else IN_PROGRESS


def faults(tree: Tree) -> Iterator[str]:
    """Why the status of a Cluster, written by a manager, would mislead a reader who follows kstatus."""
    status = tree.get("status") or {}
    present = {condition["type"]: condition for condition in status.get("conditions") or []}
    progress = [item for item in ("Reconciling", "Stalled") if item in present]
    is_ready = present.get("Ready", {}).get("status") == "True"
    if any(present[item]["status"] != "True" for item in progress):
        yield f"{progress} are present only while True"
    if len(progress) > 1:
        yield "Reconciling and Stalled exclude each other"
    if not is_ready and not progress:
        yield "it is not Ready, and neither Reconciling nor Stalled"
    if is_ready and "Reconciling" in present:
        yield "it is Ready and Reconciling"
    if is_ready and "Stalled" in present and present["Stalled"]["reason"] != "Paused":
        yield "it is Ready and Stalled, and nobody paused it"
    if not is_ready and status.get("failureReason") and "Stalled" not in present:
        yield "it failed and is not Stalled"
    if verdict(tree) == CURRENT and not (is_ready and status.get("observedGeneration") is not None):
        yield "it is taken for Current, and is not Ready"
