"""Creates and adopts Machines and their parts (infrastructure machine, KubeadmConfig), by their owners' templates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet, MachineSpec, MachineTemplate
from espalier.api.meta import OwnerReference, Tree
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.changes.machine_change import of_machine_template, reasons_to_replace
from espalier.clusterapi.machines.rollouts import is_before_rollout
from espalier.clusterapi.objects import cloned_from, controller_of, new_object, owner_reference
from espalier.kube.objects import Object
from espalier.runtime.concurrency import together
from espalier.runtime.controllers.outcome import Wait
from espalier.simulator.capi.inventory import Scheme, in_cluster


def machine_body(
    key: Key, owner: OwnerReference, spec: MachineSpec, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Tree:
    """A Machine to create. Its references name the clones of the templates in `spec`, which have the machine's name."""
    tree = msgspec.to_builtins(spec)
    for reference in (tree["infrastructureRef"], tree["bootstrap"].get("configRef")):
        if reference is not None:
            reference |= {"kind": reference["kind"].removesuffix("Template"), "name": key.name}
    metadata: Tree = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": dict(labels),
        "annotations": dict(annotations),
        "finalizers": [names.MACHINE_FINALIZER],
        "ownerReferences": [msgspec.to_builtins(owner)],
    }
    return new_object(Machine.resource, metadata, spec=tree)


async def create_missing_parts(
    scheme: Scheme, machine: Object, typed: Machine, *, infrastructure_template: Object | None, config: Tree | None
) -> None:
    """Create the machine's missing objects: the infrastructure machine (a clone of the template) and the KubeadmConfig.

    The Machine is created first, so that the next reconcile after a crash finds what is missing. `config` has the
    labels, annotations and spec of the KubeadmConfig.
    """
    if machine.metadata.deletion_timestamp is not None:
        return
    inventory = scheme.inventory
    creations = []
    kind = typed.spec.infrastructure_ref.kind
    resource = inventory.resource(kind)
    if (
        resource is not None
        and infrastructure_template is not None
        and not typed.status.initialization.infrastructure_provisioned
        and inventory.infrastructure_object(kind, machine.key) is None
    ):
        template = infrastructure_template.tree["spec"]["template"]
        metadata = _part_metadata(machine, typed, template.get("metadata") or {})
        metadata["annotations"] |= cloned_from(infrastructure_template, resource.group)
        body = new_object(resource, metadata, spec=template.get("spec") or {})
        creations.append(scheme.writer.create(resource, body))
    if (
        config is not None
        and typed.spec.bootstrap.data_secret_name is None
        and inventory.configs.get(machine.key) is None
    ):
        metadata = _part_metadata(machine, typed, config)
        body = new_object(KubeadmConfig.resource, metadata, spec=config["spec"])
        creations.append(scheme.writer.create(KubeadmConfig.resource, body))
    await together(creations)


def _part_metadata(machine: Object, typed: Machine, template: Tree) -> Tree:
    labels = {**(template.get("labels") or {}), names.CLUSTER: typed.spec.cluster_name}
    copied = (
        names.CONTROL_PLANE,
        names.CONTROL_PLANE_NAME_LABEL,
        names.DEPLOYMENT,
        names.SET_NAME_LABEL,
        names.TEMPLATE_HASH,
    )
    labels |= {label: machine.metadata.labels[label] for label in copied if label in machine.metadata.labels}
    return {
        "name": machine.name,
        "namespace": machine.namespace,
        "labels": labels,
        "annotations": dict(template.get("annotations") or {}),
        "ownerReferences": [msgspec.to_builtins(owner_reference(Machine.resource, machine))],
    }


def orphans(scheme: Scheme, cluster: Key, selects: Callable[[Machine], bool]) -> tuple[Object, ...]:
    """The selected machines of a cluster without a controller, except those being deleted."""
    return tuple(
        machine
        for machine in in_cluster(scheme.inventory.machines, cluster)
        if controller_of(machine.metadata) is None
        and machine.metadata.deletion_timestamp is None
        and selects(machine.decode(Machine))
    )


async def adopt(scheme: Scheme, machines: tuple[Object, ...], owner: OwnerReference) -> Wait:
    """Make `owner` the controller of these machines. Return a `Wait`: they count once the cache shows the change."""
    await together(scheme.writer.add_owner(Machine.resource, machine, owner) for machine in machines)
    return Wait(
        "MachinesAdopted",
        f"waiting for the cache to show adopted machines {', '.join(machine.name for machine in machines)}",
    )


IN_PLACE_FIELDS = ("deletion", "minReadySeconds", "readinessGates", "taints")
"""Fields of a machine's spec whose change needs no rollout (Cluster API's rule)."""


def template_hash(template: MachineTemplate) -> str:
    """A hash of the fields whose change needs a rollout: ten hexadecimal digits."""
    spec: Tree = msgspec.to_builtins(template.spec)
    rollout_fields = {name: value for name, value in spec.items() if name not in ("clusterName", *IN_PLACE_FIELDS)}
    return hashlib.sha256(msgspec.json.encode(rollout_fields, order="sorted")).hexdigest()[:10]


def is_current(set_: MachineSet, deployment: MachineDeployment, now: datetime) -> bool:
    """True if the set's template needs no rollout to become the deployment's, and `rollout.after` asks for none."""
    rollout = deployment.spec.rollout
    if rollout is not None and is_before_rollout(set_.metadata.creation_timestamp, rollout.after, now):
        return False
    current, desired = of_machine_template(set_.spec.template), of_machine_template(deployment.spec.template)
    return not reasons_to_replace(current, desired)


def in_place_fields(template: MachineTemplate) -> Tree:
    """A merge patch with the fields of a template that are updated in place: labels, annotations, `IN_PLACE_FIELDS`."""
    spec = msgspec.to_builtins(template.spec)
    return {
        "metadata": {
            "labels": dict(template.metadata.labels),
            "annotations": dict(template.metadata.annotations),
        },
        "spec": {name: spec[name] for name in IN_PLACE_FIELDS if name in spec},
    }
