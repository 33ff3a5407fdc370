"""Rollouts of control planes and worker node groups that a command asks Cluster API for, beside any change of a spec.

A restart is `spec.rollout.after` of the KubeadmControlPlane or MachineDeployment: Cluster API replaces the machines
that were created before that time. The manager does not render this field, so it never takes it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from espalier.api import conditions
from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import PAUSED_FOR_UPGRADE
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION
from espalier.api.identity import ClusterIdentity
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.listing import counted, first
from espalier.cli.clusters.git import from_git
from espalier.cli.clusters.reports.waiting import BACKGROUND
from espalier.cli.kit.failures import Failure, Overdue, Usage
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.kit.printing.tables import Selection, watch_objects
from espalier.clusterapi import contract, names
from espalier.clusterapi.machines.rollouts import is_before_rollout, outdated_machines
from espalier.clusters.design.names import deployment_of_group
from espalier.clusters.design.render_input import group_name
from espalier.clusters.observe import adoptions
from espalier.clusters.observe.scope import read as read_cluster
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object

CONTROL_PLANE = "the control plane"
_IN_PLACE = "InPlace"
_PAUSE, _PAUSES = 0.1, 15
"""Seconds between two looks at the API server's clock, and their number: together longer than a second."""


@dataclass(frozen=True)
class Target:
    """The owner of the machines of a control plane, or of a worker node group in one failure domain."""

    object: Object
    typed: KubeadmControlPlane | MachineDeployment
    group: str
    """The worker node group; empty for the control plane."""
    is_in_place: bool = False
    """True if its machines are upgraded in place, because there may be no room for others."""

    @property
    def title(self) -> str:
        """Its name in sentences."""
        return f"worker node group {self.group}" if self.group else CONTROL_PLANE

    @property
    def after(self) -> str | None:
        """`spec.rollout.after`."""
        return self.typed.spec.rollout.after if self.typed.spec.rollout else None

    @property
    def is_paused(self) -> bool:
        """True if Cluster API does nothing for it."""
        is_held = isinstance(self.typed, MachineDeployment) and bool(self.typed.spec.paused)
        return is_held or contract.PAUSED_ANNOTATION in self.object.metadata.annotations

    @property
    def selector(self) -> str:
        """Label selector of its machines."""
        of_cluster = f"{names.CLUSTER}={self.typed.metadata.labels.get(names.CLUSTER, '')}"
        if self.group:
            return f"{of_cluster},{names.DEPLOYMENT}={self.object.name}"
        return f"{of_cluster},{names.CONTROL_PLANE_NAME_LABEL}={self.object.name}"


async def cluster(client: Client, key: Key) -> Object:
    """The Cluster of a command. Raises `Failure` if it does not exist, or is being moved."""
    try:
        owner = await client.get(Cluster.resource, key.name, key.namespace)
    except NotFound as error:
        if error.is_of_kind:
            raise
        raise Failure(f"cluster {key} does not exist; `espalier get clusters -A` lists those that do") from None
    if MOVE_ANNOTATION in owner.metadata.annotations:
        raise Failure(f"cluster {key} is being moved to another management cluster: give the command there afterwards")
    return owner


async def targets(client: Client, owner: Object, groups: Sequence[str], *, control_plane: bool) -> list[Target]:
    """The owners of machines that a command names, the control plane first. Raises `Usage` for an unknown group."""
    typed, identity = read_cluster(owner), ClusterIdentity.of(owner.key)
    namespace, labels = identity.capi.namespace, f"{names.CLUSTER}={identity.name}"
    adopted = await adoptions.read(client, partial(output.say_wrapped, stderr=True))
    chosen: list[Target] = []
    if control_plane:
        configuration = typed.spec.control_plane_configuration
        strategy = configuration.upgrade_rollout_strategy if configuration else None
        listed = await client.list(KubeadmControlPlane.resource, namespace, labels=labels)
        chosen += [
            Target(item, item.decode(KubeadmControlPlane), "", strategy is not None and strategy.type == _IN_PLACE)
            for item in listed.items
            if adopted.owner_of(KubeadmControlPlane.resource, item) == owner.key
        ]
        if not chosen:
            raise Failure(
                f"cluster {owner.key} has no control plane of Cluster API here: it is not created yet, or is the "
                "record of a management cluster whose machines are elsewhere"
            )
    if groups:
        configured = typed.spec.worker_node_group_configurations or ()
        strategies = {group_name(group): group.upgrade_rollout_strategy for group in configured}
        listed = await client.list(MachineDeployment.resource, namespace, labels=labels)
        of_group: dict[str, list[Target]] = {}
        for item in sorted(listed.items, key=lambda item: item.name):
            if adopted.owner_of(MachineDeployment.resource, item) == owner.key:
                group = deployment_of_group(item.metadata, identity.name).removeprefix(f"{identity.name}-")
                strategy_ = strategies.get(group)
                in_place = strategy_ is not None and strategy_.type == _IN_PLACE
                of_group.setdefault(group, []).append(Target(item, item.decode(MachineDeployment), group, in_place))
        for group in dict.fromkeys(groups):
            if group not in of_group:
                allowed = first(sorted(of_group), 10) or "none: the cluster has no worker node groups"
                raise Usage(f"GROUP: found {group}, allowed: {allowed}; --control-plane for the control plane")
            chosen += of_group[group]
    return chosen


