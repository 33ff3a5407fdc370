"""UpdateMachine: a NodeUpgrade is made, and what it says is told. It outlives the hook, the manager and Cluster API."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.capi.machine import Machine
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import NodeUpgrade, NodeUpgradeSpec, ObjectReference
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.resource import Key
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime import conditions, owners
from espalier.runtime.cache import Cache
from espalier.upgrades import names
from espalier.upgrades.hooks.asking import Questions, Unanswerable
from espalier.upgrades.hooks.wire import MachineObjects, Progress
from espalier.upgrades.writing import Writer

SOON, LATER = 1, 5
"""Seconds until Cluster API asks again: while an answer is near, and while a step is being done on the node."""

HOPELESS = frozenset({"VersionRefused", "WrongNodeType"})
"""Reasons of a NodeUpgrade that neither time nor a repair of the node heals: only another wish does."""

NEAR = frozenset(
    {"Reading", "Retrying", "UncordoningNode", "CleaningUp", "Finishing", "NodeOutdated", "NodeNotReady", "Deleting"}
)
"""Reasons of a NodeUpgrade that pass soon."""


@dataclass(frozen=True)
class Updates:
    """Has machines upgraded. `node_upgrades` is a cache that `writer` tells what was written."""

    questions: Questions
    writer: Writer
    node_upgrades: Cache

    async def bring(self, desired: MachineObjects) -> Progress:
        """How far the machine is on its way to `desired`; its NodeUpgrade is made where there is none."""
        metadata = desired.machine.get("metadata") or {}
        name, version = metadata.get("name", ""), (desired.machine.get("spec") or {}).get("version", "")
        if not version:
            return Progress(
                f"Machine {name} asks for no Kubernetes version: there is nothing to upgrade to", failed=True
            )
        etcd = _etcd(desired) if CONTROL_PLANE_LABEL in (metadata.get("labels") or {}) else None
        found = self.node_upgrades.get(Key(SYSTEM_NAMESPACE, names.node_upgrade(name)))
        if found is None:
            return await self._begin(name, version, etcd)
        made = found.decode(NodeUpgrade)
        if found.metadata.deletion_timestamp is not None:
            return Progress(f"waiting for an earlier NodeUpgrade {found.name} to be gone", SOON)
        if (made.spec.kubernetes_version, made.spec.etcd_version) != (version, etcd):
            if not is_ours(found):
                message = f"NodeUpgrade {found.name} is there and brings the node to {made.spec.kubernetes_version}"
                return Progress(f"{message}: delete it, the machine is to be {version}", LATER)
            await self.writer.remove(NodeUpgrade.resource, found)
            return Progress(f"waiting for an earlier NodeUpgrade {found.name} to be gone", SOON)
        return _told(made)

    async def _begin(self, name: str, version: str, etcd: str | None) -> Progress:
        machine = await self.questions.machine(name)
        try:
            made = await self._node_upgrade(machine, version, etcd)
        except (Unanswerable, KubeError) as error:
            return Progress(f"the node is not touched yet: {error}", LATER)
        await self.writer.create(made)
        return Progress(f"NodeUpgrade {made.metadata.name} was created", SOON)

    async def _node_upgrade(self, machine: Object, version: str, etcd: str | None) -> NodeUpgrade:
        labels = machine.metadata.labels
        cluster = labels.get(CLUSTER_NAME_LABEL, "")
        is_control_plane = CONTROL_PLANE_LABEL in labels
        group = {DEPLOYMENT_NAME_LABEL: labels[DEPLOYMENT_NAME_LABEL]} if DEPLOYMENT_NAME_LABEL in labels else {}
        return NodeUpgrade(
            metadata=ObjectMeta(
                name=names.node_upgrade(machine.name),
                namespace=machine.namespace,
                labels={CLUSTER_NAME_LABEL: cluster, **group},
                owner_references=[owners.owner_reference(machine)],
            ),
            spec=NodeUpgradeSpec(
                machine=ObjectReference(
                    name=machine.name,
                    namespace=machine.namespace,
                    kind=Machine.resource.kind,
                    api_version=Machine.resource.api_version,
                    uid=machine.metadata.uid,
                ),
                kubernetes_version=version,
                etcd_version=etcd,
                node_type="ControlPlane" if is_control_plane else "Worker",
                first_node_to_be_upgraded=is_control_plane and await self.questions.is_first(cluster, version),
            ),
        )


def is_ours(node_upgrade: Object) -> bool:
    """Whether a NodeUpgrade was made by the hook: it goes with its Machine."""
    return any(
        owner.controller and owner.kind == Machine.resource.kind for owner in node_upgrade.metadata.owner_references
    )


def _told(made: NodeUpgrade) -> Progress:
    ready = conditions.get(made.status.conditions, names.READY)
    message = ready.message if ready else "the upgrade of the node is about to begin"
    if made.status.completed:
        return Progress(message)
    reason = ready.reason if ready else "Reading"
    return Progress(message, SOON if reason in NEAR else LATER, failed=reason in HOPELESS)


def _etcd(desired: MachineObjects) -> str | None:
    """Tag of the image of etcd, when one is asked for."""
    tree: Tree | None = desired.bootstrap_config
    for name in ("spec", "clusterConfiguration", "etcd", "local"):
        tree = (tree or {}).get(name)
    return (tree or {}).get("imageTag") or None
