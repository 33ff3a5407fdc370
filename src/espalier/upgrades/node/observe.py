"""The scope of one reconcile of a NodeUpgrade: all that was read, frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from espalier.api.capi.kubeadm import InitConfiguration, JoinConfiguration, KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.conditions import is_true
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.upgrade_keys import (
    DRAIN_BLOCKED,
    IGNORED_CHECKS,
    KUBEADM_PATCHES,
    NODE_IN_WORK,
    NODE_UPGRADE_ANNOTATION,
)
from espalier.api.meta import Condition, Tree
from espalier.api.text.printable import in_one_line
from espalier.clusterapi import kubernetes_versions
from espalier.clusterapi.changes.machine_change import control_plane_bootstrap
from espalier.kube.objects import Object
from espalier.upgrades import expected, names
from espalier.upgrades.node import evidence, status
from espalier.upgrades.node.cluster_configuration import WantedConfiguration
from espalier.upgrades.node.containers import POD_CREATED, NodeStep
from espalier.upgrades.node.pod import Role
from espalier.upgrades.observed import health
from espalier.upgrades.observed.cluster_view import ClusterView, MachineView, Workload
from espalier.upgrades.observed.evidence import is_of_name, is_own
from espalier.upgrades.observed.observe import UpgradeObserver, cluster_of
from espalier.upgrades.observed.views import Node, Pod

MAX_ANNOTATION = 1000
"""The most characters of a node's annotation that are reported."""


