"""The steps of an upgrade of several machines, in order."""

from __future__ import annotations

from espalier.api.capi.machine import Machine
from espalier.api.eksa.upgrades import NodeUpgrade, NodeUpgradeSpec, ObjectReference
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import NODE_FINALIZER
from espalier.api.meta import ObjectMeta
from espalier.clusterapi import labels
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers import owners
from espalier.runtime.controllers.outcome import Continue, Done, Outcome, Wait
from espalier.runtime.controllers.writer import found_by_owner
from espalier.upgrades import names
from espalier.upgrades.group import sequence
from espalier.upgrades.group.observe import GroupContext
from espalier.upgrades.group.sequence import Member
from espalier.upgrades.observed import evidence
from espalier.upgrades.observed.observe import cluster_of


async def add_finalizer(ctx: GroupContext) -> Outcome:
    """Keep the upgrade until its NodeUpgrades are gone."""
    await ctx.writer.add_finalizer(ctx.group.resource, ctx.scope.object, ctx.group.finalizer)
    return Continue()


async def find_cluster(ctx: GroupContext) -> Outcome:
    """Set the label with the cluster's name, which an upgrade created by hand may lack."""
    if wrong := list(names.not_an_owner(ctx.scope.upgrade)):
        return Wait(Reason.OWNER_MISSING, "; ".join(map(str, wrong)))
    if ctx.scope.cluster:
        return Continue()
    owner = ctx.tools.observer.owner(ctx.group.owner_resource, ctx.scope.owner_reference.name)
    if owner is None or not cluster_of(owner):
        return Wait(Reason.OWNER_MISSING, f"{ctx.owner} does not exist", after=30.0)
    label = {"metadata": {"labels": {CLUSTER_NAME_LABEL: cluster_of(owner)}}}
    await ctx.writer.merge(ctx.group.resource, ctx.scope.object, label)
    return Wait(Reason.CACHE_NOT_SYNCED, f"reading cluster {cluster_of(owner)}")


async def find_owner(ctx: GroupContext) -> Outcome:
    """Find the KubeadmControlPlane or MachineDeployment that the upgrade refers to."""
    scope = ctx.scope
    if scope.cluster_view is None:
        return Wait(Reason.CACHE_NOT_SYNCED, f"reading cluster {scope.cluster}")
    uid = scope.owner_reference.uid
    if changed := await _changed_labels(ctx):
        return Wait(Reason.LABELS_CHANGED, changed)
    if scope.owner is None or (uid and scope.owner.metadata.uid != uid):
        return Wait(Reason.OWNER_MISSING, f"{ctx.owner} does not exist")
    if scope.owner.metadata.deletion_timestamp is not None:
        return Wait(Reason.OWNER_DELETED, f"{ctx.owner} is being deleted")
    return Continue()


async def _changed_labels(ctx: GroupContext) -> str:
    """The labels for which the owner and its machines are not found in the upgrade's cluster; empty if none."""
    owner = ctx.scope.owner_metadata
    if owner is None:
        return ""
    cluster = labels.cluster_of(owner)
    source = f"{ctx.owner} belongs to cluster {cluster}"
    wrong = [labels.differs(ctx.object, CLUSTER_NAME_LABEL, cluster, source), *labels.mislabelled(owner)]
    for member in ctx.scope.members:
        machine = member.machine.object if member.machine else await _unseen(ctx, member.name)
        wrong += labels.mislabelled(machine) if machine is not None else ()
    return "; ".join(filter(None, wrong))


async def _unseen(ctx: GroupContext, machine: str) -> Object | None:
    """A Machine that is not among those of the cluster; None if it is gone, as a rule."""
    try:
        return await ctx.writer.client.get(Machine.resource, machine, ctx.object.namespace)
    except NotFound:
        return None


async def check(ctx: GroupContext) -> Outcome:
    """Check that the upgrade can be done, before any node is changed."""
    return ctx.group.problem(ctx.scope) or Continue()


async def record(ctx: GroupContext) -> Outcome:
    """Record upgraded nodes on their Machines, each as soon as it is done, even if the owner was edited since."""
    members = sequence.to_record(ctx.scope.members) if ctx.scope.wanted is not None else []
    for member in members:
        if problem := _contradiction(ctx, member):
            return Wait(Reason.NODE_UPGRADE_NOT_COMPLETED, problem)
    for member in members:
        if member.machine is not None:
            await ctx.group.record(ctx.writer, ctx.scope, member.machine)
    if members:
        return _upgrading(ctx, members[0])
    return Continue()


async def begin(ctx: GroupContext) -> Outcome:
    """Start the next node when those before it are done and nothing blocks it."""
    scope = ctx.scope
    for member in sequence.next_members(scope.members, ctx.group.at_once(scope) - len(ctx.group.missing(scope))):
        if scope.paused:
            break
        obstacle = ctx.group.obstacle(scope, member)
        if obstacle is not None:
            return obstacle
        await ctx.writer.create(NodeUpgrade.resource, _node_upgrade(ctx, member))
        if ctx.group.at_once(scope) == 1:
            return _upgrading(ctx, member)
    return Continue()


