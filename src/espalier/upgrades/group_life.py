"""The steps of an upgrade of several machines: in order, one after the other, and recorded as it goes."""

from __future__ import annotations

from espalier.api.capi.machine import Machine
from espalier.api.eksa.group import PAUSED_ANNOTATION
from espalier.api.eksa.upgrades import NodeUpgrade, NodeUpgradeSpec, ObjectReference
from espalier.api.meta import ObjectMeta
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL
from espalier.runtime import owners
from espalier.runtime.outcome import Continue, Done, Outcome, Wait
from espalier.upgrades import names, sequence
from espalier.upgrades.group import GroupPass
from espalier.upgrades.observe import cluster_of
from espalier.upgrades.sequence import Member


async def hold(p: GroupPass) -> Outcome:
    """It stays until its NodeUpgrades are gone."""
    await p.writer.hold(p.group.resource, p.scope.object, p.group.finalizer)
    return Continue()


async def find_cluster(p: GroupPass) -> Outcome:
    """The cluster is known by a label; who made the upgrade by hand need not give it."""
    if p.scope.cluster:
        return Continue()
    owner = p.tools.observer.marked_one(p.group.owner_resource, p.scope.owner_reference.name)
    if owner is None or not cluster_of(owner):
        return Wait("OwnerNotFound", f"{p.owner} does not exist", after=30.0)
    label = {"metadata": {"labels": {CLUSTER_NAME_LABEL: cluster_of(owner)}}}
    await p.writer.bring(p.group.resource, p.scope.object, label)
    return Wait("Reading", f"reading cluster {cluster_of(owner)}")


async def find_owner(p: GroupPass) -> Outcome:
    """The control plane or group of workers is there, and the one that is meant."""
    scope = p.scope
    if scope.site is None:
        return Wait("Reading", f"reading cluster {scope.cluster}")
    uid = scope.owner_reference.uid
    if scope.owner is None or (uid and scope.owner.metadata.uid != uid):
        return Wait("OwnerNotFound", f"{p.owner} does not exist")
    if scope.owner.metadata.deletion_timestamp is not None:
        return Wait("OwnerDeleted", f"{p.owner} is being deleted")
    return Continue()


async def check(p: GroupPass) -> Outcome:
    """What is asked for can be made, before any node is touched; and what is under way is not begun anew."""
    found = p.group.problem(p.scope)
    return Wait(*found) if found else Continue()


async def record(p: GroupPass) -> Outcome:
    """Machines whose node is upgraded say so, each as soon as it is, whatever is asked for meanwhile."""
    members = sequence.to_record(p.scope.members) if p.scope.wanted is not None else []
    for member in members:
        if member.machine is not None:
            await p.group.record(p.writer, p.scope, member.machine)
    if members:
        return _upgrading(p, members[0])
    return Continue()


async def begin(p: GroupPass) -> Outcome:
    """The next node is begun with, when those before it are done and nothing stands in the way."""
    scope = p.scope
    for member in sequence.next_members(scope.members, p.group.at_once(scope) - len(p.group.missing(scope))):
        if PAUSED_ANNOTATION in scope.object.metadata.annotations:
            break
        obstacle = p.group.obstacle(scope, member)
        if obstacle is not None:
            return Wait(*obstacle)
        await p.writer.create(_node_upgrade(p, member))
        if p.group.at_once(scope) == 1:
            return _upgrading(p, member)
    return Continue()


