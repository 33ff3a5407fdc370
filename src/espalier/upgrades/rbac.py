"""The rights that in-place upgrades need in the management cluster, besides those of the Cluster controller, and in
workload clusters.

They update Cluster API objects, but create and delete none.
"""

from __future__ import annotations

from espalier.api.capi.machine import Machine
from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.core import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CORE_EVENT,
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles
from espalier.api.eksa.upgrades import RUNTIME_EXTENSION, ControlPlaneUpgrade, FrontEnd, MachineDeploymentUpgrade
from espalier.api.resource import Resource
from espalier.clusterapi.infrastructures.infrastructure import Infrastructures
from espalier.kube.rbac import APPLY, FOLLOW, Right, Rights
from espalier.upgrades import names
from espalier.upgrades.observed.cluster_view import OWNER_KINDS, machine_kinds, template_kinds
from espalier.upgrades.observed.observe import OWN


def rights(infrastructures: Infrastructures, front_end: FrontEnd) -> Rights:
    """The rights; with hooks also those on the ExtensionConfig through which Cluster API finds them."""
    extension = (
        Right((ExtensionConfig.resource,), ("create",)),
        Right((ExtensionConfig.resource,), (*FOLLOW, "patch"), names=(RUNTIME_EXTENSION,)),
    )
    return Rights(
        cluster_scoped=(
            Right((CUSTOM_RESOURCE_DEFINITION,), FOLLOW, names=tuple(kind.group_resource for kind in OWN)),
            *(extension if front_end is FrontEnd.HOOKS else ()),
        ),
        system=(
            *(Right((resource,), (*FOLLOW, "create", "patch", "delete")) for resource in OWN),
            *(Right((resource,), ("patch",), "status") for resource in OWN),
            *(Right((resource,), (*FOLLOW, "patch")) for resource in (*OWNER_KINDS, *machine_kinds(infrastructures))),
            *(Right((resource,), FOLLOW) for resource in template_kinds(infrastructures)),
            Right((Machine.resource,), ("get",)),
            *(Right((resource,), ("update",), "finalizers") for resource in _blocked_owners(front_end)),
            Right((CONFIG_MAP,), (*FOLLOW, "patch"), names=(names.IMAGES,)),
            Right((CONFIG_MAP,), ("create",)),
            Right((CORE_EVENT,), APPLY),
        ),
    )


def _blocked_owners(front_end: FrontEnd) -> tuple[Resource, ...]:
    """Kinds whose deletion waits for upgrades that they own.

    Whoever creates such an upgrade needs a right on its owner, with admission plugin
    OwnerReferencesPermissionEnforcement.
    """
    upgrades = (ControlPlaneUpgrade.resource, MachineDeploymentUpgrade.resource)
    return (*OWNER_KINDS, *upgrades, *((Machine.resource,) if front_end is FrontEnd.HOOKS else ()))


SHARED = Rights(
    watched=(Right((Cluster.resource,), FOLLOW),),
    system=(Right((Bundles.resource, DistroRelease.resource), FOLLOW), Right((SECRET,), FOLLOW)),
)
"""To read paused Clusters, upgrader images and kubeconfigs."""

IN_WORKLOAD_CLUSTERS = (
    Right((NODE,), (*FOLLOW, "patch")),
    Right((POD,), (*FOLLOW, "create", "delete")),
    Right((CONFIG_MAP,), (*FOLLOW, "patch")),
    Right((CLUSTER_ROLE,), ("get", "list", "create", "delete", "bind", "escalate")),
    Right((CLUSTER_ROLE_BINDING,), ("create",)),
    Right((NAMESPACE, SECRET, SERVICE_ACCOUNT), ("create",)),
)
"""To read nodes and what runs on them, to uncordon nodes, to run upgrader pods with their account, and to write
kubeadm-config."""
