"""Upgrades of several machines: the scope of a reconcile, and the differences between the kinds of owners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from espalier.api.eksa.upgrades import (
    ControlPlaneUpgrade,
    MachineDeploymentUpgrade,
    NodeType,
    ObjectReference,
)
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition, ObjectMeta, Observed, Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi import contract, kubernetes_versions
from espalier.kube.objects import Object
from espalier.runtime.caches.mapping import by_controller
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer
from espalier.upgrades import expected, names
from espalier.upgrades.group.sequence import Counts, Member
from espalier.upgrades.observed.cluster_view import ClusterAPIObjects, ClusterView, MachineView

Upgrade = ControlPlaneUpgrade | MachineDeploymentUpgrade


@dataclass(frozen=True)
class GroupScope:
    """The scope of one reconcile of an upgrade of several machines: all that was read, frozen."""

    object: Object
    upgrade: Upgrade
    owner_reference: ObjectReference
    data: str
    """The spec that was asked for, encoded as in the upgrade."""
    cluster: str
    """Name of the cluster, empty while it is not known."""
    cluster_view: ClusterView | None
    owner: Object | None
    """The KubeadmControlPlane or MachineDeployment."""
    members: tuple[Member, ...]
    foreign_node_upgrades: tuple[str, ...]
    """NodeUpgrades whose names this upgrade needs, but which do not belong to it."""
    paused_cluster: Key | None = None
    """The Cluster of the machines, if people have paused it."""
    owner_metadata: Object | None = None
    """The owner by its name alone, whichever cluster the labels name."""

    @property
    def version(self) -> str:
        """The Kubernetes version that is asked for."""
        return self.upgrade.spec.kubernetes_version

    @property
    def is_deleted(self) -> bool:
        """True if deletion was asked for."""
        return self.object.metadata.deletion_timestamp is not None

    @property
    def paused(self) -> str:
        """The reason not to start another node, and how to resume; empty if not paused."""
        if PAUSED_ANNOTATION in self.object.metadata.annotations:
            return f"remove annotation {PAUSED_ANNOTATION} to resume"
        if self.paused_cluster is None:
            return ""
        return f"Cluster {self.paused_cluster} is paused, remove annotation {PAUSED_ANNOTATION} from it to resume"

    @cached_property
    def wanted(self) -> Tree | None:
        """The spec that was asked for; None if the upgrade has no valid spec."""
        try:
            return expected.decoded(self.data)
        except ValueError:
            return None


@dataclass(frozen=True)
class DueMachines:
    """The machines of an owner to upgrade, and fields that can't be changed in place."""

    machines: tuple[MachineView, ...]
    refused: tuple[str, ...]
    is_due: bool
    """True if Cluster API would roll anything out: machines, or the MachineSet alone."""


class Group(ABC):
    """The differences between control planes and worker node groups."""

    resource: ClassVar[Resource]
    """The kind of the upgrade."""
    upgrade_type: ClassVar[type[Upgrade]]
    owner_resource: ClassVar[Resource]
    """The kind that owns the machines and gets the annotation."""
    annotation: ClassVar[str]
    """The annotation on the owner."""
    finalizer: ClassVar[str]
    """The finalizer of the upgrade."""
    node_type: ClassVar[NodeType]

    @abstractmethod
    def name(self, owner: str) -> str:
        """Name of the upgrade that is created for an annotation."""

    @abstractmethod
    def upgrade(self, metadata: ObjectMeta, owner: Object, machines: list[ObjectReference]) -> Upgrade:
        """The upgrade that is created for an annotation."""

    @abstractmethod
    def owner_of(self, upgrade: Upgrade) -> tuple[ObjectReference, str]:
        """The reference to the owner, and the encoded spec that was asked for."""

    @abstractmethod
    def asked_for(self, owner: Object) -> Tree:
        """The spec of machines that an owner has now, without replicas."""

    @abstractmethod
    def due(self, capi_objects: ClusterAPIObjects, owner: Object) -> DueMachines:
        """The machines to upgrade."""

    def lost(self, capi_objects: ClusterAPIObjects, owner: Object, machines: Sequence[str]) -> str:
        """A sentence on machines that Cluster API has to replace before the upgrade continues; empty if none."""
        return ""

    @abstractmethod
    def is_expected(self, capi_objects: ClusterAPIObjects, wanted: Tree, version: str, machine: MachineView) -> bool:
        """True if a machine's objects record what was reached on its node."""

    @abstractmethod
    def problem(self, scope: GroupScope) -> Wait | None:
        """The reason why the upgrade can't be done, before any node is changed."""

    def at_once(self, scope: GroupScope) -> int:
        """How many nodes may be upgraded at the same time."""
        return 1

    def missing(self, scope: GroupScope) -> list[str]:
        """Unavailable machines besides those being upgraded; each reduces how many may be started."""
        return []

    @abstractmethod
    def obstacle(self, scope: GroupScope, member: Member | None) -> Wait | None:
        """The reason not to start this node now; without a member, what is not healthy after the last node."""

    @abstractmethod
    def node_upgrade_extras(self, scope: GroupScope, member: Member) -> Tree:
        """Further fields of a NodeUpgrade's spec."""

    @abstractmethod
    async def record(self, writer: Writer, scope: GroupScope, machine: MachineView) -> None:
        """Update the objects of a machine whose node was upgraded to the expected state."""

    async def finish(self, writer: Writer, scope: GroupScope) -> None:  # noqa: B027 - most have nothing left
        """Write what is left once all machines are upgraded."""

    @abstractmethod
    def remaining(self, scope: GroupScope) -> list[str]:
        """The machines that Cluster API would still replace if it resumed now, with the fields that differ."""

    @abstractmethod
    def status(
        self, counts: Counts, ready: bool, conditions: list[Condition], generation: int
    ) -> tuple[Observed, Tree]:
        """The status, and fields that are always written."""


