"""`addons.cluster.x-k8s.io/v1beta2 ClusterResourceSet`: objects that Cluster API applies to workload clusters."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

from msgspec import Meta

from espalier.api.capi.cluster import CONTRACT, VERSION
from espalier.api.kinds import AGE, ATOMIC, KubeObject, kind
from espalier.api.label_selectors import AtomicSelector
from espalier.api.meta import Part
from espalier.api.resource import Resource

GROUP = "addons.cluster.x-k8s.io"

SECRET_TYPE = "addons.cluster.x-k8s.io/resource-set"  # noqa: S105  a type of Secrets
"""The type that a Secret must have to be applied."""

RECONCILE = "Reconcile"
"""The strategy by which objects are applied again when the set has other ones; without it, once."""


class ResourceReference(Part):
    """A Secret or ConfigMap of the same namespace, whose values are objects in YAML."""

    kind: str
    name: str


class ClusterResourceSetSpec(Part):
    """Which objects, for which clusters."""

    cluster_selector: AtomicSelector
    resources: Annotated[list[ResourceReference], Meta(extra_json_schema=ATOMIC)] = []
    strategy: str = ""


@kind(
    Resource(GROUP, VERSION, "clusterresourcesets", "ClusterResourceSet"),
    categories=("cluster-api",),
    columns=(AGE,),
    status=True,
    labels=CONTRACT,
    partly=True,
)
class ClusterResourceSet(KubeObject, kw_only=True):
    """Has objects applied to the clusters that it selects."""

    spec: ClusterResourceSetSpec