@dataclass(frozen=True)
class NodeScope:
    """A NodeUpgrade, its machine and its node."""

    object: Object
    upgrade: NodeUpgrade
    cluster: str
    """Name of the cluster, empty while it is not known."""
    cluster_view: ClusterView | None
    machine: MachineView | None
    node: Node | None
    pod_object: Object | None
    """The upgrader pod that this NodeUpgrade created."""
    earlier: Object | None
    """The upgrader pod of an earlier NodeUpgrade of the same name, which nobody else deletes."""
    taken_by: str
    """The NodeUpgrade whose upgrader pod is on the node instead, empty if there is none."""
    control_plane: Object | None
    """The KubeadmControlPlane of the machine; None for workers."""
    control_plane_machines: tuple[MachineView, ...]
    """The machines of the control plane, oldest first."""
    claimed_by: str
    """Another upgrade that has claimed the control plane; empty if there is none."""
    configuration: Tree | None
    """The ClusterConfiguration of its ControlPlaneUpgrade, or with hooks of its Machine; None without either."""
    image: str | None
    """The upgrader image of the version; None if there is none."""
    images: tuple[str, ...]
    """Versions that have an upgrader image."""

    @property
    def workload(self) -> Workload | None:
        """The workload cluster, once it can be read."""
        return self.cluster_view.workload if self.cluster_view else None

    @cached_property
    def pod(self) -> Pod | None:
        """The upgrader pod."""
        return self.pod_object.decode(Pod) if self.pod_object else None

    @property
    def renews_certificates(self) -> bool:
        """True if nothing but certificates is renewed on the node."""
        return self.upgrade.spec.certificates_only

    @property
    def steps(self) -> Sequence[NodeStep]:
        """The steps of this NodeUpgrade, in order."""
        return evidence.steps_of(self.upgrade)

    @property
    def unfinished(self) -> NodeStep | None:
        """The step that its pod has not done, whatever its status says."""
        container = self.pod.unfinished if self.pod else ""
        return next((step for step in self.steps if step.container == container), None)

    @property
    def is_completed(self) -> bool:
        """True if its status says so, and neither the node nor the pod shows that it is not true."""
        return evidence.is_completed(self.upgrade, self.node, self.pod_object)

    @cached_property
    def credible_conditions(self) -> Sequence[Condition]:
        """The conditions that were reported before, without those that somebody may have edited."""
        static_pods = self.workload.control_plane_pods() if self.workload else []
        return evidence.credible(self.upgrade, self.node, self.pod_object, static_pods)

    @property
    def done(self) -> frozenset[str]:
        """The conditions of the steps that its status reports as done."""
        return status.done(self.credible_conditions, self.steps)

    @property
    def are_all_done(self) -> bool:
        """True if its status reports every step as done."""
        return status.are_all_done(self.credible_conditions, self.steps)

    @property
    def current(self) -> tuple[NodeStep, Condition] | None:
        """The first step that is not done, by what is observed."""
        return status.current(self.conditions, self.steps)

    @property
    def node_name(self) -> str:
        """Name of the node, empty while there is none."""
        return self.machine.node if self.machine else ""

    @property
    def is_deleted(self) -> bool:
        """True if the NodeUpgrade is being deleted."""
        return self.object.metadata.deletion_timestamp is not None

    @property
    def wanted_configuration(self) -> WantedConfiguration:
        """The kubeadm-config that is wanted before kubeadm runs on the node."""
        return WantedConfiguration(
            self.upgrade.spec.kubernetes_version, self.upgrade.spec.etcd_version or "", self.configuration
        )

    @property
    def changes(self) -> Tree:
        """The files and kubelet flags to change. Raises `ValueError` if they are invalid."""
        text = self.upgrade.spec.bootstrap_changes
        return expected.decoded(text) if text else {}

    def role(self, configured: str) -> Role:
        """The role of a control plane node, while kubeadm-config has version `configured`: to apply, or to follow.

        `kubeadm upgrade node` renders the version of kubeadm-config, whatever version kubeadm has. An `upgrade apply`
        may have been interrupted after it wrote the version, so it is repeated until another node has the version.
        `firstNodeToBeUpgraded` is not used: it was true when the NodeUpgrade was created, but that machine may be gone.
        Machines tell releases of one patch version apart: they have the version of the upgrade once it is done.
        """
        if configured != self.upgrade.spec.kubernetes_version:
            return "first-control-plane"
        wanted = self.upgrade.spec.kubernetes_version
        nodes = self.workload.nodes() if self.workload else []
        of_machines = {view.node: view.machine.spec.version for view in self.control_plane_machines if view.node}
        reached = any(
            kubernetes_versions.has_release(
                node.status.node_info.kubelet_version, of_machines.get(node.metadata.name, ""), wanted
            )
            for node in nodes
            if health.CONTROL_PLANE in node.metadata.labels and node.metadata.name != self.node_name
        )
        return "control-plane" if reached else "first-control-plane"

    @property
    def is_cordoned(self) -> bool:
        """True if the node is unschedulable."""
        return self.node is not None and self.node.spec.unschedulable

    @property
    def drains(self) -> bool:
        """True if the node is drained: another node takes pods, or the node is cordoned, to be uncordoned again."""
        if self.is_cordoned:
            return True
        nodes = self.workload.nodes() if self.workload else []
        return any(node.takes_pods for node in nodes if node.metadata.name != self.node_name)

    @property
    def has_etcd_on_its_nodes(self) -> bool:
        """True if etcd runs on the control plane nodes."""
        spec = self.control_plane.decode(KubeadmControlPlane).spec if self.control_plane else None
        configuration = spec.kubeadm_config_spec.cluster_configuration if spec else None
        return not (configuration and configuration.etcd and configuration.etcd.external)

    @property
    def drain_seconds(self) -> int:
        """The Machine's nodeDrainTimeoutSeconds, which also limits this drain; 0 for no limit."""
        deletion = self.machine.machine.spec.deletion if self.machine else None
        return (deletion.node_drain_timeout_seconds or 0) if deletion else 0

    @property
    def drain_waits_for(self) -> str:
        """The pods that block the drain, as the upgrader reports them; empty if none does."""
        reported = self.node.metadata.annotations.get(DRAIN_BLOCKED, "") if self.node else ""
        return in_one_line(reported)[:MAX_ANNOTATION]

    @property
    def ignored_preflight_errors(self) -> tuple[str, ...]:
        """The preflight checks of kubeadm to ignore, by the machine's configuration, or annotations of it."""
        registrations = [section.node_registration for section in self._kubeadm]
        checks = [
            name for registration in registrations if registration for name in registration.ignore_preflight_errors
        ]
        annotated = (self.machine.object, self.machine.infrastructure) if self.machine else ()
        texts = [object_.metadata.annotations.get(IGNORED_CHECKS, "") for object_ in annotated if object_ is not None]
        checks += [name.strip() for text in texts for name in text.split(",")]
        return tuple(dict.fromkeys(name for name in checks if name))

    @property
    def patches(self) -> str:
        """The directory on the node with patches for kubeadm, without which an upgrade would revert them."""
        own = next((section.patches.directory for section in self._kubeadm if section.patches), "")
        own = str(self.changes.get("patches", own))
        provider = self.machine.infrastructure if self.machine else None
        return own or (provider.metadata.annotations.get(KUBEADM_PATCHES, "") if provider else "")

    @cached_property
    def _kubeadm(self) -> list[InitConfiguration | JoinConfiguration]:
        """The init and join sections of the machine's KubeadmConfig."""
        config = self.machine.config.decode(KubeadmConfig).spec if self.machine and self.machine.config else None
        sections = (config.init_configuration, config.join_configuration) if config else ()
        return [section for section in sections if section is not None]

    @property
    def may_delete_pod(self) -> bool:
        """True if deleting the pod, its own or that of an earlier upgrade, would interrupt no step."""
        pod = self.earlier.decode(Pod) if self.earlier else self.pod
        if pod is None or pod.has_ended or not pod.has_begun:
            return True
        return status.failure(pod, self.steps) is not None or bool(status.stuck(pod))

    @cached_property
    def conditions(self) -> list[Condition]:
        """UpgraderPodCreated and the conditions of the steps; the last known while the cluster can't be read."""
        before = self.upgrade.status.conditions
        if self.workload is None and before:
            return [condition for condition in before if condition.type != names.READY]
        return status.conditions(self.credible_conditions, self.pod, self.drain_waits_for, steps=self.steps)


