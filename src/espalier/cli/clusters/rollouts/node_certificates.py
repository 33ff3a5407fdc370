"""The renewal of certificates on the nodes of a control plane: a NodeUpgrade for each machine, and none is replaced.

The NodeUpgrades take turns themselves, one node at a time and while the others are healthy. A command that is ended
leaves them to the manager; the next one waits for those that it finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any

from espalier.api import conditions
from espalier.api.capi.machine import Machine
from espalier.api.eksa.upgrades import PAUSED_FOR_UPGRADE, PROGRESSING, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import RETRY_ANNOTATION
from espalier.api.meta import Tree
from espalier.api.text.listing import counted, first
from espalier.cli.clusters.reports.waiting import BACKGROUND, PATIENCE
from espalier.cli.clusters.rollouts.rollouts import Target
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.follow import follow
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.kit.printing.tables import Selection, watch_objects
from espalier.clusterapi import contract, names
from espalier.clusters.report.certificates import expiries
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import BadRequest, NotFound, of_unknown_fields
from espalier.kube.objects import Object

REPORTED_WITHIN = 60.0
"""Seconds for Cluster API to report when the new certificates end; they are in use in any case."""
_SUFFIX = "-certificates"


async def check(client: Client, target: Target) -> None:
    """Raises `Failure` for a control plane whose nodes are changed already, or without a machine."""
    if target.object.metadata.annotations.get(contract.PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE:
        raise Failure(
            f"{target.title} is being upgraded in place, which renews its certificates: wait for it "
            "(`espalier upgrades list`)"
        )
    if not await _machines(client, target):
        raise Failure(f"{target.title} has no machines")


async def renew(client: Client, target: Target, *, timeout: float, progress: Progress) -> None:
    """Renew the certificates of every machine on its node, and wait until all are in use.

    Raises `Failure` if a node needs somebody, `Overdue` after `timeout` seconds; the renewal goes on then.
    """
    machines = await _machines(client, target)
    before = expiries(machines)
    done = f"{counted(len(machines), 'node')} renewed"
    sentence = f"waiting for the manager to renew certificates on {counted(len(machines), 'node')}"
    progress.wait(sentence)
    selection = Selection(NodeUpgrade.resource, SYSTEM_NAMESPACE, labels=_of_cluster(target))
    try:
        async with asyncio.timeout(timeout), aclosing(watch_objects(client, selection)) as states:
            # A former NodeUpgrade is gone once the manager has removed its finalizer: not while none runs.
            wanted = [await _requested(client, machine) for machine in machines]
            async for _ in states:
                present = await _present(client, selection, wanted)
                if all(upgrade.is_completed for upgrade in present.values()):
                    break
                if _in_need(present):
                    await asyncio.sleep(PATIENCE)
                    present = await _present(client, selection, wanted)
                if needy := _in_need(present):
                    raise Failure(
                        f"{_sentence(needy)}. Then give this command again; to give the renewal up, delete NodeUpgrade "
                        f"{first([upgrade.metadata.name for upgrade in present.values()], 10)}"
                    )
                progress.wait(sentence := _progress(present.values()))
    except TimeoutError:
        raise Overdue(f"{sentence} after {timeout:g} s. {BACKGROUND}") from None
    for upgrade in (await _present(client, selection, wanted)).values():
        with suppress(NotFound):
            await client.delete(NodeUpgrade.resource, upgrade.metadata.name, SYSTEM_NAMESPACE, uid=upgrade.metadata.uid)
    progress.say(f"{target.title}: certificates of {done}, and in use")
    await _report_ends(client, target, before, progress)


async def _machines(client: Client, target: Target) -> list[Object]:
    listed = await client.list(Machine.resource, target.object.namespace, labels=target.selector)
    staying = [machine for machine in listed.items if machine.metadata.deletion_timestamp is None]
    return sorted(staying, key=lambda machine: machine.name)


async def _requested(client: Client, machine: Object) -> str:
    """The uid of the NodeUpgrade of a machine: one that is not done is retried, else there is a new one."""
    name = f"{machine.name}{_SUFFIX}"
    try:
        present = await client.get(NodeUpgrade.resource, name, SYSTEM_NAMESPACE)
    except NotFound as error:
        if not error.is_of_kind:
            return await _created(client, machine, name)
        raise
    typed = present.decode(NodeUpgrade)
    is_ours = typed.spec.certificates_only and typed.spec.machine.uid == machine.metadata.uid
    if is_ours and not typed.is_completed and present.metadata.deletion_timestamp is None:
        retry = {"metadata": {"uid": present.metadata.uid, "annotations": {RETRY_ANNOTATION: "true"}}}
        await client.patch(NodeUpgrade.resource, name, SYSTEM_NAMESPACE, patch=retry, type=PatchType.MERGE)
        return present.metadata.uid
    if not typed.spec.certificates_only:
        raise Failure(f"NodeUpgrade {present.key} is in the way: it upgrades a node; wait for it, or delete it")
    with suppress(NotFound):
        await client.delete(NodeUpgrade.resource, name, SYSTEM_NAMESPACE, uid=present.metadata.uid)
    async with aclosing(follow(client, NodeUpgrade.resource, present.key)) as states:
        async for state in states:
            if state is None:
                break  # its controller has removed the finalizer
    return await _created(client, machine, name)


async def _created(client: Client, machine: Object, name: str) -> str:
    """The uid of a new NodeUpgrade. Raises `Failure` where a definition of an earlier release would make it an
    upgrade."""
    try:
        return (await client.create(NodeUpgrade.resource, _upgrade(machine, name))).metadata.uid
    except BadRequest as refusal:
        if not of_unknown_fields(refusal):
            raise
    raise Failure(
        f"CustomResourceDefinition {NodeUpgrade.resource.group_resource} of the management cluster is of an earlier "
        "release, which can't renew certificates on nodes: install the definitions of this one with `espalier upgrade "
        "management-components`, or as the manager was installed"
    )


def _upgrade(machine: Object, name: str) -> Tree:
    typed = machine.decode(Machine)
    reference = {
        "name": machine.name,
        "namespace": machine.namespace,
        "kind": machine.kind,
        "uid": machine.metadata.uid,
    }
    version = typed.status.node_info.get("kubeletVersion") or typed.spec.version
    owner = {
        "apiVersion": Machine.resource.api_version,
        "kind": Machine.resource.kind,
        "name": machine.name,
        "uid": machine.metadata.uid,
    }
    labels = {names.CLUSTER: machine.metadata.labels.get(names.CLUSTER, "")}
    return {
        "apiVersion": NodeUpgrade.resource.api_version,
        "kind": NodeUpgrade.resource.kind,
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "machine": reference,
            "kubernetesVersion": version,
            "nodeType": "ControlPlane",
            "certificatesOnly": True,
        },
    }


def _of_cluster(target: Target) -> str:
    return f"{names.CLUSTER}={target.typed.metadata.labels.get(names.CLUSTER, '')}"


async def _present(client: Client, selection: Selection, wanted: list[str]) -> dict[str, NodeUpgrade]:
    """The NodeUpgrades of these uids. Raises `Failure` if one was deleted: nobody knows what became of its node."""
    listed = await client.list(selection.resource, selection.namespace, labels=selection.labels)
    upgrades = {item.metadata.uid: item.decode(NodeUpgrade) for item in listed.items if item.metadata.uid in wanted}
    if len(upgrades) < len(wanted):
        raise Failure(
            "a NodeUpgrade of this renewal was deleted, so it was given up: certificates of a node may be new or not; "
            "give this command again to renew all"
        )
    return upgrades


def _in_need(upgrades: dict[str, NodeUpgrade]) -> NodeUpgrade | None:
    """A NodeUpgrade for which somebody has to act."""
    return next((each for each in upgrades.values() if conditions.is_false(each.status.conditions, PROGRESSING)), None)


def _sentence(upgrade: NodeUpgrade) -> str:
    ready = conditions.get(upgrade.status.conditions, "Ready")
    return f"NodeUpgrade {upgrade.metadata.name}: {ready.message if ready else 'it has not begun'}"


def _progress(upgrades: Iterable[NodeUpgrade]) -> str:
    listed = list(upgrades)
    done = sum(upgrade.is_completed for upgrade in listed)
    ready = [conditions.get(each.status.conditions, "Ready") for each in listed if not each.is_completed]
    working = [each.message for each in ready if each is not None and each.message and each.reason not in _WAITING]
    text = f"certificates of {done} of {counted(len(listed), 'node')} are renewed"
    return f"{text}; {working[0]}" if working else text


_WAITING = ("ControlPlaneTaken", "CacheNotSynced")
"""Reasons of NodeUpgrades that wait for their turn."""


async def _report_ends(client: Client, target: Target, before: dict[str, datetime], progress: Progress) -> None:
    """Say when the new certificates end, once Cluster API reports it; it looks by itself, so nothing depends on it."""
    progress.wait("waiting for Cluster API to report when they end")
    selection = Selection(Machine.resource, target.object.namespace, labels=target.selector)
    ends: dict[str, Any] = {}
    try:
        async with asyncio.timeout(REPORTED_WITHIN), aclosing(watch_objects(client, selection)) as states:
            async for _ in states:
                machines = await _machines(client, target)
                ends = expiries(machines)
                if len(ends) == len(machines) and not any(ends[name] == before.get(name) for name in ends):
                    progress.say(f"they are valid until {min(ends.values()):%Y-%m-%d}")
                    return
    except TimeoutError:
        progress.say("Cluster API has not reported yet when they end", "[yellow]![/]")
