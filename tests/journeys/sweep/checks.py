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
    found = await there(h, (Cluster.resource, "garden", NAMESPACE))
    return found.tree if found else {"metadata": {}, "status": {}}


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
    found = []
    for type_ in ("Ready", "Synced"):
        one = by_type.get(type_, {"status": "missing", "reason": "", "message": ""})
        if one["status"] != "True":
            found.append(Wrong(type_, one["reason"], one.get("message", "")))
    if found:
        return found
    if status.get("observedGeneration") != tree["metadata"].get("generation"):
        found.append(Wrong("status", "", "observedGeneration is not the generation"))
    wanted, there_is = undisturbed(tuple(vars(h.wish).items())), await end_of(h)
    return [
        Wrong(name, "", f"{name}: is {there_is.get(name)}, undisturbed {wanted.get(name)}")
        for name in sorted(wanted.keys() | there_is.keys())
        if wanted.get(name) != there_is.get(name)
    ]


async def end_of(h: History) -> dict[str, object]:
    """The end state, without the names and numbers in which two environments may differ."""
    found: dict[str, object] = {}
    for where in await objects(h, *MADE):
        one = await there(h, where)
        if one is None or where in h.foreign:
            continue
        kind, meta = where[0].kind, one.metadata
        series = where[1].rstrip("0123456789") if kind.endswith("Template") else where[1]
        found[f"{kind} {series}"] = _shape(one)
        found[f"{kind} {series} held"] = sorted(meta.finalizers)
        found[f"{kind} {series} owned"] = sorted(owner.kind for owner in meta.owner_references)
        found[f"{kind} {series} labels"] = dict(sorted(meta.labels.items()))
    cluster = await there(h, (Cluster.resource, "garden", NAMESPACE))
    datacenter = await there(h, (DockerDatacenterConfig.resource, "garden", NAMESPACE))
    found["Cluster held"] = sorted(cluster.metadata.finalizers) if cluster else None
    found["datacenter owned"] = (
        sorted(reference.kind for reference in datacenter.metadata.owner_references) if datacenter else None
    )
    copy = await there(h, (SECRET, "garden-kubeconfig", NAMESPACE))
    found["copy of the kubeconfig"] = sorted(copy.tree["data"]) if copy else None
    try:
        workload = await h.env.workload() if copy else None
        nodes = (await workload.list(NODE)).items if workload else []
        found["nodes"] = sorted(_node(node) for node in nodes)
    except KubeError as error:
        found["nodes"] = f"no answer: {error}"
    return found


def _shape(one: Object) -> Tree:
    """The desired content of an object, apart from names of templates."""
    spec = one.tree.get("spec") or {}
    if one.kind.endswith("Template"):
        return dict(spec)
    kept = {name: spec.get(name) for name in ("replicas", "version", "paused")}
    template = (spec.get("template") or {}).get("spec") or {}
    return kept | {"version of machines": template.get("version")}


def _node(one: Object) -> tuple[str, str, str]:
    conditions = one.tree["status"].get("conditions", [])
    is_ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
    role = "worker" if "-md-" in one.name else "control plane"
    group = "md-1" if "-md-1" in one.name else "md-0" if "-md-0" in one.name else ""
    return role + group, one.tree["status"]["nodeInfo"]["kubeletVersion"], str(is_ready)


ENDS: dict[tuple[tuple[str, Any], ...], dict[str, object]] = {}
"""The ends of undisturbed environments, by what was wished for; `runner.learn` adds to them."""


def undisturbed(wish: tuple[tuple[str, Any], ...]) -> dict[str, object]:
    """The end of an environment in which nothing else was ever asked for; see `runner.learn`."""
    return ENDS[wish]
