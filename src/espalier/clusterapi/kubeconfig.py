"""The Secret in which Cluster API stores the kubeconfig of a workload cluster."""

from __future__ import annotations

from espalier.api.capi import cluster as capi
from espalier.api.core import Secret
from espalier.api.resource import Key
from espalier.kube.objects import Object

KEY = "value"
CLUSTER_NAME_LABEL = capi.CLUSTER_NAME_LABEL

_SUFFIX = "-kubeconfig"


def secret_key(cluster: Key) -> Key:
    """The key of a cluster's kubeconfig Secret: that of a Cluster API Cluster; for a Cluster, that of the copy."""
    return Key(cluster.namespace, cluster.name + _SUFFIX)


def cluster_of(secret: Object) -> str | None:
    """The cluster whose kubeconfig a Secret contains; None for other Secrets."""
    cluster = secret.metadata.labels.get(CLUSTER_NAME_LABEL)
    return cluster if cluster and secret.name == cluster + _SUFFIX else None


def content(secret: Object) -> bytes | None:
    """The kubeconfig in a Secret; None if it has none."""
    return secret.decode(Secret).data.get(KEY) or None