def shared_problem(scope: GroupScope, owner: str, wanted_of_owner: str, asked_for: Tree) -> Wait | None:
    """The problem of an upgrade of any group; `asked_for` is the spec that its owner has now.

    When the owner is edited, the annotation controller deletes an upgrade that the owner controls, and creates a new
    one; nobody else has to act.

    A machine that is named by uid may be gone by now. A machine without a uid must exist, as a replaced machine could
    not be told from a machine that never existed.
    """
    annotations = scope.owner.metadata.annotations if scope.owner else {}
    if scope.wanted is None:
        return Wait(Reason.SPEC_DATA_INVALID, "the spec in the upgrade is not a base64-encoded JSON object")
    is_controlled = scope.owner is not None and scope.owner.metadata.uid in by_controller(scope.object)
    if is_controlled and (scope.version != wanted_of_owner or scope.wanted != asked_for):
        return Wait(Reason.OWNER_EDITED, f"{owner} was edited: a new upgrade with its current spec follows")
    if scope.version != wanted_of_owner:
        message = f"spec.kubernetesVersion: found {scope.version}, but {owner} asks for {wanted_of_owner}"
        return Wait(Reason.VERSION_DIFFERS, f"{message}; Cluster API would roll the machines out afterwards")
    if contract.PAUSED_ANNOTATION not in annotations and (scope.owner is None or not names.is_annotated(scope.owner)):
        message = f"{owner} is neither paused nor annotated for an upgrade in place"
        remedy = f"set annotation {contract.PAUSED_ANNOTATION} on it"
        return Wait(Reason.OWNER_NOT_PAUSED, f"{message}: Cluster API would replace its machines meanwhile; {remedy}")
    if scope.wanted != asked_for:
        message = f"the spec in the upgrade differs from that of {owner}"
        return Wait(Reason.SPEC_DATA_DIFFERS, f"{message}: delete the upgrade, and create it with the current one")
    named = zip(scope.members, scope.upgrade.spec.machines_require_upgrade, strict=True)
    for index, (member, reference) in enumerate(named):
        field = f"spec.machinesRequireUpgrade[{index}]"
        if wrong := list(names.not_a_machine(field, reference)):
            return Wait(Reason.MACHINE_MISSING, "; ".join(map(str, wrong)))
        if member.machine is None:
            if reference.uid or member.upgrade is not None:
                continue
            return Wait(Reason.MACHINE_MISSING, f"{field}: Machine {member.name} does not exist")
        if reference.uid and reference.uid != member.machine.machine.metadata.uid:
            message = f"Machine {member.name} was replaced: its uid is not {reference.uid}"
            return Wait(Reason.MACHINE_MISSING, f"{field}: {message}")
        if (lost := member.machine.lost_config) and not (member.is_done or member.is_gone):
            return Wait(Reason.KUBEADM_CONFIG_MISSING, lost)
        problem = kubernetes_versions.step_obstacle(member.machine.machine.spec.version, scope.version)
        if problem:
            return Wait(Reason.VERSION_REFUSED, f"Machine {member.name}: {problem}")
    if scope.foreign_node_upgrades:
        message = f"NodeUpgrade {', '.join(scope.foreign_node_upgrades)} exists, but not for this upgrade; delete it"
        return Wait(Reason.NODE_UPGRADE_TAKEN, message)
    return None
