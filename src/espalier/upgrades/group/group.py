"""Machines that are upgraded one after the other: what is common to control planes and worker node groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from espalier.api.eksa.group import PAUSED_ANNOTATION
from espalier.api.eksa.upgrades import (
    ControlPlaneUpgrade,
    MachineDeploymentUpgrade,
    NodeType,
    NodeUpgrade,
    ObjectReference,
)
from espalier.api.meta import Condition, Observed, Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi import contract
from espalier.kube.objects import Object
from espalier.runtime.mapping import by_controller
from espalier.runtime.outcome import Wait
from espalier.runtime.writer import Writer
from espalier.upgrades import expected, names, versions
from espalier.upgrades.cluster_view import ClusterAPIObjects, ClusterView, MachineView
from espalier.upgrades.context import Tools
from espalier.upgrades.group.sequence import Counts, Member
from espalier.upgrades.observe import Observer, cluster_of

Upgrade = ControlPlaneUpgrade | MachineDeploymentUpgrade


@dataclass(frozen=True)
class GroupScope:
    """What one reconcile knows of an upgrade of several machines: all it has read, frozen."""

    object: Object
    upgrade: Upgrade
    owner_reference: ObjectReference
    data: str
    """The spec that was asked for, as the upgrade carries it."""
    cluster: str
    """Name of the cluster, empty while it is not known."""
    cluster_view: ClusterView | None
    owner: Object | None
    """The KubeadmControlPlane or MachineDeployment."""
    members: tuple[Member, ...]
    strangers: tuple[str, ...]
    """NodeUpgrades of others under names that are needed."""
    paused_cluster: Key | None = None
    """The Cluster of the machines, if people have paused it."""

    @property
    def version(self) -> str:
        """The Kubernetes version that is asked for."""
        return self.upgrade.spec.kubernetes_version

    @property
    def is_deleted(self) -> bool:
        """Whether deletion was asked for."""
        return self.object.metadata.deletion_timestamp is not None

    @property
    def paused(self) -> str:
        """What keeps it from beginning with another node, and how to go on; empty when nobody asked for that."""
        if PAUSED_ANNOTATION in self.object.metadata.annotations:
            return f"remove annotation {PAUSED_ANNOTATION} to go on"
        if self.paused_cluster is None:
            return ""
        return f"Cluster {self.paused_cluster} is paused, remove annotation {PAUSED_ANNOTATION} from it to go on"

    @cached_property
    def wanted(self) -> Tree | None:
        """The spec that was asked for; None when there is none in the upgrade."""
        try:
            return expected.decoded(self.data)
        except ValueError:
            return None


class Group(Protocol):
    """What differs between control planes and worker node groups."""

    @property
    def resource(self) -> Resource:
        """The kind of the upgrade."""
        ...

    @property
    def type(self) -> type[Upgrade]:
        """Its type."""
        ...

    @property
    def owner_resource(self) -> Resource:
        """The kind of what has the machines."""
        ...

    @property
    def finalizer(self) -> str:
        """By which the upgrade is held."""
        ...

    @property
    def node_type(self) -> NodeType:
        """What the nodes are."""
        ...

    def owner_of(self, upgrade: Upgrade) -> tuple[ObjectReference, str]:
        """The reference to the owner, and the spec asked for."""
        ...

    def is_expected(self, capi_objects: ClusterAPIObjects, wanted: Tree, version: str, machine: MachineView) -> bool:
        """Whether a machine's objects say what was reached on its node."""
        ...

    def problem(self, scope: GroupScope) -> Wait | None:
        """Why the upgrade can't be made, before any node is touched."""
        ...

    def at_once(self, scope: GroupScope) -> int:
        """How many nodes may be upgraded side by side."""
        ...

    def missing(self, scope: GroupScope) -> list[str]:
        """What is out of service beside the nodes that are being upgraded: so many fewer may be begun with."""
        ...

    def obstacle(self, scope: GroupScope, member: Member | None) -> Wait | None:
        """Why this node can't be begun with now; without a member, what is not well after the last one."""
        ...

    def node_upgrade_extras(self, scope: GroupScope, member: Member) -> Tree:
        """More fields of a NodeUpgrade's spec."""
        ...

    async def record(self, writer: Writer, scope: GroupScope, machine: MachineView) -> None:
        """Bring the objects of a machine whose node is upgraded to the expected state."""
        ...

    async def finish(self, writer: Writer, scope: GroupScope) -> None:
        """What is written once all machines are upgraded."""
        ...

    def remaining(self, scope: GroupScope) -> list[str]:
        """What would still be rolled if Cluster API went on now: machines with the fields that differ."""
        ...

    def status(
        self, counts: Counts, ready: bool, conditions: list[Condition], generation: int
    ) -> tuple[Observed, Tree]:
        """The status, and fields that are written in any case."""
        ...


