"""Machines of a KubeadmControlPlane: upgraded one at a time, while etcd can spare a member."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane, KubeadmControlPlaneSpec
from espalier.api.capi.machine import Machine
from espalier.api.eksa.upgrades import (
    PAUSED_FOR_UPGRADE,
    ControlPlaneUpgrade,
    ControlPlaneUpgradeSpec,
    ControlPlaneUpgradeStatus,
    NodeType,
    ObjectReference,
)
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import CONTROL_PLANE_FINALIZER, IN_PLACE_CONTROL_PLANE, REPLACING
from espalier.api.meta import Condition, ObjectMeta, Observed, Tree
from espalier.api.resource import Resource
from espalier.clusterapi.changes import in_place_fields, machine_change
from espalier.clusterapi.changes.classification import Classification, UpdateStrategy, classify
from espalier.clusterapi.changes.machine_change import ChangeKind
from espalier.clusterapi.contract import PAUSED_ANNOTATION, desired_replicas
from espalier.clusterapi.machines.remediation import awaits_remediation
from espalier.clusterapi.names import CERTIFICATES_EXPIRY
from espalier.kube.objects import Object
from espalier.runtime.caches.mapping import by_controller
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer
from espalier.upgrades import expected, names
from espalier.upgrades.group.group import DueMachines, Group, GroupScope, Upgrade, shared_problem
from espalier.upgrades.group.sequence import Counts, Member
from espalier.upgrades.observed import health
from espalier.upgrades.observed.cluster_view import ClusterAPIObjects, MachineView

_TWO_MEMBERS = 2
"""Of two etcd members, none can be missing without the loss of quorum. A single machine is upgraded with downtime."""


def classified(
    capi_objects: ClusterAPIObjects, control_plane: KubeadmControlPlane, machine: MachineView
) -> Classification:
    """The classified difference between a machine and the machines that its control plane would create."""
    desired = machine_change.of_control_plane(control_plane)
    return classify(
        machine.parts, desired, UpdateStrategy.IN_PLACE, capi_objects.infrastructures, capi_objects.template
    )


def lost(control_plane: Object, machines: Sequence[MachineView], named: Sequence[str]) -> str:
    """The message on machines that are to be replaced before the next node is upgraded; empty if there are none.

    `named` are the machines of the upgrade, one of which must be missing: a control plane that is scaled up gets its
    new machines afterwards, unless it has two, of which etcd can spare none. Once Cluster API replaces a machine, it
    continues until all exist. If no healthy machine is left to join, none is replaced: Cluster API would initialize
    another control plane.
    """
    being_deleted = [
        view.machine.metadata.name for view in machines if view.machine.metadata.deletion_timestamp is not None
    ]
    staying = [view.machine for view in machines if view.machine.metadata.deletion_timestamp is None]
    unhealthy = [machine.metadata.name for machine in staying if awaits_remediation(machine)]
    existing, wanted = len(staying), desired_replicas(control_plane.decode(KubeadmControlPlane))
    is_missing = REPLACING in control_plane.metadata.annotations or set(named) - {view.name for view in machines}
    if len(unhealthy) >= existing:
        return ""
    if being_deleted or unhealthy:
        return f"Machine {(being_deleted or unhealthy)[0]} is being replaced before the next node is upgraded"
    if existing < wanted and (is_missing or existing == _TWO_MEMBERS):
        return f"{existing} of {wanted} control plane machines exist: Cluster API creates one before the next upgrade"
    return ""


def replacing(control_plane: Object, missing: str) -> Wait:
    """The wait while a lost machine is missing; it names a pause that only a person can remove."""
    paused = control_plane.metadata.annotations.get(PAUSED_ANNOTATION)
    if paused is None or (paused == PAUSED_FOR_UPGRADE and names.is_annotated(control_plane)):
        return Wait(Reason.REPLACING_MACHINE, missing)
    message = f"{missing}, but Cluster API does nothing while KubeadmControlPlane {control_plane.key} is paused"
    advice = f"remove annotation {PAUSED_ANNOTATION} (found {paused or 'an empty value'}) until all machines exist"
    return Wait(Reason.OWNER_PAUSED, f"{message}: {advice}")


class ControlPlaneGroup(Group):
    """A control plane."""

    resource = ControlPlaneUpgrade.resource
    upgrade_type = ControlPlaneUpgrade
    owner_resource = KubeadmControlPlane.resource
    annotation = IN_PLACE_CONTROL_PLANE
    finalizer = CONTROL_PLANE_FINALIZER
    node_type: ClassVar[NodeType] = "ControlPlane"

    def name(self, owner: str) -> str:
        """Name of the ControlPlaneUpgrade."""
        return names.control_plane_upgrade(owner)

    def upgrade(self, metadata: ObjectMeta, owner: Object, machines: list[ObjectReference]) -> ControlPlaneUpgrade:
        """The ControlPlaneUpgrade, with the version of etcd if the control plane sets it."""
        spec = owner.decode(KubeadmControlPlane).spec
        configuration = spec.kubeadm_config_spec.cluster_configuration
        local = configuration.etcd.local if configuration and configuration.etcd else None
        return ControlPlaneUpgrade(
            metadata=metadata,
            spec=ControlPlaneUpgradeSpec(
                control_plane=names.reference(self.owner_resource, owner),
                machines_require_upgrade=machines,
                kubernetes_version=spec.version,
                etcd_version=(local.image_tag if local else "") or None,
                control_plane_spec_data=expected.encoded(self.asked_for(owner)),
            ),
        )

    def owner_of(self, upgrade: Upgrade) -> tuple[ObjectReference, str]:
        """The reference to the KubeadmControlPlane, and its encoded spec."""
        if not isinstance(upgrade, ControlPlaneUpgrade):
            raise TypeError(upgrade)
        return upgrade.spec.control_plane, upgrade.spec.control_plane_spec_data

    def asked_for(self, owner: Object) -> Tree:
        """The parts of the spec that machines are created from."""
        spec = owner.tree["spec"]
        return {part: spec[part] for part in ("version", "kubeadmConfigSpec", "machineTemplate") if part in spec}

    def due(self, capi_objects: ClusterAPIObjects, owner: Object) -> DueMachines:
        """The outdated machines; none if as many other machines as replicas are up to date.

        Then the outdated machines are left from a reverted rollout, and Cluster API removes them first.
        """
        control_plane = owner.decode(KubeadmControlPlane)
        staying = [view for view in capi_objects.machines_of(owner) if view.machine.metadata.deletion_timestamp is None]
        changes = [(view, classified(capi_objects, control_plane, view)) for view in staying]
        machines = tuple(
            view for view, change in changes if change.is_outdated or view.lost_config or view.is_unfinished
        )
        if len(staying) - len(machines) >= max(1, desired_replicas(control_plane)):
            return DueMachines((), (), is_due=False)
        refused = tuple(dict.fromkeys(field for _, change in changes for field in change.refused))
        return DueMachines(machines, refused, bool(machines))

    def lost(self, capi_objects: ClusterAPIObjects, owner: Object, machines: Sequence[str]) -> str:
        """The message on machines that are missing, being deleted, or to be remediated; empty if there are none."""
        return lost(owner, capi_objects.machines_of(owner), machines)

    def is_expected(self, _capi_objects: ClusterAPIObjects, wanted: Tree, version: str, machine: MachineView) -> bool:
        """True if Cluster API would not roll the machine out, and the Machine records its ClusterConfiguration."""
        try:
            spec = msgspec.convert(wanted, KubeadmControlPlaneSpec)
        except msgspec.ValidationError:
            return False
        spec.version = version
        change = machine_change.machine_change(
            machine.parts, machine_change.of_control_plane(KubeadmControlPlane(spec=spec))
        )
        wanted_machine = expected.control_plane_machine(wanted, version)
        return change.kind is not ChangeKind.REPLACE and not expected.missing(machine.object.tree, wanted_machine)

    def problem(self, scope: GroupScope) -> Wait | None:
        """A foreign machine, external etcd, a version that kubeadm can't upgrade to, or changes that are refused."""
        if scope.owner is None or scope.cluster_view is None:
            return None
        control_plane = scope.owner.decode(KubeadmControlPlane)
        name = f"KubeadmControlPlane {scope.owner.key}"
        for member in scope.members:
            if member.machine and scope.owner.metadata.uid not in by_controller(member.machine.object):
                return Wait(Reason.MACHINE_OF_ANOTHER_OWNER, f"Machine {member.name} does not belong to {name}")
        configuration = control_plane.spec.kubeadm_config_spec.cluster_configuration
        if configuration and configuration.etcd and configuration.etcd.external:
            return Wait(
                Reason.EXTERNAL_ETCD,
                f"{name} has external etcd: such control planes can't be upgraded in place",
            )
        problem = shared_problem(scope, name, control_plane.spec.version, self.asked_for(scope.owner))
        if problem:
            return problem
        for member in scope.members:
            if member.machine and not member.is_done:
                refused = classified(scope.cluster_view.capi_objects, control_plane, member.machine).refused
                if refused:
                    return Wait(
                        Reason.FIELDS_NOT_CHANGEABLE_IN_PLACE,
                        in_place_fields.sentence(refused, f"Machine {member.name}"),
                    )
        return None

    def obstacle(self, scope: GroupScope, member: Member | None) -> Wait | None:
        """Other control plane nodes that are not healthy, or too few for a majority."""
        workload = scope.cluster_view.workload if scope.cluster_view else None
        if scope.cluster_view is None or workload is None:
            return (
                scope.cluster_view.unreachable
                if scope.cluster_view
                else Wait(Reason.CACHE_NOT_SYNCED, "reading the cluster")
            )
        machines = scope.cluster_view.capi_objects.machines_of(scope.owner) if scope.owner else []
        members = [member.name for member in scope.members]
        missing = lost(scope.owner, machines, members) if scope.owner else ""
        if scope.owner and missing:
            return replacing(scope.owner, missing)
        if scope.owner and REPLACING in scope.owner.metadata.annotations:
            return Wait(Reason.REPLACING_MACHINE, "a lost machine was replaced; pausing Cluster API again")
        wanted = desired_replicas(scope.owner.decode(KubeadmControlPlane)) if scope.owner else 0
        rollout = health.rolled_out([view.name for view in machines], wanted, members)
        if rollout and member is not None:
            return Wait(Reason.ROLLOUT_IN_PROGRESS, rollout)
        node = member.machine.node if member and member.machine else ""
        unhealthy = health.obstacle(workload.nodes(), workload.control_plane_pods(), node, len(machines))
        when = f"before node {node} is upgraded" if node else "after the last node"
        return Wait(Reason.CONTROL_PLANE_UNHEALTHY, f"{when}: {unhealthy}") if unhealthy else None

    def node_upgrade_extras(self, scope: GroupScope, member: Member) -> Tree:
        """The version of etcd, files and kubelet flags, and whether the node is the first to be upgraded."""
        is_first = not any(member.upgrade for member in scope.members)
        etcd = scope.upgrade.spec.etcd_version if isinstance(scope.upgrade, ControlPlaneUpgrade) else None
        wanted = (scope.wanted or {}).get("kubeadmConfigSpec") or {}
        changes = expected.changes(member.machine, wanted)
        return {"firstNodeToBeUpgraded": is_first, "bootstrapChanges": changes} | (
            {"etcdVersion": etcd} if etcd else {}
        )

    async def record(self, writer: Writer, scope: GroupScope, machine: MachineView) -> None:
        """Update Machine, KubeadmConfig and infrastructure machine, in the order of EKS Anywhere's proposal."""
        for resource, object_, patch in _patches(scope.wanted or {}, scope.version, machine):
            await writer.merge(resource, object_, patch)

    def remaining(self, scope: GroupScope) -> list[str]:
        """The Machines that Cluster API would replace, with the fields that differ, as it compares them."""
        if scope.owner is None or scope.cluster_view is None:
            return []
        desired = machine_change.of_control_plane(scope.owner.decode(KubeadmControlPlane))
        remaining = []
        for member in scope.members:
            change = machine_change.machine_change(member.machine.parts, desired) if member.machine else None
            if change is not None and change.kind is ChangeKind.REPLACE and not member.is_gone:
                remaining.append(f"Machine {member.name} ({', '.join(change.fields)})")
        return remaining

    def status(
        self, counts: Counts, ready: bool, conditions: list[Condition], generation: int
    ) -> tuple[Observed, Tree]:
        """The status, and defaults with which its counts are written even if they are 0."""
        status = ControlPlaneUpgradeStatus(counts.left, counts.upgraded, ready, conditions, generation)
        return status, {"requireUpgrade": 0, "upgraded": 0, "ready": False}


def _patches(wanted: Tree, version: str, machine: MachineView) -> Iterator[tuple[Resource, Object, Tree]]:
    """The patches of a machine's objects: kind, object and merge patch, in the order in which they are written."""
    yield Machine.resource, machine.object, expected.control_plane_machine(wanted, version)
    if machine.config is not None:
        present = machine.config.tree.get("spec") or {}
        after = expected.control_plane_config(wanted, version, present)
        forgotten = {"annotations": {CERTIFICATES_EXPIRY: None}}  # kubeadm has renewed them, so the date is former
        patch = {"metadata": forgotten, "spec": expected.replacement(present, after)}
        yield KubeadmConfig.resource, machine.config, patch
    template = ((wanted.get("machineTemplate") or {}).get("spec") or {}).get("infrastructureRef")
    if machine.infrastructure is not None and template and machine.infrastructure_kind:
        yield machine.infrastructure_kind, machine.infrastructure, expected.infrastructure_machine(template)
