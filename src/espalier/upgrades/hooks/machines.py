"""UpdateMachine: creates a NodeUpgrade and reports its progress, across restarts of the manager and Cluster API.

The NodeUpgrade is deleted once Cluster API has seen the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import json

from espalier.api import conditions
from espalier.api.capi.machine import Machine
from espalier.api.eksa.upgrades import ACCEPTED, PROGRESSING, UPDATE_IN_PROGRESS, NodeUpgrade, NodeUpgradeSpec
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import GOAL, NODE_HAS
from espalier.api.meta import Condition, ObjectMeta, Tree
from espalier.api.resource import Key
from espalier.api.trees import json_trees
from espalier.clusterapi.changes.bootstrap_changes import Traits, changes_since, traits
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.controllers import owners
from espalier.runtime.controllers.writer import Writer, found_by_owner
from espalier.upgrades import expected, names, unfinished
from espalier.upgrades.hooks.queries import DesiredMachine, Queries, Unanswerable, goal
from espalier.upgrades.hooks.wire import MachineObjects, Progress
from espalier.upgrades.node import evidence
from espalier.upgrades.node.containers import KUBELET, POD_CREATED

SOON, LATER = 1, 5
"""Seconds until Cluster API asks again: while a result is near, and while a step runs on the node."""


@dataclass(frozen=True)
class Updates:
    """Upgrades machines. `node_upgrades` is a cache that `writer` updates."""

    queries: Queries
    writer: Writer
    node_upgrades: Cache

    async def update(self, desired: MachineObjects) -> Progress:
        """The progress of a machine; creates its NodeUpgrade if needed. Raises `Unanswerable`, `KubeError`.

        Only the machine's name is taken from the request. The rest of it only saves repeated reads.
        """
        name = desired.machine["metadata"]["name"]
        node_upgrade_object = self.node_upgrades.get(Key(SYSTEM_NAMESPACE, names.node_upgrade(name)))
        node_upgrade = node_upgrade_object.decode(NodeUpgrade) if node_upgrade_object else None
        if (
            node_upgrade_object is not None
            and node_upgrade is not None
            and _is_for(node_upgrade_object, node_upgrade, _requested_goal(desired))
        ):
            return await self._progress(node_upgrade_object, node_upgrade)
        wanted = await self.queries.desired_machine(name)
        if not wanted.version:
            return Progress(f"Machine {name} has no Kubernetes version", failed=True)
        if node_upgrade_object is None or node_upgrade is None:
            return await self._begin(wanted)
        if _is_for(node_upgrade_object, node_upgrade, (wanted.version, wanted.etcd, wanted.goal)):
            return await self._progress(node_upgrade_object, node_upgrade)
        if not is_ours(node_upgrade_object):
            version = node_upgrade.spec.kubernetes_version
            is_other = version != wanted.version
            problem = (
                f"upgrades the node to {version}, not {wanted.version}" if is_other else "lacks some of the changes"
            )
            message = f"NodeUpgrade {node_upgrade_object.name} was not created by the manager, and {problem}"
            return Progress(f"{message}: delete it to have the manager create its own", LATER)
        await self.writer.delete(NodeUpgrade.resource, node_upgrade_object, found_by_owner)
        return Progress(f"waiting for an earlier NodeUpgrade {node_upgrade_object.name} to be deleted", SOON)

    async def record_traits(self, machines: Sequence[Object]) -> None:
        """Annotate Machines with the traits of their nodes, before Cluster API writes the new state.

        Machines that are being updated are skipped, as they have it. Raises `Conflict` if a Machine changed meanwhile,
        and other `KubeError`s: then Cluster API asks again, and only annotations that differ are written.
        """
        pending = [machine for machine in machines if UPDATE_IN_PROGRESS not in machine.metadata.annotations]
        for machine, config in await self.queries.with_configs(pending):
            if config is not None:
                recorded = json.encode(traits(config.tree.get("spec") or {}), order="sorted").decode()
                await self.writer.merge(Machine.resource, machine, {"metadata": {"annotations": {NODE_HAS: recorded}}})

    async def _begin(self, wanted: DesiredMachine) -> Progress:
        try:
            node_upgrade = await self._node_upgrade(wanted)
        except (Unanswerable, KubeError) as error:
            return Progress(f"the node was not changed yet: {error}", LATER)
        await self.writer.create(NodeUpgrade.resource, node_upgrade)
        return Progress(f"NodeUpgrade {node_upgrade.metadata.name} was created", SOON)

    async def _progress(self, node_upgrade_object: Object, node_upgrade: NodeUpgrade) -> Progress:
        """The progress of an upgrade. It is complete only if the node and its pod show that, too."""
        progress = _progress(node_upgrade)
        if progress.retry_after or progress.failed:
            return progress
        try:
            node, pod = await self.queries.node(node_upgrade_object)
        except (Unanswerable, KubeError) as error:
            return Progress(f"the node can't be seen: {error}", LATER)
        if evidence.is_completed(node_upgrade, node, pod):
            return progress
        return Progress(f"the status of NodeUpgrade {node_upgrade_object.name} is being corrected", SOON)

    async def _node_upgrade(self, wanted: DesiredMachine) -> NodeUpgrade:
        machine, labels = wanted.machine, wanted.machine.metadata.labels
        cluster = labels.get(CLUSTER_NAME_LABEL, "")
        is_control_plane = CONTROL_PLANE_LABEL in labels
        group = {DEPLOYMENT_NAME_LABEL: labels[DEPLOYMENT_NAME_LABEL]} if DEPLOYMENT_NAME_LABEL in labels else {}
        is_first = is_control_plane and await self.queries.is_first(cluster, wanted.version)
        changes = changes_since(unfinished.uncertain(_node_has(machine), machine), wanted.bootstrap)
        return NodeUpgrade(
            metadata=ObjectMeta(
                name=names.node_upgrade(machine.name),
                namespace=machine.namespace,
                labels={CLUSTER_NAME_LABEL: cluster, **group},
                annotations={GOAL: wanted.goal},
                owner_references=[owners.owner_reference(machine)],
            ),
            spec=NodeUpgradeSpec(
                machine=names.reference(Machine.resource, machine),
                kubernetes_version=wanted.version,
                etcd_version=wanted.etcd,
                node_type="ControlPlane" if is_control_plane else "Worker",
                first_node_to_be_upgraded=is_first,
                bootstrap_changes=expected.encoded(changes) if changes else "",
            ),
        )


def is_ours(node_upgrade: Object) -> bool:
    """True if the hook created a NodeUpgrade: its Machine controls it."""
    return any(
        owner.controller and owner.kind == Machine.resource.kind for owner in node_upgrade.metadata.owner_references
    )


def _node_has(machine: Object) -> Traits:
    """The traits of a machine's node before this update. Raises `Unanswerable`."""
    try:
        return json_trees.decode(machine.metadata.annotations.get(NODE_HAS, ""), Traits)
    except msgspec.MsgspecError:
        raise Unanswerable(
            f"annotation {NODE_HAS} of Machine {machine.name} is missing or invalid, so the changes to its node are "
            "unknown: delete the Machine to have it replaced"
        ) from None