async def await_nodes(p: GroupPass) -> Outcome:
    """All nodes are upgraded."""
    scope = p.scope
    counts = sequence.counts(scope.members)
    total = counts.upgraded + counts.left
    for member in sequence.active(scope.members):
        if member.is_under_way:
            return _upgrading(p, member)
        return Wait(
            member.reason, f"{counts.upgraded} of {total} nodes are upgraded; Machine {member.name}: {member.story}"
        )
    if counts.left and PAUSED_ANNOTATION in scope.object.metadata.annotations:
        message = f"paused after {counts.upgraded} of {total} nodes; remove annotation {PAUSED_ANNOTATION} to go on"
        return Wait(names.PAUSED, message)
    missing = p.group.missing(scope)
    if counts.left and missing:
        told = f"{counts.upgraded} of {total} nodes are upgraded; before the next one is touched: {', '.join(missing)}"
        return Wait("NodesMissing", f"{told}; no more than {p.group.at_once(scope)} may be missing at the same time")
    if counts.left:
        return Wait("Upgrading", f"{counts.upgraded} of {total} nodes are upgraded")
    return Continue()


async def await_health(p: GroupPass) -> Outcome:
    """The group is well after the last node as it was before each."""
    obstacle = p.group.obstacle(p.scope, None) if p.scope.members else None
    return Wait(*obstacle) if obstacle else Continue()


async def finish(p: GroupPass) -> Outcome:
    """Nothing is left that Cluster API would roll when it goes on."""
    await p.group.finish(p.writer, p.scope)
    remaining = p.group.remaining(p.scope)
    if remaining:
        message = f"all nodes are upgraded, but Cluster API would still replace {'; '.join(remaining)}"
        return Wait("WouldRoll", f"{message}; {p.owner} stays paused until these fields are as they were")
    return Done()


LIFE = (find_cluster, hold, find_owner, record, check, begin, await_nodes, await_health, finish)
"""From an upgrade to upgraded machines."""


async def delete_node_upgrades(p: GroupPass) -> Outcome:
    """Nodes that are being upgraded are let come to a whole step first: NodeUpgrades see to that.

    Those that have nothing left on a node hold nothing up: the API server's garbage collection deletes them.
    """
    found = p.tools.observer.node_upgrades(p.scope.object)
    left = [one for one in found if names.NODE_FINALIZER in one.metadata.finalizers]
    for one in left:
        await p.writer.remove(NodeUpgrade.resource, one)
    return Wait("Deleting", f"waiting for {len(left)} NodeUpgrades to be gone") if left else Continue()


async def let_go(p: GroupPass) -> Outcome:
    """Nothing holds it any longer."""
    await p.writer.let_go(p.group.resource, p.scope.object, p.group.finalizer)
    return Continue()


DELETION = (delete_node_upgrades, let_go)
"""From an upgrade to nothing."""


def _upgrading(p: GroupPass, member: Member) -> Wait:
    """All goes well. The steps are told by the NodeUpgrade alone: each would be a write at every level."""
    counts = sequence.counts(p.scope.members)
    told = f"{counts.upgraded} of {counts.upgraded + counts.left} nodes are upgraded"
    return Wait(
        "UpgradingNodes", f"{told}; NodeUpgrade {names.node_upgrade(member.name)} tells how far the next one is"
    )


def _node_upgrade(p: GroupPass, member: Member) -> NodeUpgrade:
    extras = p.group.node_upgrade_extras(p.scope)
    machine = Machine.resource
    return NodeUpgrade(
        metadata=ObjectMeta(
            name=names.node_upgrade(member.name),
            namespace=p.scope.object.namespace,
            labels={CLUSTER_NAME_LABEL: p.scope.cluster},
            owner_references=[owners.owner_reference(p.scope.object)],
            finalizers=[names.NODE_FINALIZER],
        ),
        spec=NodeUpgradeSpec(
            machine=ObjectReference(
                name=member.name,
                namespace=p.scope.object.namespace,
                kind=machine.kind,
                api_version=machine.api_version,
                uid=member.machine.object.metadata.uid if member.machine else "",
            ),
            kubernetes_version=p.scope.version,
            etcd_version=extras.get("etcdVersion"),
            node_type=p.group.node_type,
            first_node_to_be_upgraded=bool(extras.get("firstNodeToBeUpgraded")),
        ),
    )
