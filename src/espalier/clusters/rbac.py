"""The rights that a manager needs on its management cluster, as data: what `espalier manifests` writes, and no more.

Read are Secrets of the system's namespace alone. Elsewhere nothing may be done with Secrets, but where the owner of a
namespace wishes for copies of kubeconfigs: then they are created and replaced there, and not read. (To patch is to
read, for the answer holds the object.)
"""

from __future__ import annotations

from espalier.api.capi.machine import Machine, MachineSet
from espalier.api.core import (
    CONFIG_MAP,
    CORE_EVENT,
    LEASE,
    MUTATING_WEBHOOK_CONFIGURATION,
    SECRET,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.distro import DistroRelease
from espalier.api.eksa.release import Bundles, EKSARelease
from espalier.clusters import git_ops, names, references
from espalier.clusters.observe import written
from espalier.clusters.provider import Providers, extra_kinds
from espalier.kube.rbac import APPLY, FOLLOW, Right
from espalier.runtime.certificates import SECRET_NAME

VALIDATING_WEBHOOKS = "espalier-validating-webhook-configuration"
MUTATING_WEBHOOKS = "espalier-mutating-webhook-configuration"

CLUSTER_SCOPED: tuple[Right, ...] = (
    Right((EKSARelease.resource,), (*FOLLOW, "create")),
    Right((VALIDATING_WEBHOOK_CONFIGURATION,), (*FOLLOW, "patch"), names=(VALIDATING_WEBHOOKS,)),
    Right((MUTATING_WEBHOOK_CONFIGURATION,), (*FOLLOW, "patch"), names=(MUTATING_WEBHOOKS,)),
)
"""Of kinds that have no namespace: releases are read to choose components by, and those of the build are created; the
authority that signs the webhooks' certificate is written into their configurations. No Role can grant these."""


def cluster_scoped(providers: Providers) -> tuple[Right, ...]:
    """Of kinds that have no namespace, also with these providers."""
    extra = (Right((kind,), (*FOLLOW, *APPLY, "delete")) for kind in extra_kinds(providers) if not kind.namespaced)
    return (*CLUSTER_SCOPED, *extra)


def namespaced(providers: Providers) -> tuple[Right, ...]:
    """In each namespace whose Clusters are watched."""
    return (
        Right((Cluster.resource,), (*FOLLOW, "patch")),
        Right((Cluster.resource,), ("patch",), "status"),
        Right(references.kinds(providers), (*FOLLOW, "patch")),
        Right(git_ops.KINDS, FOLLOW),
        Right((CORE_EVENT,), APPLY),
        *(right for provider in providers.values() for right in provider.rights),
    )


def everywhere(providers: Providers) -> tuple[Right, ...]:
    """In all namespaces, for a manager that watches all."""
    return (*namespaced(providers), *cluster_scoped(providers))


def system(providers: Providers) -> tuple[Right, ...]:
    """In the system's namespace. Secrets that are made there: the webhooks' certificate, which is renewed, and the key
    to digests of credentials."""
    return (
        Right((Bundles.resource,), (*FOLLOW, "create")),
        Right((DistroRelease.resource,), (*FOLLOW, "create")),
        Right((CONFIG_MAP,), FOLLOW, names=(names.MANAGEMENT_CLUSTER.name,)),
        Right((SECRET, *(kind for kind in references.data_kinds(providers) if kind != SECRET)), FOLLOW),
        Right((MachineSet.resource, Machine.resource), FOLLOW),
        Right((SECRET,), ("create",)),
        Right((SECRET,), ("patch",), names=(SECRET_NAME,)),
        Right((LEASE,), ("get", *APPLY)),
        Right((CORE_EVENT,), APPLY),
        *(Right((resource,), (*FOLLOW, *APPLY, "delete")) for resource in written(providers) if resource.namespaced),
    )


COPIES: tuple[Right, ...] = (Right((SECRET,), ("create", "update")),)
"""In a namespace whose owner wishes for copies of the kubeconfigs of its Clusters."""
