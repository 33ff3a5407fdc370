"""Labels that controllers follow, compared with the spec and the owner of their object."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.meta import Observed
from espalier.clusterapi import names
from espalier.clusterapi.objects import controller_of, owning_cluster
from espalier.kube.objects import Object


class _Spec(Observed, frozen=True):
    cluster_name: str = ""


class _Named(Observed, frozen=True):
    spec: _Spec = _Spec()


def cluster_of(object_: Object) -> str:
    """The cluster of an object of Cluster API by its spec or its owner; by its label only if neither says."""
    return _cluster(object_)[0] or object_.metadata.labels.get(names.CLUSTER, "")


def _cluster(object_: Object) -> tuple[str, str]:
    """The cluster of an object, and where it says so; empty if only its label does."""
    try:
        named = object_.decode(_Named).spec.cluster_name
    except msgspec.ValidationError:  # reported by the code that acts on it
        named = ""
    if named:
        return named, f"spec.clusterName is {named}"
    owner = owning_cluster(object_.metadata)
    return (owner.name, f"it is owned by Cluster {owner.name}") if owner is not None else ("", "")


def mislabelled(object_: Object) -> tuple[str, ...]:
    """The labels of an object of Cluster API that differ from its spec and its owner, each with the remedy."""
    return tuple(
        text for label, wanted, source in _expected(object_) if (text := differs(object_, label, wanted, source))
    )


def differs(object_: Object, label: str, wanted: str, source: str) -> str:
    """The difference between a label and what it should be, with the remedy; empty if there is none."""
    value = object_.metadata.labels.get(label)
    if value == wanted:
        return ""
    is_there = f'is "{value}"' if value is not None else "is missing"
    return f'label {label} of {object_.kind} {object_.key} {is_there}, but {source}: set it to "{wanted}"'


def _expected(object_: Object) -> Iterator[tuple[str, str, str]]:
    """The labels that are followed: each with its value, and the reason for it."""
    cluster, source = _cluster(object_)
    if cluster:
        yield names.CLUSTER, cluster, source
    owner = controller_of(object_.metadata)
    if owner is None:
        return
    source = f"its controller is {owner.kind} {owner.name}"
    if object_.kind == MachineSet.resource.kind and owner.kind == MachineDeployment.resource.kind:
        yield names.DEPLOYMENT, owner.name, source
    if object_.kind == Machine.resource.kind and owner.kind == KubeadmControlPlane.resource.kind:
        yield names.CONTROL_PLANE, object_.metadata.labels.get(names.CONTROL_PLANE, ""), source
