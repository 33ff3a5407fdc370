"""Objects of the machine controller manager: created for pools, saved into a state, and recreated from it. Pure."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from espalier.api.cloud import VirtualMachine
from espalier.api.definitions.reference import Label, Writer
from espalier.api.gardener.extensions.worker import WorkerPool
from espalier.api.gardener.machines import (
    ClassReference,
    Machine,
    MachineClass,
    MachineDeployment,
    MachineSet,
)
from espalier.api.meta import Observed, Tree
from espalier.api.resource import Resource
from espalier.kube.objects import Object

PROVIDER = "local"
NODE_LABEL: Annotated[str, Label("Machine", Writer.MACHINES, "Name of its node.")] = "node"
NAME_LABEL: Annotated[
    str, Label("MachineSet, Machine", Writer.EXTENSION, "Name of the MachineDeployment (type `local`).")
] = "name"
POOL_LABEL: Annotated[
    str,
    Label(
        "`spec.template.spec.nodeTemplate` of a MachineDeployment",
        Writer.EXTENSION,
        "Name of the worker pool, for its nodes (type `local`).",
    ),
] = "worker.gardener.cloud/pool"

DEPLOYMENT_TAG = "espalier.gardener.cloud/machine-deployment"
SET_TAG = "espalier.gardener.cloud/machine-set"
MACHINE_TAG = "espalier.gardener.cloud/machine"
"""Tags of a virtual machine with the names of its objects. By these it is adopted if its Machine was lost."""

USER_DATA = "userData"
_SAVED_METADATA = ("labels", "annotations")
_MOST_OBJECTS = 10_000

KINDS: tuple[Resource, ...] = (
    MachineClass.resource,
    MachineDeployment.resource,
    MachineSet.resource,
    Machine.resource,
)
"""The kinds of the machine controller manager, in the order of their creation."""


class Saved(Observed, frozen=True):
    """One object of a state, without the API server's fields. `owner` is the name of its owner."""

    name: Annotated[str, Meta(min_length=1, max_length=253)]
    owner: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    content: Tree = msgspec.field(default_factory=dict)


SavedObjects = Annotated[list[Saved], Meta(max_length=_MOST_OBJECTS)]


class WorkerState(msgspec.Struct, frozen=True):
    """`status.state` of a Worker: all objects of the machine controller manager."""

    machineclasses: SavedObjects
    machinedeployments: SavedObjects
    machinesets: SavedObjects
    machines: SavedObjects

    def of(self, resource: Resource) -> list[Saved]:
        """The objects of a kind."""
        saved: list[Saved] = getattr(self, resource.plural)
        return saved

    @property
    def provider_ids(self) -> list[str]:
        """IDs of the virtual machines in the state."""
        return [id_ for machine in self.machines if (id_ := provider_id_of(machine.content))]


def state_of(objects: dict[Resource, list[Object]]) -> WorkerState:
    """The state with these objects."""
    return WorkerState(**{resource.plural: _saved(objects.get(resource, [])) for resource in KINDS})


def tree_of(resource: Resource, saved: Saved, namespace: str, owner: Object | None) -> Tree:
    """The saved object, for recreation."""
    metadata: Tree = {"name": saved.name, "namespace": namespace}
    metadata |= {name: getattr(saved, name) for name in _SAVED_METADATA if getattr(saved, name)}
    if owner is not None:
        metadata["ownerReferences"] = [controlled_by(owner)]
    return {**saved.content, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def controlled_by(owner: Object) -> Tree:
    """The owner reference to a controller."""
    return {
        "apiVersion": owner.head.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def adopted(machine: VirtualMachine, template: Tree) -> Saved:
    """The Machine of a virtual machine that was created after the state was saved, for the set in its tags."""
    return Saved(
        name=machine.tags.get(MACHINE_TAG, machine.name),
        owner=machine.tags.get(SET_TAG, ""),
        labels={**(template.get("metadata") or {}).get("labels", {}), NODE_LABEL: machine.name},
        content={"spec": {**template.get("spec", {}), "providerID": provider_id(machine)}},
    )


def provider_id(machine: VirtualMachine) -> str:
    """`spec.providerID` of the Machine, and of the Node."""
    return f"cloud://{machine.id}"


def provider_id_of(content: Tree) -> str:
    """The provider ID in a Machine; empty before its virtual machine was created."""
    id_ = (content.get("spec") or {}).get("providerID", "")
    return id_ if isinstance(id_, str) else ""


def deployment_name(namespace: str, pool: WorkerPool) -> str:
    """The name of a pool's MachineDeployment."""
    return f"{namespace}-{pool.name}"


def class_name(namespace: str, pool: WorkerPool, network: str) -> str:
    """The name of a pool's MachineClass: it changes when machines must be replaced.

    User data do not count: they have tokens, which the destination of a shoot creates again.
    """
    image = pool.machine_image
    facts = [pool.machine_type, image.name if image else "", image.version if image else "", network]
    minor = ".".join(pool.kubernetes_version.split(".")[:2])
    digest = hashlib.sha256(msgspec.json.encode([*facts, minor])).hexdigest()[:5]
    return f"{deployment_name(namespace, pool)}-{digest}"


def class_tree(namespace: str, pool: WorkerPool, network: str, credentials: str) -> Tree:
    """The MachineClass of a pool, with the Secret of its name."""
    name = class_name(namespace, pool, network)
    image = pool.machine_image
    return {
        "apiVersion": MachineClass.resource.api_version,
        "kind": MachineClass.resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "provider": PROVIDER,
        "providerSpec": {
            "size": pool.machine_type,
            "image": f"{image.name}-{image.version}" if image else "default",
            "network": network,
        },
        "secretRef": {"name": name, "namespace": namespace},
        "credentialsSecretRef": {"name": credentials, "namespace": namespace},
    }


def deployment_tree(namespace: str, pool: WorkerPool, network: str, replicas: int) -> Tree:
    """The MachineDeployment of a pool."""
    name = deployment_name(namespace, pool)
    labels = {NAME_LABEL: name}
    reference = ClassReference(kind=MachineClass.resource.kind, name=class_name(namespace, pool, network))
    node: dict[str, Any] = {"metadata": {"labels": {**pool.labels, POOL_LABEL: pool.name}}}
    if pool.taints:
        node["spec"] = {"taints": msgspec.to_builtins(pool.taints)}
    rolling = {"maxSurge": pool.max_surge, "maxUnavailable": pool.max_unavailable}
    return {
        "apiVersion": MachineDeployment.resource.api_version,
        "kind": MachineDeployment.resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"class": msgspec.to_builtins(reference), "nodeTemplate": node},
            },
        },
    }


def _saved(objects: list[Object]) -> list[Saved]:
    return [_save(object_) for object_ in sorted(objects, key=lambda object_: object_.name)]


def _save(object_: Object) -> Saved:
    metadata = object_.metadata
    owner = next((reference.name for reference in metadata.owner_references if reference.controller), "")
    content = {
        name: value for name, value in object_.tree.items() if name not in ("apiVersion", "kind", "metadata", "status")
    }
    return Saved(object_.name, owner, metadata.labels, metadata.annotations, content)
