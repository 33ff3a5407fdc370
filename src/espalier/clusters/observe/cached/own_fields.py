"""Objects in caches, of those that this manager writes: only what it owns of each, as only that is compared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

import msgspec

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineHealthCheck
from espalier.clusterapi import kubeconfig
from espalier.clusters.design import names
from espalier.clusters.design.drift import ownership
from espalier.kube.objects import Object, encode_json
from espalier.runtime.caches.transforms import Transform, keep_managed_fields, metadata_only, strip_managed_fields
from espalier.runtime.options import Options


def with_our_fields(object_: Object) -> Object:
    """Keep the fields that `eks-a-controller` owns, decoded with the metadata; strip managedFields from the bytes."""
    reduced = _keep_ours(object_)
    ours = reduced.metadata.managed_fields
    stripped = strip_managed_fields(reduced)
    stripped.metadata.managed_fields = ours
    return stripped


_keep_ours = keep_managed_fields(names.FIELD_MANAGER)


@cache
def of_share(transform: Transform, options: Options) -> Transform:
    """As `transform`; of objects that are made for Clusters in unwatched namespaces, keep only what says that names are
    taken, and by whom.
    """
    return partial(_unless_of_others, transform, options) if options.namespaces else transform


def _unless_of_others(transform: Transform, options: Options, object_: Object) -> Object:
    cluster = names.cluster_of(object_.metadata.labels)
    if cluster is None or cluster.namespace in options.namespaces:
        return transform(object_)
    reduced, fields = metadata_only(object_), _KEPT_OF_OTHERS.get(object_.kind)
    if fields is None:
        return reduced
    spec = {name: value for name, value in (object_.tree.get("spec") or {}).items() if name in fields}
    return Object(encode_json({**msgspec.to_builtins(reduced.head), "spec": spec}), reduced.head)


_KEPT_OF_OTHERS: Mapping[str, tuple[str, ...]] = {
    KubeadmControlPlane.resource.kind: ("version", "machineTemplate", "replicas"),
    MachineDeployment.resource.kind: ("clusterName", "template", "replicas"),
    MachineHealthCheck.resource.kind: ("clusterName",),
}
"""The fields of specs by which an object belongs to a Cluster, and those without which it can't be decoded."""


def with_our_content(object_: Object) -> Object:
    """As `with_our_fields`; of objects that are neither made for a cluster nor its kubeconfig, keep only the metadata:
    a process must not hold the private keys and tokens of other Secrets. Those of EKS Anywhere have no label, and are
    written by the same field manager.
    """
    is_of_cluster = names.cluster_of(object_.metadata.labels) is not None or ownership.is_applied(object_)
    is_needed = is_of_cluster or kubeconfig.cluster_of(object_) is not None
    return with_our_fields(object_) if is_needed else metadata_only(object_)
