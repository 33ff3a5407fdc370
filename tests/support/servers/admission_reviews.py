"""Manifests of a Cluster with edits, and what admission says of them."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse, Operation
from tests.support.objects.observed_clusters import NAMESPACE, NOW, as_object, example, observer

SPEC = "spec."


CONTROL_PLANE = "spec.controlPlaneConfiguration."


GROUP = "spec.workerNodeGroupConfigurations[0]."


NETWORK = "spec.clusterNetwork."


STRATEGY = "upgradeRolloutStrategy"


CHECK = "spec.machineHealthCheck."


AUDIT = CONTROL_PLANE + "auditPolicyContent"


POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"


def garden(name: str = "garden", **spec: Any) -> Tree:
    tree = example(**spec)[0]
    tree["metadata"]["name"] = name
    return tree


def edited(edits: dict[str, Any], tree: Tree | None = None) -> Tree:
    """A Cluster with other values at these paths (`a.b[0].c`); None takes a field away."""
    tree = copy.deepcopy(tree or garden())
    for path, value in edits.items():
        *parents, last = path.replace("[", ".[").split(".")
        at: Any = tree
        for part in parents:
            at = at[int(part[1:-1])] if part.startswith("[") else at.setdefault(part, {})
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    return tree


def paused(tree: Tree) -> Tree:
    return edited({"metadata.annotations": {PAUSED_ANNOTATION: "true"}}, tree)


def ask(
    new: Tree,
    old: Tree | None = None,
    *others: Tree,
    now: datetime = NOW,
    names_others: bool = True,
    dry_run: bool = False,
) -> AdmissionResponse:
    operation: Operation = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(
        operation,
        "Cluster",
        NAMESPACE,
        new["metadata"]["name"],
        ADMIN,
        as_object(new),
        as_object(old) if old is not None else None,
        dry_run=dry_run,
    )
    return Admission(observer(*others), lambda: now, names_others=names_others).validate(request)
