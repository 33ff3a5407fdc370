"""Shared by the steps of a NodeUpgrade: the reconcile, and writes to the workload cluster and the Machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.capi.machine import Machine
from espalier.api.core import CLUSTER_ROLE, CONFIG_MAP, NAMESPACE, POD, SECRET
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.upgrade_keys import UNFINISHED, UPGRADER_LABEL
from espalier.clusterapi.contract import SKIP_REMEDIATION_ANNOTATION
from espalier.clusterapi.names import CERTIFICATES_EXPIRY
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers.writer import Precondition, found_by_owner
from espalier.upgrades import names, unfinished
from espalier.upgrades.node import cluster_configuration, pod
from espalier.upgrades.node.cluster_configuration import WantedConfiguration
from espalier.upgrades.node.observe import NodeScope
from espalier.upgrades.observed.cluster_view import Workload
from espalier.upgrades.reconciling import UpgradeTools

RESOURCE = NodeUpgrade.resource
GROUP_KIND = ControlPlaneUpgrade.resource.kind


@dataclass(frozen=True)
class NodeUpgradeContext:
    """One reconcile of one NodeUpgrade."""

    tools: UpgradeTools
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
        return self.scope.is_completed

    @property
    def machine(self) -> str:
        """The Machine's kind and key, for messages."""
        return f"Machine {self.object.namespace}/{self.scope.upgrade.spec.machine.name}"


async def create_rbac(workload: Workload, node: str, changes: bytes) -> tuple[str, str]:
    """Create the role, binding, ServiceAccount and Secret of the upgrader pod, and the namespace if it is missing.

    Returns the names of the ServiceAccount, and of the Secret with `changes`, empty without any. The role owns all of
    it.
    """
    body = pod.role(node)
    role = await workload.writer.create(CLUSTER_ROLE, body)
    if role is None:  # an earlier reconcile was interrupted
        role = await workload.client.get(CLUSTER_ROLE, body["metadata"]["name"])
    account = pod.account(role)
    secret = pod.changes(account, role, changes) if changes else None
    for resource, body in [*pod.role_dependents(role), *([(SECRET, secret)] if secret else [])]:
        try:
            await workload.writer.create(resource, body)
        except NotFound:
            await workload.writer.create(NAMESPACE, pod.NAMESPACE_OF_PODS)
            await workload.writer.create(resource, body)
    return account, secret["metadata"]["name"] if secret else ""


async def delete_rbac(workload: Workload, node: str) -> None:
    """Delete the role; garbage collection deletes what it owns."""
    try:
        await workload.client.delete(CLUSTER_ROLE, names.upgrader(node))
    except NotFound:
        return


async def delete_orphaned_rbac(workload: Workload, node: str) -> None:
    """Delete the roles of a node whose Machine is deleted (empty if it is unknown), and of all nodes that are gone."""
    present = {node_of_cluster.metadata.name for node_of_cluster in workload.nodes()} - {node}
    for role in (await workload.client.list(CLUSTER_ROLE, labels=UPGRADER_LABEL)).items:
        role_node = names.node_of(role.name)
        if role_node is not None and role_node not in present:
            await delete_rbac(workload, role_node)


async def delete_pod(workload: Workload, scope: NodeScope) -> None:
    """Delete exactly the upgrader pod that was observed, if it is unchanged: its first step may have started since."""
    upgrader_pod = scope.earlier or scope.pod_object
    if upgrader_pod is not None:
        await workload.writer.delete(POD, upgrader_pod, found_by_owner, Precondition.VERSION)


async def clear_node(workload: Workload, scope: NodeScope) -> None:
    """Delete the upgrader pod and its role."""
    await delete_pod(workload, scope)
    await delete_rbac(workload, scope.node_name)


async def write_configuration(workload: Workload, config_map: Object, requested: WantedConfiguration) -> None:
    """Write what is asked for to kubeadm-config, if it differs. Raises `ValueError` if that can't be read."""
    present = cluster_configuration.read(config_map.tree)
    wanted = cluster_configuration.wanted(present, requested)
    if wanted != present:
        text = cluster_configuration.text_of(wanted, config_map.tree["data"]["ClusterConfiguration"])
        await workload.writer.merge(CONFIG_MAP, config_map, {"data": {"ClusterConfiguration": text}})


async def skip_remediation(ctx: NodeUpgradeContext) -> None:
    """Keep health checks from remediating the machine, unless another writer did. Without a pod, note changes.

    Once there is a pod, the upgrade of the group may have recorded the Machine: each would undo the other's write.
    """
    machine, scope = _machine(ctx), ctx.scope
    if machine is None:
        return
    protection = names.protection(scope.object.name)
    annotations = {
        SKIP_REMEDIATION_ANNOTATION: machine.metadata.annotations.get(SKIP_REMEDIATION_ANNOTATION, protection)
    }
    if scope.pod is None and not scope.renews_certificates:
        annotations[UNFINISHED] = unfinished.noted(machine, scope.object.metadata.uid, scope.changes)
    await _annotate(ctx, machine, annotations)


async def resume_remediation(ctx: NodeUpgradeContext, **annotations: str | None) -> None:
    """Let health checks remediate the machine again, and set these annotations."""
    machine = _machine(ctx)
    if machine is None:
        return
    protection = names.protection(ctx.scope.object.name)
    is_ours = machine.metadata.annotations.get(SKIP_REMEDIATION_ANNOTATION) == protection
    await _annotate(ctx, machine, ({SKIP_REMEDIATION_ANNOTATION: None} if is_ours else {}) | annotations)


async def forget_expiry(ctx: NodeUpgradeContext) -> None:
    """Have Cluster API read again when the certificates of a control plane machine end: kubeadm has renewed them.

    It notes that on the machine's KubeadmConfig, and never looks again while the note is there. The upgrade of a group
    does so in its own write, with what else it records there.
    """
    if any(owner.controller and owner.kind == GROUP_KIND for owner in ctx.object.metadata.owner_references):
        return
    view, scope = ctx.scope.cluster_view, ctx.scope
    config = scope.machine.config if scope.machine else None
    if view is None or config is None or scope.upgrade.spec.node_type != "ControlPlane":
        return
    if CERTIFICATES_EXPIRY in config.metadata.annotations:
        writer = ctx.tools.writer.with_caches(view.capi_objects.caches)
        forgotten = {"metadata": {"annotations": {CERTIFICATES_EXPIRY: None}}}
        await writer.merge(KubeadmConfig.resource, config, forgotten, Precondition.UID)


def own_note(ctx: NodeUpgradeContext) -> dict[str, str | None]:
    """The removal of the note of possible changes, if this NodeUpgrade was the first to write it."""
    machine = _machine(ctx)
    note = unfinished.of(machine) if machine is not None else None
    return {UNFINISHED: None} if note is not None and note.upgrade == ctx.object.metadata.uid else {}


def _machine(ctx: NodeUpgradeContext) -> Object | None:
    return ctx.scope.machine.object if ctx.scope.machine else None


async def _annotate(ctx: NodeUpgradeContext, machine: Object, annotations: Mapping[str, str | None]) -> None:
    view = ctx.scope.cluster_view
    writer = ctx.tools.writer.with_caches(view.capi_objects.caches) if view is not None else ctx.tools.writer
    await writer.merge(Machine.resource, machine, {"metadata": {"annotations": dict(annotations)}})