def _control_plane(cluster_view: ClusterView | None, machine: MachineView | None) -> Object | None:
    """The KubeadmControlPlane that controls a machine."""
    if cluster_view is None or machine is None:
        return None
    kind = KubeadmControlPlane.resource.kind
    owner = next(
        (
            reference
            for reference in machine.object.metadata.owner_references
            if reference.controller and reference.kind == kind
        ),
        None,
    )
    return cluster_view.capi_objects.get(KubeadmControlPlane.resource, owner.name) if owner else None


def _under_way(observer: UpgradeObserver, cluster_view: ClusterView, asking: Object) -> str:
    """A NodeUpgrade whose pod is, or was last seen, on another control plane node, for messages; empty if none is."""
    for node_upgrade in observer.in_cluster(NodeUpgrade.resource, cluster_of(asking)):
        upgrade = node_upgrade.decode(NodeUpgrade)
        machine = cluster_view.capi_objects.machine(upgrade.spec.machine.name)
        is_begun = is_true(upgrade.status.conditions, POD_CREATED) and not upgrade.is_completed
        is_other = node_upgrade.metadata.uid != asking.metadata.uid and upgrade.spec.node_type == "ControlPlane"
        if machine is not None and machine.machine.metadata.deletion_timestamp is None and is_begun and is_other:
            return f"NodeUpgrade {node_upgrade.name} (node {machine.node})"
    return ""


