"""External etcd: the parts that only EKS Anywhere's build of Cluster API has, and how to recognize that build."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.kube.objects import Object, to_bytes

RESOURCE = EtcdadmCluster.resource

CLUSTER_DEFINITION = "clusters.cluster.x-k8s.io"
"""The CustomResourceDefinition that shows which build is installed."""

PLACEHOLDER = "https://placeholder:2379"
"""Placeholder for the endpoints of an etcd that does not exist yet; Cluster API replaces it."""

UPGRADING = "etcdcluster.cluster.x-k8s.io/upgrading"
"""On an EtcdadmCluster while its machines are replaced; its controller removes it at the end."""

MACHINE_FIELDS = ("spec.etcdadmConfigSpec", "spec.infrastructureTemplate")
"""Fields of an EtcdadmCluster that determine its machines: other fields replace none."""

SKIP_CONTROL_PLANE_PAUSE = "cluster.x-k8s.io/skip-pause-cp-managed-etcd"
"""On a control plane that Cluster API does not pause while its etcd changes: the manager pauses it itself."""

PAUSED_FOR_ETCD = "external-etcd-changes"
"""Value of Cluster API's paused annotation on a control plane that is paused while its etcd changes; only such a pause
ends with the change."""

MACHINE_LABEL = "cluster.x-k8s.io/etcd-cluster"
"""On etcd machines: the name of their etcd."""


def name(cluster: str) -> str:
    """Name of the EtcdadmCluster of a cluster."""
    return f"{cluster}-etcd"


def template(cluster: str) -> str:
    """First name of the machine template of its machines."""
    return f"{cluster}-etcd-1"


def is_ready(etcd: EtcdadmCluster) -> bool:
    """True if all members are as specified and ready."""
    return (
        etcd.status.ready
        and etcd.status.observed_generation >= etcd.metadata.generation
        and UPGRADING not in etcd.metadata.annotations
    )


def endpoints(control_plane: KubeadmControlPlane) -> Sequence[str]:
    """The etcd endpoints in the spec of a control plane; empty until they are known."""
    configuration = control_plane.spec.kubeadm_config_spec.cluster_configuration
    external = configuration.etcd.external if configuration and configuration.etcd else None
    listed = external.endpoints if external else []
    return [endpoint for endpoint in listed if endpoint != PLACEHOLDER]


def has_endpoints(control_plane: KubeadmControlPlane, etcd: EtcdadmCluster) -> bool:
    """True if the spec of a control plane has the endpoints of an etcd."""
    return set(endpoints(control_plane)) == set(filter(None, etcd.status.endpoints.split(",")))


def reduced_to_support(definition: Object) -> Object:
    """A CustomResourceDefinition reduced to its support for external etcd, for caches: the rest is large."""
    known = b'"managedExternalEtcdRef"' in definition.raw
    metadata = {
        "name": definition.name,
        "uid": definition.metadata.uid,
        "resourceVersion": definition.resource_version,
    }
    identity = {"apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version, "kind": CUSTOM_RESOURCE_DEFINITION.kind}
    return Object(to_bytes({**identity, "metadata": metadata, "knows": known}))


def is_supported(definition: Object | None) -> bool:
    """True if the installed Cluster API supports external etcd."""
    return definition is not None and definition.tree.get("knows") is True
