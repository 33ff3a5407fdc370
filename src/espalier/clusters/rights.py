"""The rights that a manager needs on its management cluster, as data: what `espalier manifests` writes, and no more.

Read are Secrets of the system's namespace alone. Elsewhere Secrets are only written: copies of kubeconfigs, beside
their Clusters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from espalier.api.capi.machine import MachineSet
from espalier.api.core import (
    CORE_EVENT,
    LEASE,
    MUTATING_WEBHOOK_CONFIGURATION,
    SECRET,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.release import Bundles, EKSARelease
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.observe import DATACENTERS, WRITTEN

VALIDATING_WEBHOOKS = "espalier-validating-webhook-configuration"
MUTATING_WEBHOOKS = "espalier-mutating-webhook-configuration"

FOLLOW = ("list", "watch")
APPLY = ("create", "patch")
"""Server-side apply makes objects as well, so it needs both."""


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on resources of one group, or on a subresource of them; `names` restricts it to objects of these names."""

    resources: tuple[Resource, ...]
    verbs: tuple[str, ...]
    subresource: str = ""
    names: tuple[str, ...] = ()

    @property
    def tree(self) -> Tree:
        """As a rule of a Role."""
        suffix = f"/{self.subresource}" if self.subresource else ""
        tree: Tree = {
            "apiGroups": sorted({resource.group for resource in self.resources}),
            "resources": [resource.plural + suffix for resource in self.resources],
            "verbs": list(self.verbs),
        }
        if self.names:
            tree["resourceNames"] = list(self.names)
        return tree


CLUSTER: tuple[Right, ...] = (
    Right((Cluster.resource,), (*FOLLOW, "patch")),
    Right((Cluster.resource,), ("patch",), "status"),
    Right(tuple(DATACENTERS.values()), (*FOLLOW, "patch")),
    Right((EKSARelease.resource,), (*FOLLOW, "create")),
    Right((SECRET,), APPLY),
    Right((CORE_EVENT,), APPLY),
    Right((VALIDATING_WEBHOOK_CONFIGURATION,), (*FOLLOW, "patch"), names=(VALIDATING_WEBHOOKS,)),
    Right((MUTATING_WEBHOOK_CONFIGURATION,), (*FOLLOW, "patch"), names=(MUTATING_WEBHOOKS,)),
)
"""In all namespaces."""

SYSTEM: tuple[Right, ...] = (
    Right((Bundles.resource,), (*FOLLOW, "create")),
    Right((SECRET,), FOLLOW),
    Right((MachineSet.resource,), FOLLOW),
    Right((LEASE,), ("get", *APPLY)),
    *(Right((resource,), (*FOLLOW, *APPLY, "delete")) for resource in WRITTEN),
)
"""In the system's namespace."""


def trees(rights: Iterable[Right]) -> list[Tree]:
    """Rules of a Role or ClusterRole."""
    return [right.tree for right in rights]
