"""Shared by the steps over a NodeUpgrade: the reconcile itself, and what they do on the node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from espalier.api.capi.machine import Machine
from espalier.api.core import CLUSTER_ROLE, CONFIG_MAP, NAMESPACE, POD, SECRET
from espalier.api.eksa.upgrades import UNFINISHED, NodeUpgrade
from espalier.clusterapi.contract import SKIP_REMEDIATION_ANNOTATION
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.runtime.writer import Precondition, found_by_owner
from espalier.upgrades import names, unfinished
from espalier.upgrades.cluster_view import Workload
from espalier.upgrades.node import cluster_configuration, pod
from espalier.upgrades.node.cluster_configuration import Asked
from espalier.upgrades.node.observe import NodeScope
from espalier.upgrades.reconciling import Tools

RESOURCE = NodeUpgrade.resource


@dataclass(frozen=True)
class Context:
    """One reconcile of one NodeUpgrade."""

    tools: Tools
    scope: NodeScope

    @property
    def object(self) -> Object:
        """The NodeUpgrade."""
        return self.scope.object

    @property
    def is_deleted(self) -> bool:
        """True if deletion was asked for."""
        return self.scope.is_deleted

    @property
    def is_done(self) -> bool:
        """True if the node was upgraded."""
        return self.scope.upgrade.is_completed

    @property
    def machine(self) -> str:
        """How the Machine is called in sentences."""
        return f"Machine {self.object.namespace}/{self.scope.upgrade.spec.machine.name}"


async def give_rights(workload: Workload, node: str, changes: bytes) -> tuple[str, str]:
    """Make what the upgrader pod acts with, and the namespace when it is not there yet.

    Returns the names of the ServiceAccount, and of the Secret with `changes`, empty without any. All of it goes with
    the role.
    """
    body = pod.role(node)
    role = await workload.writer.create(CLUSTER_ROLE, body)
    if role is None:  # a reconcile before this one did not come to its end
        role = await workload.client.get(CLUSTER_ROLE, body["metadata"]["name"])
    account = pod.account(role)
    secret = pod.changes(account, role, changes) if changes else None
    for resource, body in [*pod.holders(role), *([(SECRET, secret)] if secret else [])]:
        try:
            await workload.writer.create(resource, body)
        except NotFound:
            await workload.writer.create(NAMESPACE, pod.NAMESPACE_OF_PODS)
            await workload.writer.create(resource, body)
    return account, secret["metadata"]["name"] if secret else ""


async def take_rights(workload: Workload, node: str) -> None:
    """Delete the role, and with it who may act by it: the API server's garbage collection sees to that."""
    try:
        await workload.client.delete(CLUSTER_ROLE, names.upgrader(node))
    except NotFound:
        return


async def take_lost_rights(workload: Workload, node: str) -> None:
    """The same for a node whose Machine goes (empty: it is not known which it was), and for all nodes that are gone."""
    there = {one.metadata.name for one in workload.nodes()} - {node}
    for role in (await workload.client.list(CLUSTER_ROLE, labels=names.UPGRADER_LABEL)).items:
        of = names.node_of(role.name)
        if of is not None and of not in there:
            await take_rights(workload, of)


async def delete_pod(workload: Workload, scope: NodeScope) -> None:
    """Delete exactly the upgrader pod that was observed, as it was: its first step may have begun since."""
    found = scope.earlier or scope.pod_object
    if found is not None:
        await workload.writer.delete(POD, found, found_by_owner, Precondition.VERSION)


async def clear_node(workload: Workload, scope: NodeScope) -> None:
    """Neither the pod nor its rights stay."""
    await delete_pod(workload, scope)
    await take_rights(workload, scope.node_name)


async def write_configuration(workload: Workload, found: Object, asked: Asked) -> None:
    """Bring kubeadm-config to what is asked for, unless it is so. Raises `ValueError` where it can't be read."""
    present = cluster_configuration.read(found.tree)
    wanted = cluster_configuration.wanted(present, asked)
    if wanted != present:
        text = cluster_configuration.text_of(wanted, found.tree["data"]["ClusterConfiguration"])
        await workload.writer.merge(CONFIG_MAP, found, {"data": {"ClusterConfiguration": text}})


async def protect(ctx: Context) -> None:
    """Have health checks leave the machine alone; a mark of somebody else stays. Before a pod, note what may change.

    With a pod there, the upgrade of the group may have recorded the Machine: each would undo what the other wrote.
    """
    machine, scope = _machine(ctx), ctx.scope
    if machine is None:
        return
    ours = names.protection(scope.object.name)
    marks = {SKIP_REMEDIATION_ANNOTATION: machine.metadata.annotations.get(SKIP_REMEDIATION_ANNOTATION, ours)}
    if scope.pod is None:
        marks[UNFINISHED] = unfinished.noted(machine, scope.object.metadata.uid, scope.changes)
    await _mark(ctx, machine, marks)


async def give_back(ctx: Context, **marks: str | None) -> None:
    """Have health checks look after the machine again, and leave it with these annotations."""
    machine = _machine(ctx)
    if machine is None:
        return
    ours = names.protection(ctx.scope.object.name)
    is_ours = machine.metadata.annotations.get(SKIP_REMEDIATION_ANNOTATION) == ours
    await _mark(ctx, machine, ({SKIP_REMEDIATION_ANNOTATION: None} if is_ours else {}) | marks)


def own_note(ctx: Context) -> dict[str, str | None]:
    """The note of what may have changed, to be taken away if this NodeUpgrade was the first to write it."""
    machine = _machine(ctx)
    note = unfinished.of(machine) if machine is not None else None
    return {UNFINISHED: None} if note is not None and note.upgrade == ctx.object.metadata.uid else {}


def _machine(ctx: Context) -> Object | None:
    return ctx.scope.machine.object if ctx.scope.machine else None


async def _mark(ctx: Context, machine: Object, annotations: Mapping[str, str | None]) -> None:
    view = ctx.scope.cluster_view
    writer = ctx.tools.writer.with_caches(view.capi_objects.caches) if view is not None else ctx.tools.writer
    await writer.merge(Machine.resource, machine, {"metadata": {"annotations": dict(annotations)}})