def _claimed_by(
    observer: UpgradeObserver, cluster_view: ClusterView | None, control_plane: Object | None, asking: Object
) -> str:
    """The other upgrade that has claimed the control plane, for messages; empty if there is none.

    A claim ends with the upgrade, or the Machine: nobody has to remove it. People may edit it, so NodeUpgrades with a
    pod on other nodes count as well.
    """
    if cluster_view is not None and control_plane is not None and (other := _under_way(observer, cluster_view, asking)):
        return other
    claim = control_plane.metadata.annotations.get(NODE_IN_WORK, "") if control_plane else ""
    name, _, uid = claim.partition(" ")
    if cluster_view is None or claim in ("", names.claim(asking)):
        return ""
    group_upgrade = observer.upgrade(ControlPlaneUpgrade.resource, name)
    if group_upgrade is not None and group_upgrade.metadata.uid == uid:
        decoded = group_upgrade.decode(ControlPlaneUpgrade)
        is_other = control_plane is None or decoded.spec.control_plane.name != control_plane.name
        return "" if decoded.status.ready or is_other else f"ControlPlaneUpgrade {name}"
    holder = observer.upgrade(NodeUpgrade.resource, name)
    if holder is None or holder.metadata.uid != uid:
        return ""
    upgrade = holder.decode(NodeUpgrade)
    machine = cluster_view.capi_objects.machine(upgrade.spec.machine.name)
    if upgrade.is_completed or machine is None or machine.machine.metadata.deletion_timestamp is not None:
        return ""
    return f"NodeUpgrade {name} (node {machine.node})"


def _configuration(
    observer: UpgradeObserver, node_upgrade: Object, machine: MachineView | None, version: str
) -> Tree | None:
    """The ClusterConfiguration of its ControlPlaneUpgrade, with the parts that Cluster API adds for the version.

    If its Machine controls it (Cluster API sequences the nodes), that of the Machine's KubeadmConfig.
    """
    owner = next((reference for reference in node_upgrade.metadata.owner_references if reference.controller), None)
    if owner is None:
        return None
    if owner.kind == Machine.resource.kind and machine is not None and owner.uid == machine.object.metadata.uid:
        spec: Tree = (machine.config.tree.get("spec") or {}) if machine.config else {}
        return spec.get("clusterConfiguration")
    upgrade = observer.upgrade(ControlPlaneUpgrade.resource, owner.name)
    if upgrade is None or upgrade.metadata.uid != owner.uid:
        return None
    try:
        wanted = expected.decoded(upgrade.decode(ControlPlaneUpgrade).spec.control_plane_spec_data)
    except ValueError:
        return None
    spec = control_plane_bootstrap(wanted.get("kubeadmConfigSpec") or {}, version)
    return spec.get("clusterConfiguration")


def observe(observer: UpgradeObserver, node_upgrade: Object) -> NodeScope:
    """Read everything about one NodeUpgrade. Raises `msgspec.ValidationError` if the object is invalid."""
    upgrade = node_upgrade.decode(NodeUpgrade)
    cluster = cluster_of(node_upgrade)
    cluster_view = observer.view(cluster) if cluster else None
    machine = cluster_view.capi_objects.machine(upgrade.spec.machine.name) if cluster_view else None
    workload = cluster_view.workload if cluster_view else None
    node_name = machine.node if machine else ""
    present = workload.upgrader(node_name) if workload and node_name else None
    has_name = present is not None and is_of_name(present, node_upgrade)
    is_its_own = present is not None and is_own(present, node_upgrade)
    control_plane = _control_plane(cluster_view, machine)
    image, images = observer.image(upgrade.spec.kubernetes_version)
    return NodeScope(
        object=node_upgrade,
        upgrade=upgrade,
        cluster=cluster,
        cluster_view=cluster_view,
        machine=machine,
        node=workload.node(node_name) if workload and node_name else None,
        pod_object=present if is_its_own else None,
        earlier=present if has_name and not is_its_own else None,
        taken_by=present.metadata.annotations[NODE_UPGRADE_ANNOTATION] if present and not has_name else "",
        control_plane=control_plane,
        control_plane_machines=tuple(cluster_view.capi_objects.machines_of(control_plane))
        if cluster_view and control_plane
        else (),
        claimed_by=_claimed_by(observer, cluster_view, control_plane, node_upgrade),
        configuration=_configuration(observer, node_upgrade, machine, upgrade.spec.kubernetes_version),
        image=image,
        images=images,
    )