def _is_for(node_upgrade_object: Object, node_upgrade: NodeUpgrade, wanted: tuple[str, str | None, str]) -> bool:
    """True if a NodeUpgrade is for this version, etcd and bootstrap configuration, which old upgrades do not record."""
    recorded = node_upgrade_object.metadata.annotations.get(GOAL, wanted[2])
    return (node_upgrade.spec.kubernetes_version, node_upgrade.spec.etcd_version, recorded) == wanted


def _requested_goal(desired: MachineObjects) -> tuple[str, str | None, str]:
    """The version, etcd version and bootstrap digest that a request asks for."""
    version = (desired.machine.get("spec") or {}).get("version", "")
    is_control_plane = CONTROL_PLANE_LABEL in (desired.machine["metadata"].get("labels") or {})
    bootstrap: Tree = (desired.bootstrap_config or {}).get("spec") or {}
    tree: Tree | None = bootstrap if is_control_plane else None
    for step in ("clusterConfiguration", "etcd", "local"):
        tree = (tree or {}).get(step)
    return version, (tree or {}).get("imageTag") or None, goal(bootstrap)


def _progress(node_upgrade: NodeUpgrade) -> Progress:
    if node_upgrade.metadata.deletion_timestamp is not None:
        return Progress(f"waiting for an earlier NodeUpgrade {node_upgrade.metadata.name} to be deleted", SOON)
    reported = node_upgrade.status.conditions
    ready = conditions.get(reported, names.READY)
    message = ready.message if ready else "the upgrade of the node is about to start"
    if node_upgrade.is_completed:
        return Progress(message)
    # It failed if neither time nor a repair of the node helps, but only another request.
    return Progress(
        message, SOON if _is_change_near(reported) else LATER, failed=conditions.is_false(reported, ACCEPTED)
    )


def _is_change_near(reported: Sequence[Condition]) -> bool:
    """True if the next change is near: before the pod exists, and once the kubelet is upgraded."""
    is_new = not reported or (
        conditions.is_true(reported, PROGRESSING) and not conditions.is_true(reported, POD_CREATED)
    )
    return is_new or conditions.is_true(reported, KUBELET.condition)