@dataclass(frozen=True)
class GroupContext:
    """One reconcile of one upgrade of several machines."""

    tools: Tools
    group: Group
    scope: GroupScope

    @property
    def object(self) -> Object:
        """The upgrade."""
        return self.scope.object

    @property
    def is_deleted(self) -> bool:
        """Whether deletion was asked for."""
        return self.scope.is_deleted

    @property
    def is_done(self) -> bool:
        """Whether all machines were upgraded."""
        return self.scope.upgrade.status.ready

    @property
    def writer(self) -> Writer:
        """Writes; the caches of the cluster are told as well."""
        cluster_view = self.scope.cluster_view
        return self.tools.writer.with_caches(cluster_view.capi_objects.caches) if cluster_view else self.tools.writer

    @property
    def owner(self) -> str:
        """How the owner is called in sentences."""
        return f"{self.group.owner_resource.kind} {self.scope.object.namespace}/{self.scope.owner_reference.name}"


def observe(observer: Observer, group: Group, found: Object) -> GroupScope:
    """Read everything about one upgrade. Raises `msgspec.ValidationError` when the object is none."""
    upgrade = found.decode(group.type)
    reference, data = group.owner_of(upgrade)
    cluster = cluster_of(found)
    cluster_view = observer.look(cluster) if cluster else None
    owner = cluster_view.capi_objects.get(group.owner_resource, reference.name) if cluster_view else None
    ours = {one.name: one for one in observer.node_upgrades(found)}
    paused = observer.paused_cluster(owner) if owner is not None else None
    scope = GroupScope(found, upgrade, reference, data, cluster, cluster_view, owner, (), (), paused)
    members, strangers = [], []
    for machine in upgrade.spec.machines_require_upgrade:
        name = names.node_upgrade(machine.name)
        object_ = ours.get(name)
        if object_ is None and observer.upgrade(NodeUpgrade.resource, name) is not None:
            strangers.append(name)
        view = cluster_view.capi_objects.machine(machine.name) if cluster_view else None
        is_expected = (
            view is not None
            and cluster_view is not None
            and scope.wanted is not None
            and group.is_expected(cluster_view.capi_objects, scope.wanted, scope.version, view)
        )
        decoded = object_.decode(NodeUpgrade) if object_ else None
        members.append(Member(machine.name, view, object_, decoded, is_expected))
    return replace(scope, members=tuple(members), strangers=tuple(strangers))


def shared_problem(scope: GroupScope, owner: str, wanted_of_owner: str, asked_for: Tree) -> Wait | None:
    """What is wrong with an upgrade of whatever group; `asked_for` is the spec that its owner has now.

    An upgrade that its owner controls is ended and made anew by the controller of the annotations when the owner is
    edited; nobody else has to act.

    A machine that is named by uid may be gone meanwhile. Without one it has to be there: nobody could tell a machine
    that was replaced from one that never was.
    """
    annotations = scope.owner.metadata.annotations if scope.owner else {}
    if scope.wanted is None:
        return Wait("SpecDataInvalid", "the spec that the upgrade carries is no JSON object in base64")
    is_controlled = scope.owner is not None and scope.owner.metadata.uid in by_controller(scope.object)
    if is_controlled and (scope.version != wanted_of_owner or scope.wanted != asked_for):
        return Wait(names.OWNER_EDITED, f"{owner} was edited: another upgrade follows for what it asks for now")
    if scope.version != wanted_of_owner:
        message = f"spec.kubernetesVersion: found {scope.version}, but {owner} asks for {wanted_of_owner}"
        return Wait("VersionDiffers", f"{message}; the machines would be rolled out afterwards")
    if contract.PAUSED_ANNOTATION not in annotations and (scope.owner is None or not names.is_marked(scope.owner)):
        message = f"{owner} is neither paused nor marked for an upgrade in place"
        return Wait("OwnerNotPaused", f"{message}: Cluster API would replace its machines meanwhile; annotate it")
    if scope.wanted != asked_for:
        message = f"the spec that the upgrade carries is not the one that {owner} asks for"
        return Wait("SpecDataDiffers", f"{message}: delete the upgrade, and create it with that")
    named = zip(scope.members, scope.upgrade.spec.machines_require_upgrade, strict=True)
    for index, (member, reference) in enumerate(named):
        field = f"spec.machinesRequireUpgrade[{index}]"
        if wrong := list(names.not_a_machine(field, reference)):
            return Wait("MachineNotFound", "; ".join(map(str, wrong)))
        if member.machine is None:
            if reference.uid or member.upgrade is not None:
                continue
            return Wait("MachineNotFound", f"{field}: Machine {member.name} does not exist")
        if reference.uid and reference.uid != member.machine.machine.metadata.uid:
            message = f"Machine {member.name} is another one than was named: its uid is not {reference.uid}"
            return Wait("MachineNotFound", f"{field}: {message}")
        if member.machine.has_lost_config and not (member.is_done or member.is_gone):
            config = member.machine.machine.spec.bootstrap.config_ref
            what = f"KubeadmConfig {config.name if config else ''} of Machine {member.name} does not exist"
            advice = (
                "restore it, or delete the Machine to have it replaced, unless it is the only one of a control plane"
            )
            return Wait("KubeadmConfigMissing", f"{what}, so what its node lacks is not known: {advice}")
        problem = versions.obstacle(member.machine.machine.spec.version, scope.version)
        if problem:
            return Wait("VersionRefused", f"Machine {member.name}: {problem}")
    if scope.strangers:
        message = f"NodeUpgrade {', '.join(scope.strangers)} is there and belongs to somebody else; delete it"
        return Wait("NodeUpgradeTaken", message)
    return None
