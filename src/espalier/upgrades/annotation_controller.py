"""The annotation front end: what is marked is upgraded in place, and Cluster API goes on once nothing is left to roll.

A KubeadmControlPlane or MachineDeployment is marked by a patched Cluster API, by people, or by our Cluster controller,
which pauses it in the same write. The pause that an upgrade began with ends here, and only where every machine is what
Cluster API would make; a change that can't be made in place is refused, or left to Cluster API by the fallback.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Protocol

from espalier.api import conditions as condition_list
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.eksa.upgrades import (
    FALLBACK_ANNOTATION,
    IN_PLACE_CONTROL_PLANE,
    IN_PLACE_DEPLOYMENT,
    NODE_IN_WORK,
    PAUSED_FOR_UPGRADE,
    REPLACING,
    ControlPlaneUpgrade,
    ControlPlaneUpgradeSpec,
    MachineDeploymentUpgrade,
    MachineDeploymentUpgradeSpec,
    NodeUpgrade,
    ObjectReference,
)
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.resource import Resource
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, PAUSED_ANNOTATION, desired_replicas
from espalier.kube.objects import Object
from espalier.runtime import owners
from espalier.runtime.controller import RESYNC, Controller
from espalier.runtime.mapping import by_controller, owners_of
from espalier.runtime.outcome import Continue, Done, Outcome, Wait
from espalier.runtime.reconciler import Reconciled, Reconciler
from espalier.runtime.writer import found_by_owner
from espalier.upgrades import control_plane_group, deployment_group, expected, names
from espalier.upgrades.cluster_view import ClusterAPIObjects, MachineView
from espalier.upgrades.context import Tools
from espalier.upgrades.control_plane_group import ControlPlaneGroup
from espalier.upgrades.deployment_group import DeploymentGroup
from espalier.upgrades.group import Group
from espalier.upgrades.node_steps import POD_CREATED
from espalier.upgrades.observe import cluster_of
from espalier.upgrades.sequence import Member


@dataclass(frozen=True)
class Due:
    """What is to be done for an owner: machines to upgrade, fields that can't be changed in place."""

    machines: tuple[MachineView, ...]
    refused: tuple[str, ...]
    is_due: bool
    """Whether anything would be rolled; without machines, a MachineSet."""


class Side(Protocol):
    """What differs between control planes and worker node groups."""

    @property
    def owner_resource(self) -> Resource:
        """The kind that is marked."""
        ...

    @property
    def resource(self) -> Resource:
        """The kind of the upgrade."""
        ...

    @property
    def mark(self) -> str:
        """The annotation."""
        ...

    @property
    def group(self) -> Group:
        """The upgraded machines."""
        ...

    def name(self, owner: str) -> str:
        """Name of the upgrade."""
        ...

    def due(self, capi_objects: ClusterAPIObjects, owner: Object) -> Due:
        """What is to be done."""
        ...

    def lost(self, capi_objects: ClusterAPIObjects, owner: Object, upgrade: Object) -> str:
        """The machines that Cluster API has to replace before the upgrade goes on, in a sentence; empty without one."""
        ...

    def data(self, owner: Object) -> str:
        """The spec asked for, as the upgrade carries it."""
        ...

    def data_of(self, upgrade: Object) -> str:
        """The spec that an upgrade carries."""
        ...

    def upgrade(self, metadata: ObjectMeta, owner: Object, machines: list[ObjectReference]) -> Any:
        """The upgrade."""
        ...


