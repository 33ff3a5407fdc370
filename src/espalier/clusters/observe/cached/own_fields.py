"""Objects in caches, of those that this manager writes: only what it owns of each, as only that is compared."""

from __future__ import annotations

from espalier.clusterapi import kubeconfig
from espalier.clusters.design import names
from espalier.clusters.design.drift import ownership
from espalier.kube.objects import Object
from espalier.runtime.caches.transforms import keep_managed_fields, metadata_only, strip_managed_fields


def with_our_fields(object_: Object) -> Object:
    """Keep the fields that `eks-a-controller` owns, decoded with the metadata; strip managedFields from the bytes."""
    reduced = _keep_ours(object_)
    ours = reduced.metadata.managed_fields
    stripped = strip_managed_fields(reduced)
    stripped.metadata.managed_fields = ours
    return stripped


_keep_ours = keep_managed_fields(names.FIELD_MANAGER)


def with_our_content(object_: Object) -> Object:
    """As `with_our_fields`; of objects that are neither made for a cluster nor its kubeconfig, keep only the metadata:
    a process must not hold the private keys and tokens of other Secrets. Those of EKS Anywhere have no label, and are
    written by the same field manager.
    """
    is_of_cluster = names.cluster_of(object_.metadata.labels) is not None or ownership.is_applied(object_)
    is_needed = is_of_cluster or kubeconfig.cluster_of(object_) is not None
    return with_our_fields(object_) if is_needed else metadata_only(object_)
