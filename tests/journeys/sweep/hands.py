"""Edits and deletions by hand of objects that were made for a cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from espalier.api.capi.machine import Machine, MachineDeployment, MachineHealthCheck, MachineSet
from espalier.api.core import DAEMON_SET, NODE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusterapi.contract import PAUSED_ANNOTATION as CAPI_PAUSED
from espalier.kube.errors import ApiError, KubeError, NotFound
from espalier.providers.docker.cluster_api import DockerMachineTemplate
from espalier.providers.docker.kinds import DockerDatacenterConfig
from tests.journeys.sweep.history import MADE, PAUSABLE, Act, History, annotate, any_object, edit, kind_of, named
from tests.support.environments.managed_clusters import NAMESPACE


def hand(what: str, patch: Callable[[History], Tree], *resources: Resource) -> Act:
    """An edit of any object of some kinds."""

    async def act(h: History) -> str:
        where = await any_object(h, *resources)
        if where is not None:
            await edit(h, where, patch(h))
        return f"{what} {named(where)}"

    return act


def removal(resource: Resource) -> Act:
    """The deletion of an object of a kind."""

    async def act(h: History) -> str:
        where = await any_object(h, resource)
        if where is not None:
            await h.env.client.delete(*where)
        return f"delete {named(where)}"

    return act


async def delete_copy(h: History) -> str:
    with suppress(NotFound):
        await h.env.client.delete(SECRET, "garden-kubeconfig", NAMESPACE)
    return "delete the copy of the kubeconfig"


async def foreign(h: History) -> str:
    """An object of somebody else, under a name that the cluster may need."""
    name = h.rng.choice(("garden-md-1", "garden-md-0-2", "garden-md-0-3", "garden-control-plane-2"))
    resource = DockerMachineTemplate.resource if name[-1] in "23" else MachineHealthCheck.resource
    template: Tree = {"template": {"spec": {}}}
    check = {"clusterName": "other", "selector": {"matchLabels": {"a": "b"}}}
    spec: Tree = template if resource is DockerMachineTemplate.resource else check
    body = {"metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": {"owner": "somebody"}}, "spec": spec}
    try:
        await h.env.client.create(resource, body)
    except ApiError as error:
        return f"no foreign {resource.kind} {name}: {str(error)[:80]}"
    h.foreign.append((resource, name, SYSTEM_NAMESPACE))
    return f"foreign {resource.kind} {name}"


async def strip_cluster(h: History) -> str:
    await edit(h, (Cluster.resource, "garden", NAMESPACE), {"metadata": {"finalizers": None}})
    return "strip the finalizers of the Cluster"


async def strip_status(h: History) -> str:
    marks: dict[str, str | None] = {metadata_keys.GATE_ANNOTATION: None, metadata_keys.KUBECONFIG_ANNOTATION: None}
    await annotate(h, marks)
    return "strip the annotations of the Cluster"


async def disown(h: History) -> str:
    where = (DockerDatacenterConfig.resource, "garden", NAMESPACE)
    await edit(h, where, {"metadata": {"ownerReferences": None, "finalizers": None}})
    return "strip the datacenter"


async def drop_datacenter(h: History) -> str:
    with suppress(NotFound):
        await h.env.client.delete(DockerDatacenterConfig.resource, "garden", NAMESPACE)
    return "delete the datacenter"


async def drop_node(h: History) -> str:
    try:
        workload = await h.env.workload()
        nodes = sorted(item.name for item in (await workload.list(NODE)).items if "-md-" in item.name)
        if nodes:
            name = h.rng.choice(nodes)
            await workload.delete(NODE, name)
            return f"delete node {name}"
    except KubeError as error:
        return f"no node: {str(error)[:80]}"
    return "no node"


async def drop_cni(h: History) -> str:
    with suppress(KubeError):
        workload = await h.env.workload()
        for daemon_set in (await workload.list(DAEMON_SET, "kube-system")).items:
            if daemon_set.name == "kindnet":
                await workload.delete(DAEMON_SET, daemon_set.name, daemon_set.namespace)
    return "delete the CNI"


def none(*path: str) -> Callable[[History], Tree]:
    def patch(_: History) -> Tree:
        tree: Any = None
        for step in reversed(path):
            tree = {step: tree}
        return dict(tree)

    return patch


STRIPPED = {
    "strip the finalizers of": none("metadata", "finalizers"),
    "strip the owners of": none("metadata", "ownerReferences"),
    "strip the annotations of": none("metadata", "annotations"),
    "strip the labels of": none("metadata", "labels"),
    "say of another cluster:": lambda _: {"metadata": {"labels": {CLUSTER_NAME_LABEL: "other"}}},
}
EDITED = (*MADE, MachineSet.resource, Machine.resource)


def _pause(_: History) -> Tree:
    return {"metadata": {"annotations": {CAPI_PAUSED: "true"}}}


def _replicas(h: History) -> Tree:
    return {"spec": {"replicas": h.rng.choice((1, 2, 4))}}


HANDS: dict[str, Act] = {
    **{f"delete {kind_of(item)}": removal(item) for item in EDITED},
    **{f"{what} {kind_of(item)}": hand(what, patch, item) for what, patch in STRIPPED.items() for item in EDITED},
    **{f"pause {kind_of(item)}": hand("pause", _pause, item) for item in PAUSABLE},
    "set replicas": hand("set the replicas of", _replicas, MachineDeployment.resource),
    "delete the copy": delete_copy,
    "foreign": foreign,
    "strip the Cluster": strip_cluster,
    "strip the gate": strip_status,
    "strip the datacenter": disown,
    "delete the datacenter": drop_datacenter,
    "delete a node": drop_node,
    "delete the CNI": drop_cni,
}