class ControlPlaneSide:
    """KubeadmControlPlanes."""

    owner_resource = KubeadmControlPlane.resource
    resource = ControlPlaneUpgrade.resource
    mark = IN_PLACE_CONTROL_PLANE
    group = ControlPlaneGroup()

    def name(self, owner: str) -> str:
        """Name of the ControlPlaneUpgrade."""
        return names.control_plane_upgrade(owner)

    def due(self, capi_objects: ClusterAPIObjects, owner: Object) -> Due:
        """Machines that differ; none while enough others are as they should be.

        Those that differ are of a rollout that was taken back then, and Cluster API removes them first.
        """
        control_plane = owner.decode(KubeadmControlPlane)
        found = [view for view in capi_objects.machines_of(owner) if view.machine.metadata.deletion_timestamp is None]
        changes = [(view, control_plane_group.classified(capi_objects, control_plane, view)) for view in found]
        machines = tuple(view for view, change in changes if change.is_outdated or view.has_lost_config)
        if len(found) - len(machines) >= max(1, desired_replicas(control_plane)):
            return Due((), (), is_due=False)
        refused = tuple(dict.fromkeys(field for _, change in changes for field in change.refused))
        return Due(machines, refused, bool(machines))

    def lost(self, capi_objects: ClusterAPIObjects, owner: Object, upgrade: Object) -> str:
        """Machines that are missing, that go, or that a health check gave up."""
        named = [one.name for one in upgrade.decode(ControlPlaneUpgrade).spec.machines_require_upgrade]
        return control_plane_group.lost(owner, capi_objects.machines_of(owner), named)

    def data(self, owner: Object) -> str:
        """What machines are made of: the number of them is no matter of an upgrade."""
        return expected.encoded(control_plane_group.asked_for(owner))

    def data_of(self, upgrade: Object) -> str:
        """Of a ControlPlaneUpgrade."""
        return upgrade.decode(ControlPlaneUpgrade).spec.control_plane_spec_data

    def upgrade(self, metadata: ObjectMeta, owner: Object, machines: list[ObjectReference]) -> ControlPlaneUpgrade:
        """With the version of etcd, when the control plane names one."""
        spec = owner.decode(KubeadmControlPlane).spec
        configuration = spec.kubeadm_config_spec.cluster_configuration
        local = configuration.etcd.local if configuration and configuration.etcd else None
        return ControlPlaneUpgrade(
            metadata=metadata,
            spec=ControlPlaneUpgradeSpec(
                control_plane=reference(self.owner_resource, owner),
                machines_require_upgrade=machines,
                kubernetes_version=spec.version,
                etcd_version=(local.image_tag if local else "") or None,
                control_plane_spec_data=self.data(owner),
            ),
        )


class DeploymentSide:
    """MachineDeployments."""

    owner_resource = MachineDeployment.resource
    resource = MachineDeploymentUpgrade.resource
    mark = IN_PLACE_DEPLOYMENT
    group = DeploymentGroup()

    def name(self, owner: str) -> str:
        """Name of the MachineDeploymentUpgrade."""
        return names.deployment_upgrade(owner)

    def due(self, capi_objects: ClusterAPIObjects, owner: Object) -> Due:
        """Machines that differ, and the MachineSet."""
        deployment = owner.decode(MachineDeployment)
        sets = deployment_group.sets_of(capi_objects, owner)
        if sets.latest is None:
            return Due((), (), is_due=False)
        change = deployment_group.classified(capi_objects, deployment, sets.latest)
        machines = tuple(deployment_group.outdated(capi_objects, deployment, sets.machines))
        if change.is_outdated:
            known = {view.name for view in machines}
            machines += tuple(view for view in sets.machines if view.has_lost_config and view.name not in known)
        refused = (*change.refused, *(f"machines of MachineSet {name}" for name in sets.older))
        return Due(machines, refused, bool(machines or change.is_outdated or refused))

    def lost(self, capi_objects: ClusterAPIObjects, owner: Object, upgrade: Object) -> str:
        """None: what is left of a worker node group is upgraded without those that are missing."""
        return ""

    def data(self, owner: Object) -> str:
        """What machines are made of."""
        return expected.encoded(owner.tree["spec"]["template"]["spec"])

    def data_of(self, upgrade: Object) -> str:
        """Of a MachineDeploymentUpgrade."""
        return upgrade.decode(MachineDeploymentUpgrade).spec.machine_spec_data

    def upgrade(self, metadata: ObjectMeta, owner: Object, machines: list[ObjectReference]) -> MachineDeploymentUpgrade:
        """With the version of the template."""
        return MachineDeploymentUpgrade(
            metadata=metadata,
            spec=MachineDeploymentUpgradeSpec(
                machine_deployment=reference(self.owner_resource, owner),
                machines_require_upgrade=machines,
                kubernetes_version=owner.decode(MachineDeployment).spec.template.spec.version,
                machine_spec_data=self.data(owner),
            ),
        )


