"""The writes that planners yield, and the pods that controllers create."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.core import POD
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.simulator.workload_controllers.views import Workload


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; no error when it exists already."""

    resource: Resource
    body: Tree


@dataclass(frozen=True, slots=True)
class Change:
    """Merge `patch` into an object, or into a subresource. Ignored if the object does not exist."""

    resource: Resource
    key: Key
    patch: Tree
    subresource: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; no error when it is already deleted, or another object has its name (by `uid`).

    A pod is removed at once, unless `graceful`: then when its containers have ended.
    """

    resource: Resource
    key: Key
    uid: str
    graceful: bool = False


Write = Create | Change | Delete


def controlled_pod(workload: Workload, template: Tree, name: str, labels: dict[str, str], node_name: str = "") -> Tree:
    """A pod of the workload, from its template (which is mutated)."""
    metadata = template.setdefault("metadata", {})
    metadata["name"] = name
    metadata["namespace"] = workload.metadata.namespace
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["ownerReferences"] = [controller_reference(workload)]
    spec = template.setdefault("spec", {})
    if node_name:
        spec["nodeName"] = node_name
    return {"apiVersion": POD.api_version, "kind": POD.kind, **template}


def controller_reference(workload: Workload) -> Tree:
    """The owner reference that makes the workload the controller of an object."""
    return {
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "name": workload.metadata.name,
        "uid": workload.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
