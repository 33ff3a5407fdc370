"""Creates machines and their objects from templates."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.capi.machine import Machine, MachineSpec
from espalier.api.meta import OwnerReference, Tree
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.objects import cloned_from, new_object, owner_reference
from espalier.kube.objects import Object
from espalier.simulator.capi.scheme import Scheme
from espalier.simulator.concurrency import together


def machine_body(
    key: Key, owner: OwnerReference, spec: MachineSpec, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Tree:
    """A Machine to create. The templates in `spec` are cloned into objects with the machine's name."""
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


async def complete(
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
    roles = (names.CONTROL_PLANE, names.CONTROL_PLANE_NAME, names.DEPLOYMENT, names.SET, names.TEMPLATE_HASH)
    labels |= {role: machine.metadata.labels[role] for role in roles if role in machine.metadata.labels}
    return {
        "name": machine.name,
        "namespace": machine.namespace,
        "labels": labels,
        "annotations": dict(template.get("annotations") or {}),
        "ownerReferences": [msgspec.to_builtins(owner_reference(Machine.resource, machine))],
    }