def controller(
    tools: Tools,
    side: Side,
    *,
    by_hooks: bool = False,
    workers: int = 10,
    resync: float = RESYNC,
    rng: random.Random | None = None,
) -> Controller:
    """The controller of the marks on one kind, with its watches.

    With `by_hooks` Cluster API has nodes upgraded by itself: only what annotations began before comes to its end.
    """
    marked = Reconciled(
        side.owner_resource,
        lambda key: tools.observer.marked_one(side.owner_resource, key.name),
        lambda owner: Context(tools, side, owner, _upgrade_of(tools, side, owner), by_hooks=by_hooks),
        lambda _ctx: STEPS,
        lambda _ctx, _outcome: None,
    )
    name = f"{side.owner_resource.kind.lower()}-in-place"
    reconciler = Reconciler(marked, tools.writer, tools.recorder)
    made = Controller(name, reconciler.reconcile, workers=workers, resync=resync, rng=rng)
    tools.observer.watch(made, side.owner_resource, predicate=_marked)
    made.watch(tools.observer.own[side.resource], owners_of(side.owner_resource))
    return made


@dataclass
class Context:
    """One reconcile of one control plane or worker node group, marked or not: marks become upgrades, and go with them.

    Of `object` it is the metadata, until the cluster was read.
    """

    tools: Tools
    side: Side
    object: Object
    upgrade: Object | None
    """The upgrade that was made for the mark."""
    capi_objects: ClusterAPIObjects | None = None
    by_hooks: bool = False


def _upgrade_of(tools: Tools, side: Side, owner: Object) -> Object | None:
    upgrade = tools.observer.upgrade(side.resource, side.name(owner.name))
    if upgrade is not None and owner.metadata.uid not in by_controller(upgrade):
        return None  # written by hand: carried out without a mark, and nothing of ours
    return upgrade


async def end_without_mark(ctx: Context) -> Outcome:
    """An upgrade goes with its mark."""
    if ctx.object.metadata.annotations.get(ctx.side.mark) == "true":
        return Continue()
    if ctx.upgrade is not None:
        await ctx.tools.writer.delete(ctx.side.resource, ctx.upgrade, found_by_owner)
    return Done()


async def leave_to_hooks(ctx: Context) -> Outcome:
    """Two would sequence the same machines: with hooks, a mark without our pause is nobody's but a person's."""
    owner, paused = ctx.object, ctx.object.metadata.annotations.get(PAUSED_ANNOTATION)
    if not ctx.by_hooks or ctx.upgrade is not None or paused == PAUSED_FOR_UPGRADE:
        return Continue()
    found = f"annotation {ctx.side.mark} is taken away: this manager upgrades in place by Cluster API's runtime hooks"
    advice = "set upgradeRolloutStrategy.type of the Cluster to InPlace, or run the manager with --in-place annotations"
    ctx.tools.recorder.event(owner, "Warning", "MarkIgnored", f"{found}; {advice}")
    return await _release(ctx)


async def read_cluster(ctx: Context) -> Outcome:
    """The cluster is read, and shows the owner as it is marked. One that is being deleted is left to Cluster API."""
    owner, side = ctx.object, ctx.side
    if owner.metadata.deletion_timestamp is not None:
        return await _release(ctx)
    cluster_view = ctx.tools.observer.look(cluster_of(owner))
    found = cluster_view.capi_objects.get(side.owner_resource, owner.name) if cluster_view else None
    if cluster_view is None or found is None or found.resource_version != owner.resource_version:
        return Wait("Reading", f"reading cluster {cluster_of(owner)}")
    ctx.object, ctx.capi_objects = found, cluster_view.capi_objects
    return Continue()


async def advance(ctx: Context) -> Outcome:
    """The upgrade is made; once it is done, or another one is asked for, it ends."""
    if ctx.capi_objects is None:
        raise AssertionError("the step `read_cluster` lets nothing pass without it")
    side, writer, owner, upgrade = ctx.side, ctx.tools.writer, ctx.object, ctx.upgrade
    due = side.due(ctx.capi_objects, owner)
    falls_back = bool(due.refused) and owner.metadata.annotations.get(FALLBACK_ANNOTATION) == "RollingUpdate"
    if upgrade is None:
        if falls_back:
            message = f"{', '.join(due.refused)} can't be changed in place: machines are replaced, as asked for"
            ctx.tools.recorder.event(owner, "Warning", "FallbackToRollingUpdate", message)
        if falls_back or not due.is_due:
            return await _release(ctx)
        await writer.create(side.resource, side.upgrade(_metadata(ctx), owner, _references(due)))
        return Wait("UpgradeCreated", f"{side.resource.kind} {side.name(owner.name)} was created")
    is_ready = bool((upgrade.tree.get("status") or {}).get("ready"))
    is_other = side.data_of(upgrade) != side.data(owner)
    if is_other and not falls_back and (node := _under_way(ctx, ctx.capi_objects, upgrade)):
        return Wait("NodeUnderWay", f"waiting for {node}: what it reaches is noted before anything else is begun")
    if falls_back or is_ready or is_other:
        await writer.delete(side.resource, upgrade, found_by_owner)
        return Wait("UpgradeEnds", f"waiting for {side.resource.kind} {upgrade.name} to be gone")
    return Continue()