async def await_nodes(ctx: GroupContext) -> Outcome:
    """Wait until all nodes are upgraded."""
    scope = ctx.scope
    counts = sequence.counts(scope.members)
    total = counts.upgraded + counts.left
    for member in sequence.active(scope.members):
        if member.is_under_way:
            return _upgrading(ctx, member)
        return Wait(
            member.reason, f"{counts.upgraded} of {total} nodes are upgraded; Machine {member.name}: {member.message}"
        )
    if counts.left and scope.paused:
        return Wait(Reason.PAUSED, f"paused after {counts.upgraded} of {total} nodes; {scope.paused}")
    missing = ctx.group.missing(scope)
    if counts.left and missing:
        progress = f"{counts.upgraded} of {total} nodes are upgraded; the next one has to wait: {', '.join(missing)}"
        return Wait(
            Reason.MAX_UNAVAILABLE_REACHED,
            f"{progress}; at most {ctx.group.at_once(scope)} may be unavailable at the same time",
        )
    if counts.left:
        return Wait(Reason.UPGRADING_NODES, f"{counts.upgraded} of {total} nodes are upgraded")
    return Continue()


async def await_health(ctx: GroupContext) -> Outcome:
    """Wait until the group is healthy after the last node, by the same checks as before each node."""
    obstacle = ctx.group.obstacle(ctx.scope, None) if ctx.scope.members else None
    return obstacle or Continue()


async def finish(ctx: GroupContext) -> Outcome:
    """Check that Cluster API would replace nothing when it resumes."""
    await ctx.group.finish(ctx.writer, ctx.scope)
    remaining = ctx.group.remaining(ctx.scope)
    if remaining:
        message = f"all nodes are upgraded, but Cluster API would still replace {'; '.join(remaining)}"
        return Wait(Reason.ROLLOUT_REQUIRED, f"{message}; {ctx.owner} stays paused until these fields are reverted")
    return Done()


STEPS = (find_cluster, add_finalizer, find_owner, record, check, begin, await_nodes, await_health, finish)
"""From an upgrade to upgraded machines."""


async def delete_node_upgrades(ctx: GroupContext) -> Outcome:
    """Delete the NodeUpgrades, which let a running step finish first.

    Those without our finalizer are left to garbage collection.
    """
    node_upgrades = ctx.tools.observer.node_upgrades(ctx.scope.object)
    with_finalizer = [
        node_upgrade for node_upgrade in node_upgrades if NODE_FINALIZER in node_upgrade.metadata.finalizers
    ]
    for node_upgrade in with_finalizer:
        await ctx.writer.delete(NodeUpgrade.resource, node_upgrade, found_by_owner)
    return (
        Wait(Reason.DELETING, f"waiting for {len(with_finalizer)} NodeUpgrades to be deleted")
        if with_finalizer
        else Continue()
    )


async def remove_finalizer(ctx: GroupContext) -> Outcome:
    """Let the API server delete the upgrade."""
    await ctx.writer.remove_finalizer(ctx.group.resource, ctx.scope.object, ctx.group.finalizer)
    return Continue()


DELETION = (delete_node_upgrades, remove_finalizer)
"""From a deleted upgrade to its removal."""


def _upgrading(ctx: GroupContext, member: Member) -> Wait:
    """The wait while all goes well. Only the NodeUpgrade reports its steps, to save a write at every level."""
    counts = sequence.counts(ctx.scope.members)
    progress = f"{counts.upgraded} of {counts.upgraded + counts.left} nodes are upgraded"
    return Wait(
        Reason.UPGRADING_NODES,
        f"{progress}; NodeUpgrade {names.node_upgrade(member.name)} shows the progress of the next one",
    )


def _contradiction(ctx: GroupContext, member: Member) -> str:
    """The message on a completed NodeUpgrade that is not true; empty if its node shows nothing else, or is not seen."""
    view, name = ctx.scope.cluster_view, member.machine.node if member.machine else ""
    workload = view.workload if view and name else None
    if workload is None or member.upgrade is None:
        return ""
    pod = workload.upgrader(name) if member.object else None
    own = pod if pod and member.object and evidence.is_own(pod, member.object) else None
    contradiction = evidence.contradiction(member.upgrade, workload.node(name), own)
    upgrade = f"NodeUpgrade {names.node_upgrade(member.name)}"
    return f"{upgrade} is completed, but {contradiction}: its status is corrected" if contradiction else ""


def _node_upgrade(ctx: GroupContext, member: Member) -> NodeUpgrade:
    extras = ctx.group.node_upgrade_extras(ctx.scope, member)
    machine = Machine.resource
    return NodeUpgrade(
        metadata=ObjectMeta(
            name=names.node_upgrade(member.name),
            namespace=ctx.scope.object.namespace,
            labels={CLUSTER_NAME_LABEL: ctx.scope.cluster},
            owner_references=[owners.owner_reference(ctx.scope.object)],
            finalizers=[NODE_FINALIZER],
        ),
        spec=NodeUpgradeSpec(
            machine=ObjectReference(
                name=member.name,
                namespace=ctx.scope.object.namespace,
                kind=machine.kind,
                api_version=machine.api_version,
                uid=member.machine.object.metadata.uid if member.machine else "",
            ),
            kubernetes_version=ctx.scope.version,
            etcd_version=extras.get("etcdVersion"),
            node_type=ctx.group.node_type,
            first_node_to_be_upgraded=bool(extras.get("firstNodeToBeUpgraded")),
            bootstrap_changes=extras.get("bootstrapChanges", ""),
        ),
    )
