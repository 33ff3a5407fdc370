"""RBAC rules that a manager needs on its management cluster, as data: exactly what `espalier manifests` writes.

Secrets are read in the system's namespace only. In other namespaces there are no rights on Secrets, except where the
owner of a namespace wants copies of kubeconfigs: create and update, not get. (The response of a patch contains the
object, so patch is a right to read.)
"""

from __future__ import annotations

from espalier.api.capi.machine import Machine, MachineSet
from espalier.api.core import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CORE_EVENT,
    CUSTOM_RESOURCE_DEFINITION,
    DAEMON_SET,
    DEPLOYMENT,
    LEASE,
    MUTATING_WEBHOOK_CONFIGURATION,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE_ACCOUNT,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.flux import KUSTOMIZATION
from espalier.clusterapi import external_etcd, installed
from espalier.clusters.design.eks_anywhere import CONTROLLER
from espalier.clusters.design.provider import Providers, extra_kinds
from espalier.clusters.observe import git_ops, references
from espalier.clusters.observe.observe import followed, written
from espalier.kube.rbac import APPLY, FOLLOW, Right, Rights
from espalier.runtime.servers.certificates import SECRET_NAME

VALIDATING_WEBHOOKS = "espalier-validating-webhook-configuration"
MUTATING_WEBHOOKS = "espalier-mutating-webhook-configuration"


def rights(providers: Providers) -> Rights:
    """The rights of the Cluster controller, and of the manager itself: its Lease, its events, its webhooks'
    certificate.

    Cluster API objects are accessed in the system's namespace only. Releases are read to choose components, and those
    of the build are created. The CA of the webhooks' certificate is written into their configurations. Secrets created
    in the system's namespace: that certificate, which is renewed, and the key for digests of credentials.
    """
    data_kinds = (kind for kind in references.data_kinds(providers) if kind != SECRET)
    return Rights(
        watched=(
            Right((Cluster.resource,), (*FOLLOW, "patch")),
            Right((Cluster.resource,), ("patch",), "status"),
            # Nothing deletes them. With admission plugin OwnerReferencesPermissionEnforcement, whoever changes the
            # owners of an object needs the right to delete it.
            Right(references.kinds(providers), (*FOLLOW, "patch", "delete")),
            Right(git_ops.KINDS, FOLLOW),
            Right((KUSTOMIZATION,), FOLLOW),
            Right((CORE_EVENT,), APPLY),
            *(right for provider in providers.values() for right in provider.rights),
        ),
        cluster_scoped=(
            Right((EKSARelease.resource,), (*FOLLOW, "create")),
            Right((CUSTOM_RESOURCE_DEFINITION,), FOLLOW, names=(external_etcd.CLUSTER_DEFINITION,)),
            # A Role would need its namespace, which may not exist before Cluster API is installed.
            Right((DEPLOYMENT,), FOLLOW, names=(installed.DEPLOYMENT_NAME,)),
            Right((VALIDATING_WEBHOOK_CONFIGURATION,), (*FOLLOW, "patch"), names=(VALIDATING_WEBHOOKS,)),
            Right((MUTATING_WEBHOOK_CONFIGURATION,), (*FOLLOW, "patch"), names=(MUTATING_WEBHOOKS,)),
            *(Right((kind,), (*FOLLOW, *APPLY, "delete")) for kind in extra_kinds(providers) if not kind.namespaced),
        ),
        system=(
            Right((Bundles.resource,), (*FOLLOW, "create")),
            Right((DistroRelease.resource,), (*FOLLOW, "create")),
            Right((CONFIG_MAP,), FOLLOW),  # records of clusters that were taken over
            Right((DEPLOYMENT,), FOLLOW, names=(CONTROLLER.name,)),
            Right((SECRET, *data_kinds), FOLLOW),
            Right((MachineSet.resource, Machine.resource), FOLLOW),
            Right((SECRET,), ("create",)),
            Right((SECRET,), ("patch",), names=(SECRET_NAME,)),
            Right((LEASE,), ("get", *APPLY)),
            Right((CORE_EVENT,), APPLY),
            *(Right((kind,), (*FOLLOW, *APPLY, "delete")) for kind in written(providers) if kind.namespaced),
            *(right for provider in providers.values() for right in provider.system_rights),
        ),
        by_owners=(Right((SECRET,), ("create", "update")),),  # for copies of kubeconfigs
    )


def shared(front_end: FrontEnd) -> Rights:
    """Rights to read the kinds of in-place upgrades, which belong to other controllers."""
    kinds = followed(front_end)
    return Rights(
        cluster_scoped=tuple(Right((kind,), FOLLOW) for kind in kinds if not kind.namespaced),
        system=tuple(Right((kind,), FOLLOW) for kind in kinds if kind.namespaced),
    )


_INSTALLED = ("get", *APPLY, "delete")
IN_WORKLOAD_CLUSTERS = (
    Right((CONFIG_MAP, SECRET, SERVICE_ACCOUNT), _INSTALLED),
    Right((DAEMON_SET, DEPLOYMENT), _INSTALLED),
    Right((CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING), _INSTALLED),
    Right((CLUSTER_ROLE,), ("bind", "escalate")),
    Right((ROLE,), ("bind",)),
)
"""To install, compare and remove the CNI, the AWS IAM Authenticator and a provider's cloud controller manager.

Their roles have rights that the manager lacks: hence `bind` and `escalate`.
"""
