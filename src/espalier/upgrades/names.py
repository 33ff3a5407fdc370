"""Names, labels, annotations and finalizers of in-place upgrades, most of them those of EKS Anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.definitions.reference import ConditionProse
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, ObjectReference
from espalier.api.eksa.vocabulary import reasons
from espalier.api.eksa.vocabulary.group import GROUP, SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE, IN_PLACE_DEPLOYMENT
from espalier.api.resource import Key, Resource
from espalier.api.text.violations import Violation
from espalier.clusterapi.names import REVISION
from espalier.kube.objects import Object

FIELD_MANAGER = "espalier-upgrades"

IMAGES = "in-place-upgrade"
IMAGES_KEY = Key(SYSTEM_NAMESPACE, IMAGES)
"""The ConfigMap that maps Kubernetes versions of EKS Distro to upgrader images."""

PULL_SECRET = "in-place-upgrade-pull"  # noqa: S105 - a name
"""Secret beside upgrader pods, created by people: the registry's credentials; without it, pulls are anonymous."""

UPGRADER_NAMESPACE = SYSTEM_NAMESPACE
"""Of upgrader pods, in workload clusters."""

CLUSTER_CONFIGURATION_ANNOTATION = "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration"
"""On a Machine: the ClusterConfiguration it was created with."""

REVISION_ANNOTATION = REVISION

READY: Annotated[
    str,
    ConditionProse((reasons.GROUP,), "True: all machines of the group are upgraded."),
    ConditionProse((reasons.NODE,), "True: the node is upgraded."),
] = "Ready"


def control_plane_upgrade(control_plane: str) -> str:
    """The ControlPlaneUpgrade of a KubeadmControlPlane."""
    return f"{control_plane}-cp-upgrade"


def deployment_upgrade(deployment: str) -> str:
    """The MachineDeploymentUpgrade of a MachineDeployment."""
    return f"{deployment}-md-upgrade"


def node_upgrade(machine: str) -> str:
    """The NodeUpgrade of a Machine."""
    return f"{machine}-node-upgrader"


def upgrader(node: str) -> str:
    """The upgrader pod of a node, and its ClusterRole."""
    return f"{node}-node-upgrader"


def changes(account: str, content: bytes) -> str:
    """The Secret with the files and kubelet flags of an upgrader pod that runs with this ServiceAccount."""
    return f"{account}-{hashlib.sha256(content).hexdigest()[:8]}"


def node_of(upgrader: str) -> str | None:
    """The node of an upgrader pod, by its name; None for any other name."""
    node = upgrader.removesuffix("-node-upgrader")
    return node if node not in ("", upgrader) else None


def protection(node_upgrade: str) -> str:
    """The value of the annotation that keeps health checks from remediating a Machine while its node is upgraded."""
    return f"{GROUP}/{node_upgrade}"


def claim(node_upgrade: Object) -> str:
    """The name and uid of a claim's holder: the ControlPlaneUpgrade of a NodeUpgrade, or the NodeUpgrade itself."""
    kind = ControlPlaneUpgrade.resource.kind
    for owner in node_upgrade.metadata.owner_references:
        if owner.controller and owner.kind == kind:
            return f"{owner.name} {owner.uid}"
    return f"{node_upgrade.name} {node_upgrade.metadata.uid}"


def reference(resource: Resource, object_: Object) -> ObjectReference:
    """A reference to exactly this object."""
    return ObjectReference(
        name=object_.name,
        namespace=object_.namespace,
        kind=resource.kind,
        api_version=resource.api_version,
        uid=object_.metadata.uid,
    )


def not_a_machine(field: str, reference: ObjectReference) -> Iterator[Violation]:
    """Violations of a reference, in this field, that must refer to a Machine in the system namespace."""
    return _not_of(Machine.resource, field, reference)


def not_an_owner(upgrade: ControlPlaneUpgrade | MachineDeploymentUpgrade) -> Iterator[Violation]:
    """Violations of the reference to the owner of the machines, which is in the system namespace as well."""
    if isinstance(upgrade, ControlPlaneUpgrade):
        return _not_of(KubeadmControlPlane.resource, "spec.controlPlane", upgrade.spec.control_plane)
    return _not_of(MachineDeployment.resource, "spec.machineDeployment", upgrade.spec.machine_deployment)


def _not_of(resource: Resource, field: str, reference: ObjectReference) -> Iterator[Violation]:
    message = f"it must refer to a {resource.kind}"
    if reference.namespace not in ("", SYSTEM_NAMESPACE):
        yield Violation(f"{field}.namespace", reference.namespace, SYSTEM_NAMESPACE, message)
    if reference.kind not in ("", resource.kind):
        yield Violation(f"{field}.kind", reference.kind, resource.kind, message)
    if reference.api_version and reference.api_version.partition("/")[0] != resource.group:
        yield Violation(f"{field}.apiVersion", reference.api_version, resource.api_version, message)


def is_annotated(object_: Object) -> bool:
    """True if an object's machines are to be upgraded in place."""
    annotations = object_.metadata.annotations
    return any(annotations.get(name) == "true" for name in (IN_PLACE_CONTROL_PLANE, IN_PLACE_DEPLOYMENT))