async def replace_lost(ctx: Context) -> Outcome:
    """Cluster API goes on for as long as a lost machine is to be replaced, and no node is being upgraded.

    It makes the new one as it is asked for now, and waits for it before it does anything else; by then it is paused
    again.
    """
    if ctx.capi_objects is None or ctx.upgrade is None:
        raise AssertionError("the step `advance` lets nothing pass without them")
    lost, annotations = ctx.side.lost(ctx.capi_objects, ctx.object, ctx.upgrade), ctx.object.metadata.annotations
    is_free = not _under_way(ctx, ctx.capi_objects, ctx.upgrade)
    changed: dict[str, str | None] = {}
    if lost and is_free and annotations.get(PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE:
        changed = {PAUSED_ANNOTATION: None, REPLACING: lost}
    elif not lost and REPLACING in annotations:
        changed = {REPLACING: None}
        if PAUSED_ANNOTATION not in annotations:  # else a person has paused it meanwhile
            changed[PAUSED_ANNOTATION] = PAUSED_FOR_UPGRADE
    if changed:
        await ctx.tools.writer.merge(ctx.side.owner_resource, ctx.object, {"metadata": {"annotations": changed}})
    if changed or lost:
        return Wait(names.REPLACING_MACHINE, lost or "a lost machine was replaced")
    return Wait("Upgrading", f"waiting for {ctx.side.resource.kind} {ctx.upgrade.name}")


STEPS = (end_without_mark, leave_to_hooks, read_cluster, advance, replace_lost)
"""From a mark to machines of which Cluster API replaces none."""


def _under_way(ctx: Context, capi_objects: ClusterAPIObjects, upgrade: Object) -> str:
    """A node that goes on to what is asked for, or has it and its Machine does not say so; empty without one."""
    wanted = _wanted(ctx.side, upgrade)
    for found in ctx.tools.observer.node_upgrades(upgrade):
        one = found.decode(NodeUpgrade)
        machine = capi_objects.machine(one.spec.machine.name)
        member = Member(one.spec.machine.name, machine, found, one)
        if machine is None or member.is_gone or found.metadata.deletion_timestamp is not None:
            continue
        is_noted = wanted is None or ctx.side.group.is_expected(
            capi_objects, wanted, one.spec.kubernetes_version, machine
        )
        has_begun = condition_list.is_true(one.status.conditions, POD_CREATED) and not member.has_failed
        if (member.is_done and not is_noted) or (member.is_active and has_begun):
            return f"NodeUpgrade {found.name}"
    return ""


def _wanted(side: Side, upgrade: Object) -> Tree | None:
    """The spec that an upgrade carries; None for one with which nothing can be begun."""
    try:
        return expected.decoded(side.data_of(upgrade))
    except ValueError:
        return None


async def _release(ctx: Context) -> Outcome:
    """Take away the mark, and the pause that came with it: Cluster API goes on."""
    owner = ctx.object
    marks: dict[str, None] = {ctx.side.mark: None, FALLBACK_ANNOTATION: None, REPLACING: None, NODE_IN_WORK: None}
    if owner.metadata.annotations.get(PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE:
        marks[PAUSED_ANNOTATION] = None
    patch: Tree = {"metadata": {"annotations": marks}}
    await ctx.tools.writer.merge(ctx.side.owner_resource, owner, patch)
    return Done()


def _metadata(ctx: Context) -> ObjectMeta:
    owner = ctx.object
    return ObjectMeta(
        name=ctx.side.name(owner.name),
        namespace=owner.namespace,
        labels={CLUSTER_NAME_LABEL: cluster_of(owner)},
        owner_references=[owners.owner_reference(owner)],
    )


def _marked(old: Object | None, new: Object | None) -> bool:
    return any(found is not None and names.is_marked(found) for found in (old, new))


def reference(resource: Resource, object_: Object) -> ObjectReference:
    """A reference to exactly this object."""
    return ObjectReference(
        name=object_.name,
        namespace=object_.namespace,
        kind=resource.kind,
        api_version=resource.api_version,
        uid=object_.metadata.uid,
    )


def _references(due: Due) -> list[ObjectReference]:
    return [reference(Machine.resource, view.object) for view in due.machines]
