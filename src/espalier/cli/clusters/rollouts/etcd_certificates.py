"""The renewal of certificates of an etcd with machines of its own: they are issued for a year when a machine is made.

The request is a line in `postEtcdadmCommands` of the EtcdadmCluster that does nothing on a machine: the controller of
etcd replaces, one at a time, members whose configuration differs. The manager does not render this field, so it never
takes it back. As when the manager changes etcd, the control plane is paused meanwhile: each new endpoint would replace
its machines. A command that is ended leaves that pause; the next one goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from typing import NamedTuple

from espalier.api import conditions
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.identity import ClusterIdentity
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.listing import counted, first
from espalier.cli.clusters.rollouts import rollouts
from espalier.cli.clusters.rollouts.rollouts import Target
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.follow import follow
from espalier.cli.kit.printing.progress import Progress
from espalier.clusterapi import contract, external_etcd, names
from espalier.clusters.report import readiness
from espalier.clusters.report.certificates import expiries
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object

_MARK = "# renewal of certificates requested: "


class Etcd(NamedTuple):
    """An etcd with machines of its own."""

    object: Object
    typed: EtcdadmCluster
    machines: Sequence[Object]

    @property
    def requested(self) -> datetime | None:
        """The time of the last request for a renewal."""
        commands = self.typed.spec.etcdadm_config_spec.post_etcdadm_commands
        marks = [line.rpartition(_MARK)[2] for line in commands if _MARK in line]
        return conditions.parse_timestamp(marks[-1]) if marks else None

    def ends(self) -> dict[str, datetime]:
        """The time at which certificates of each machine end, at the earliest: Cluster API does not report it."""
        return expiries(self.machines)


async def read(client: Client, owner: Key) -> Etcd:
    """The etcd of a cluster. Raises `Failure` if it is not there."""
    identity = ClusterIdentity.of(owner)
    key = identity.key(external_etcd.name(identity.name))
    try:
        object_ = await client.get(external_etcd.RESOURCE, key.name, key.namespace)
    except NotFound:
        raise Failure(f"EtcdadmCluster {key} does not exist: the cluster is not created yet") from None
    labels = f"{names.CLUSTER}={identity.name},{external_etcd.MACHINE_LABEL}={key.name}"
    machines = (await client.list(Machine.resource, key.namespace, labels=labels)).items
    return Etcd(object_, object_.decode(EtcdadmCluster), machines)


def check(etcd: Etcd, target: Target, now: datetime, *, replaces_in_place: bool) -> None:
    """Raises `Failure` if members can't be replaced now."""
    ended = [name for name, moment in etcd.ends().items() if moment <= now]
    if ended:
        raise Failure(
            f"certificates of etcd have ended, or end now ({first(ended, 3)}): a new member can't join. Renew them on "
            "each machine of etcd, as docs/second-day.md says under Certificates, and give this command again"
        )
    if target.is_in_place and not replaces_in_place:
        raise Failure(
            "machines of etcd are replaced, and their new addresses replace those of the control plane, which is "
            "upgraded in place: give --replace-machines if there is room for other machines"
        )
    goes_on = etcd.requested is not None and _is_paused_for_etcd(target)
    if target.is_paused and not goes_on:
        raise Failure(f"the rollout of {target.title} is paused: `espalier rollout resume` it before")
    if not external_etcd.is_ready(etcd.typed) and not goes_on:
        raise Failure(f"{readiness.etcd_progress(etcd.typed)}: give this command again once that is done")


async def renew(client: Client, etcd: Etcd, target: Target, *, timeout: float, progress: Progress) -> str:
    """Replace the machines of etcd, then let Cluster API replace those of the control plane.

    Returns the time before which the machines were made that are replaced. Raises `Overdue` after `timeout` seconds:
    the same command goes on then.
    """
    after, requested = target.after or "", etcd.requested
    if requested is None or not _is_paused_for_etcd(target):
        requested = await _request(client, etcd)
        await _pause(client, target, external_etcd.PAUSED_FOR_ETCD)
    restarted = conditions.parse_timestamp(after)
    if restarted is None or restarted < requested:
        after = await rollouts.restart(client, [target])  # while it is paused: new endpoints replace its machines, too
    sentence = readiness.etcd_progress(etcd.typed)
    try:
        async with (
            asyncio.timeout(timeout),
            aclosing(follow(client, external_etcd.RESOURCE, etcd.object.key)) as states,
        ):
            async for state in states:
                if state is None:
                    raise Failure(f"EtcdadmCluster {etcd.object.key} was deleted")
                typed = state.decode(EtcdadmCluster)
                if external_etcd.is_ready(typed):
                    break
                progress.wait(sentence := readiness.etcd_progress(typed))
    except TimeoutError:
        raise Overdue(
            f"{sentence} after {timeout:g} s. Cluster API goes on; the control plane is paused until the same command "
            "is given again"
        ) from None
    await _pause(client, target, None)
    progress.say(f"etcd: {counted(len(etcd.machines), 'machine')} replaced, with new certificates")
    return after


async def _request(client: Client, etcd: Etcd) -> datetime:
    """Returns the time of the request. One write: the annotation says that members are being replaced until all are."""
    now = (await rollouts.server_time(client)).replace(microsecond=0)
    present = etcd.typed.spec.etcdadm_config_spec.post_etcdadm_commands
    line = f"true {_MARK}{conditions.timestamp(now)}"
    commands = [*(command for command in present if _MARK not in command), line]
    change: Tree = {
        "metadata": {
            "uid": etcd.object.metadata.uid,
            "resourceVersion": etcd.object.resource_version,
            "annotations": {external_etcd.UPGRADING: "true"},
        },
        "spec": {"etcdadmConfigSpec": {"postEtcdadmCommands": commands}},
    }
    key = etcd.object.key
    await client.patch(external_etcd.RESOURCE, key.name, key.namespace, patch=change, type=PatchType.MERGE)
    return now


def _is_paused_for_etcd(target: Target) -> bool:
    return target.object.metadata.annotations.get(contract.PAUSED_ANNOTATION) == external_etcd.PAUSED_FOR_ETCD


async def _pause(client: Client, target: Target, value: str | None) -> None:
    """Pause the control plane, or end such a pause."""
    metadata = {"uid": target.object.metadata.uid, "annotations": {contract.PAUSED_ANNOTATION: value}}
    key, patch = target.object.key, {"metadata": metadata}
    await client.patch(KubeadmControlPlane.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)
