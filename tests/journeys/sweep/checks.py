"""Differences at the end of a history from an environment in which nothing ever went wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

from espalier.api.core import NODE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.providers.docker.kinds import DockerDatacenterConfig
from tests.journeys.sweep.history import MADE, History, objects, there
from tests.support.environments.managed_clusters import NAMESPACE


class Wrong(NamedTuple):
    """A difference: where, a word for programs, a sentence that says what to do."""

    where: str
    reason: str
    message: str


async def cluster_of(h: History) -> Tree:
    result = await there(h, (Cluster.resource, "garden", NAMESPACE))
    return result.tree if result else {"metadata": {}, "status": {}}


async def ready_of(h: History) -> str:
    tree = await cluster_of(h)
    conditions = (tree.get("status") or {}).get("conditions") or []
    return "; ".join(
        f"{condition['type']}={condition['status']} {condition['reason']}: {condition.get('message', '')[:300]}"
        for condition in conditions
    )


async def wrong(h: History) -> list[Wrong]:
    """The differences from the undisturbed end; empty when there are none."""
    tree = await cluster_of(h)
    status = tree.get("status") or {}
    by_type = {condition["type"]: condition for condition in status.get("conditions") or []}
    results = []
    for type_ in ("Ready", "Synced"):
        value = by_type.get(type_, {"status": "missing", "reason": "", "message": ""})
        if value["status"] != "True":
            results.append(Wrong(type_, value["reason"], value.get("message", "")))
    if results:
        return results
    if status.get("observedGeneration") != tree["metadata"].get("generation"):
        results.append(Wrong("status", "", "observedGeneration is not the generation"))
    wanted, there_is = undisturbed(tuple(vars(h.wish).items())), await end_of(h)
    return [
        Wrong(name, "", f"{name}: is {there_is.get(name)}, undisturbed {wanted.get(name)}")
        for name in sorted(wanted.keys() | there_is.keys())
        if wanted.get(name) != there_is.get(name)
    ]


async def end_of(h: History) -> dict[str, object]:
    """The end state, without the names and numbers in which two environments may differ."""
    results: dict[str, object] = {}
    for where in await objects(h, *MADE):
        result = await there(h, where)
        if result is None or where in h.foreign:
            continue
        kind, meta = where[0].kind, result.metadata
        series = where[1].rstrip("0123456789") if kind.endswith("Template") else where[1]
        results[f"{kind} {series}"] = _shape(result)
        results[f"{kind} {series} held"] = sorted(meta.finalizers)
        results[f"{kind} {series} owned"] = sorted(owner.kind for owner in meta.owner_references)
        results[f"{kind} {series} labels"] = dict(sorted(meta.labels.items()))
    cluster = await there(h, (Cluster.resource, "garden", NAMESPACE))
    datacenter = await there(h, (DockerDatacenterConfig.resource, "garden", NAMESPACE))
    results["Cluster held"] = sorted(cluster.metadata.finalizers) if cluster else None
    results["datacenter owned"] = (
        sorted(reference.kind for reference in datacenter.metadata.owner_references) if datacenter else None
    )
    copy = await there(h, (SECRET, "garden-kubeconfig", NAMESPACE))
    results["copy of the kubeconfig"] = sorted(copy.tree["data"]) if copy else None
    try:
        workload = await h.env.workload() if copy else None
        nodes = (await workload.list(NODE)).items if workload else []
        results["nodes"] = sorted(_node(node) for node in nodes)
    except KubeError as error:
        results["nodes"] = f"no answer: {error}"
    return results


def _shape(object_: Object) -> Tree:
    """The desired content of an object, apart from names of templates."""
    spec = object_.tree.get("spec") or {}
    if object_.kind.endswith("Template"):
        return dict(spec)
    fields = {name: spec.get(name) for name in ("replicas", "version", "paused")}
    template = (spec.get("template") or {}).get("spec") or {}
    return fields | {"version of machines": template.get("version")}


def _node(object_: Object) -> tuple[str, str, str]:
    conditions = object_.tree["status"].get("conditions", [])
    is_ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
    role = "worker" if "-md-" in object_.name else "control plane"
    group = "md-1" if "-md-1" in object_.name else "md-0" if "-md-0" in object_.name else ""
    return role + group, object_.tree["status"]["nodeInfo"]["kubeletVersion"], str(is_ready)


ENDS: dict[tuple[tuple[str, Any], ...], dict[str, object]] = {}
"""The ends of undisturbed environments, by what was wished for; `runner.learn` adds to them."""


def undisturbed(wish: tuple[tuple[str, Any], ...]) -> dict[str, object]:
    """The end of an environment in which nothing else was ever asked for; see `runner.learn`."""
    return ENDS[wish]