async def check_restart(client: Client, chosen: Sequence[Target], *, replaces_in_place: bool) -> None:
    """Raises `Failure` for a restart that Cluster API would not do, or that may lack room for machines."""
    for target in chosen:
        if target.object.metadata.annotations.get(contract.PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE:
            raise Failure(f"{target.title} is being upgraded in place: wait for it (`espalier upgrades list`)")
        if target.is_paused:
            raise Failure(f"the rollout of {target.title} is paused: `espalier rollout resume` it before")
        after = conditions.parse_timestamp(target.after or "")
        if after is not None and after > await server_time(client):
            raise Failure(
                f"spec.rollout.after of {_name(target)}: found {target.after}, which is to come; remove it before: it "
                "replaces all machines then"
            )
        if target.is_in_place and not replaces_in_place:
            raise Failure(
                f"{target.title} is upgraded in place (upgradeRolloutStrategy), and a rollout replaces its machines, "
                "each by another one that must have room beside it: give --replace-machines if there is room"
            )
    if chosen:
        name = chosen[0].typed.metadata.labels.get(names.CLUSTER, "")
        owner = (await client.get(capi.Cluster.resource, name, chosen[0].object.namespace)).decode(capi.Cluster)
        if owner.spec.paused or contract.PAUSED_ANNOTATION in owner.metadata.annotations:
            raise Failure(f"Cluster {name} of Cluster API is paused, so nothing is replaced: unpause it before")


async def restart(client: Client, chosen: Sequence[Target]) -> str:
    """Ask for the replacement of all present machines, and return the time before which they were created."""
    after = conditions.timestamp(await _after_all(client, chosen))
    for target in chosen:
        await _patch(client, target, {"spec": {"rollout": {"after": after}}})
    return after


async def _after_all(client: Client, chosen: Sequence[Target]) -> datetime:
    """The present second, which none of the machines was created in: Cluster API compares whole seconds, and would keep
    such a machine. A time to come is no way out, since nothing has Cluster API look again when it has come."""
    created = [
        conditions.parse_timestamp(machine.metadata.creation_timestamp or "")
        for target in chosen
        for machine in (await client.list(Machine.resource, target.object.namespace, labels=target.selector)).items
    ]
    newest = max(filter(None, created), default=None)
    for _ in range(_PAUSES):
        now = (await server_time(client)).replace(microsecond=0)
        if newest is None or now > newest:
            break
        await asyncio.sleep(_PAUSE)
    return now


async def pause(client: Client, target: Target) -> bool:
    """Pause the rollout; False if it was paused already. Raises `Failure` during an upgrade in place."""
    if target.object.metadata.annotations.get(contract.PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE:
        raise Failure(f"{target.title} is being upgraded in place, machine by machine: it can't be paused here")
    if target.is_paused:
        return False
    await _set_pause(client, target, paused=True)
    return True


async def resume(client: Client, target: Target) -> bool:
    """Resume the rollout; False if it was not paused. Raises `Failure` during an upgrade in place."""
    if target.object.metadata.annotations.get(contract.PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE:
        raise Failure(f"{target.title} is being upgraded in place: the pause ends with the upgrade")
    if not target.is_paused:
        return False
    await _set_pause(client, target, paused=False)
    return True


async def _set_pause(client: Client, target: Target, *, paused: bool) -> None:
    annotations = {"metadata": {"annotations": {contract.PAUSED_ANNOTATION: "true" if paused else None}}}
    if not target.group:
        await _patch(client, target, annotations)
        return
    spec: Tree = {"spec": {"paused": True if paused else None}}
    await _patch(client, target, spec if paused else spec | annotations)


@dataclass(frozen=True)
class Undo:
    """The effects of taking back a restart that is under way."""

    target: Target
    stay: int
    """The machines that were not replaced yet."""
    again: int = 0
    """The machines that were replaced, and would be replaced once more: Cluster API keeps one MachineSet of a group."""


async def undo_of(client: Client, owner: Object, target: Target) -> Undo:
    """Raises `Failure` if no restart is under way, for a changed spec, with where it is changed back, and for a restart
    that would go on without its request.
    """
    machines = await client.list(Machine.resource, target.object.namespace, labels=target.selector)
    old = older(machines.items, target.after, await server_time(client))
    if target.after is not None and old:
        if isinstance(target.typed, MachineDeployment):
            return await _undo_of_group(client, target, target.typed, len(old), len(machines.items) - len(old))
        return Undo(target, len(old))
    if await _outdated(client, target):
        await from_git.check_change(client, owner)
        raise Failure(
            f"{target.title} is rolled out because the spec of cluster {owner.key} was changed, and the manager would "
            "write it again: change the spec back in your manifest, and apply it (`espalier plan -f FILE` shows what "
            "happens then)"
        )
    raise Failure(f"{target.title}: there is nothing to undo, no restart is under way")


async def _undo_of_group(client: Client, target: Target, typed: MachineDeployment, old: int, new: int) -> Undo:
    """Cluster API keeps the MachineSet with most replicas, the oldest of equal ones, and empties the others."""
    sets = [item.decode(MachineSet) for item in await _sets(client, target)]
    current = [each for each in sets if not outdated_machines(typed, [each])]
    if new and current:
        stays = min(current, key=lambda each: (-(each.spec.replicas or 0), each.metadata.creation_timestamp or ""))
        if not is_before_rollout(stays.metadata.creation_timestamp, target.after, datetime.max.replace(tzinfo=UTC)):
            raise Failure(
                f"{target.title}: {new} of {counted(old + new, 'machine')} are new already, and Cluster API would "
                "go on, because it keeps those of which there are most: let the restart end, or keep all as they are "
                "with `espalier rollout pause`"
            )
    return Undo(target, old, new)


async def undo(client: Client, target: Target) -> None:
    """Take back a restart."""
    await _patch(client, target, {"spec": {"rollout": {"after": None}}})


async def _sets(client: Client, target: Target) -> Sequence[Object]:
    labels = f"{names.DEPLOYMENT}={target.object.name}"
    return (await client.list(MachineSet.resource, target.object.namespace, labels=labels)).items


async def _outdated(client: Client, target: Target) -> int:
    if isinstance(target.typed, KubeadmControlPlane):
        return (target.typed.status.replicas or 0) - contract.up_to_date_replicas(target.typed)
    return outdated_machines(target.typed, [item.decode(MachineSet) for item in await _sets(client, target)])


def older(machines: Sequence[Object], after: str | None, now: datetime) -> list[Object]:
    """The machines that were created before that time."""
    return [machine for machine in machines if is_before_rollout(machine.metadata.creation_timestamp, after, now)]


async def until_replaced(client: Client, target: Target, after: str, *, timeout: float, progress: Progress) -> int:
    """Returns the number of machines once all are newer than `after`, and ready.

    Raises `Overdue` after `timeout` seconds with how many were replaced.
    """
    selection = Selection(Machine.resource, target.object.namespace, labels=target.selector)
    wanted, sentence = contract.desired_replicas(target.typed), f"waiting for Cluster API to replace {target.title}"
    try:
        async with asyncio.timeout(timeout), aclosing(_changes(client, selection)) as changes:
            async for machines in changes:
                old, ready = older(machines, after, datetime.max.replace(tzinfo=UTC)), sum(map(_is_ready, machines))
                if not old and len(machines) == wanted == ready:
                    return wanted
                new = len(machines) - len(old)
                sentence = f"{target.title}: {new} of {counted(wanted, 'machine')} new, {len(old)} old, {ready} ready"
                progress.wait(sentence)
    except TimeoutError:
        raise Overdue(f"{sentence} after {timeout:g} s. {BACKGROUND}") from None
    raise AssertionError("a watch ends by an error alone")


async def _changes(client: Client, selection: Selection) -> Any:
    """The machines of a selection: now, and whenever one of them changes."""
    yield (await client.list(selection.resource, selection.namespace, labels=selection.labels)).items
    async with aclosing(watch_objects(client, selection)) as states:
        async for _ in states:
            yield (await client.list(selection.resource, selection.namespace, labels=selection.labels)).items


def _is_ready(machine: Object) -> bool:
    return conditions.is_true(machine.decode(Machine).status.conditions, "Ready")


async def server_time(client: Client) -> datetime:
    """The clock of the API server, which creation times come from; this machine's, if it tells none."""
    from espalier.kube.transports.wire import Request  # noqa: PLC0415

    response = await client.raw(Request("GET", "/version"))
    date = response.headers.get("date", "")
    try:
        return parsedate_to_datetime(date).astimezone(UTC)
    except (TypeError, ValueError):
        return datetime.now(UTC)


async def _patch(client: Client, target: Target, change: Tree) -> None:
    metadata = {"uid": target.object.metadata.uid} | change.get("metadata", {})
    await client.patch(
        type(target.typed).resource,
        target.object.name,
        target.object.namespace,
        patch=change | {"metadata": metadata},
        type=PatchType.MERGE,
    )


def _name(target: Target) -> str:
    return f"{type(target.typed).resource.kind} {target.object.key}"
