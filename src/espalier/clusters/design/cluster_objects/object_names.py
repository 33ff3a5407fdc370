"""Names of the objects made for a cluster, and which cluster an object belongs to. Pure.

All are in one namespace, and join the names of Clusters and worker node groups by dashes, so different Clusters can
need the same name: `prod` with group `web-md-0`, and `prod-web` with group `md-0`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import msgspec

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineHealthCheck
from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Part
from espalier.api.resource import Key, Resource
from espalier.clusterapi import contract, external_etcd
from espalier.clusterapi.infrastructures import infrastructure, templates
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects.adoption import claim
from espalier.clusters.design.provider import Name
from espalier.clusters.design.render_input import group_name, spread
from espalier.kube.objects import Object
from espalier.runtime.controllers.writer import taken

SECRETS = ("ca", "etcd", "sa", "proxy", "kubeconfig", "apiserver-etcd-client")
"""Suffixes of the Secrets of Cluster API; Secrets that exist under these names are used for the cluster."""

LEFT_OVER = "left over from a deleted cluster, or made by hand, without the labels of this Cluster"

_DEPLOYMENT, _HEALTH_CHECK = MachineDeployment.resource, MachineHealthCheck.resource
_NUMBERED = re.compile(r"(.*)-([1-9][0-9]{0,8})")
_EARLIER_TEMPLATES = 20


@cache
def is_of_cluster(resource: Resource) -> bool:
    """True if a cluster has one object of the kind, under its own name."""
    return resource in (capi.Cluster.resource, KubeadmControlPlane.resource) or infrastructure.is_cluster(resource)


@cache
def is_template(resource: Resource) -> bool:
    """True for kinds of templates from which machines are made; they are written before the objects that refer to
    them.
    """
    return resource == KubeadmConfigTemplate.resource or infrastructure.is_machine_template(resource)


class Taken(NamedTuple):
    """An object of another owner under a name that the cluster needs."""

    resource: Resource
    key: Key
    holder: str
    cluster: Key | None
    """The Cluster for which it was made, if its labels name one."""

    def __str__(self) -> str:
        return taken(self.resource, self.key, self.holder)


@dataclass(frozen=True, slots=True)
class ClusterOwnership:
    """Decides which cluster an object belongs to: the one in its labels, unless owner references say otherwise.

    EKS Anywhere labels only some of its objects: the others belong to the cluster when its Cluster API Cluster owns or
    references them.
    """

    cluster: Key
    uid: str
    """The uid of the Cluster API Cluster; empty while there is none."""
    adopted: frozenset[str] = frozenset()
    """The objects without labels that belong to it since it was taken over, as `adoption.claim` names them."""

    def __call__(self, resource: Resource, object_: Object) -> str:
        """The other owner of an object; empty when it belongs to this cluster."""
        labelled = names.cluster_of(object_.metadata.labels)
        if labelled is not None and labelled != self.cluster:
            return f"made for Cluster {labelled}"
        owners = [
            reference
            for reference in object_.metadata.owner_references
            if _is_cluster(reference.api_version, reference.kind)
        ]
        named = {owner.name for owner in owners}
        if resource in (_DEPLOYMENT, _HEALTH_CHECK):
            named |= {object_.decode(_Named).spec.cluster_name} - {""}
        if others := sorted(named - {self.cluster.name}):
            return f"owned by Cluster.cluster.x-k8s.io {others[0]}"
        is_owned = bool(self.uid) and any(owner.uid == self.uid for owner in owners)
        is_meant = bool(self.uid) and is_of_cluster(resource)
        is_adopted = claim(resource, object_.name) in self.adopted
        return "" if labelled or is_owned or is_meant or is_adopted else "without the labels of any Cluster"


class _Spec(Part):
    cluster_name: str = ""


class _Named(Part):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def series(cluster: str, groups: Iterable[str]) -> list[str]:
    """Prefixes of template names; the template's number follows.

    Two Clusters can conflict exactly when they share one of these or an extra object: every other object name is
    derived from one of them, or from the cluster's name alone.
    """
    first = [templates.control_plane_template(cluster), *(templates.worker_template(cluster, name) for name in groups)]
    return [name.removesuffix("-1") for name in first]


def worker_groups(spec: eksa.ClusterSpec, domains: Mapping[str, Sequence[str]]) -> list[str]:
    """Names of the worker node groups (one per failure domain), and of external etcd."""
    return [*(group_name(group) for group in spread(spec, domains)[0]), *_etcd(spec)]


def series_of(cluster: eksa.Cluster, extras: Iterable[Name] = ()) -> list[str]:
    """The name prefixes of a Cluster, its extra objects, and the Secrets of Cluster API: an extra Secret may have the
    name of another cluster's, as `capx-a-ca` of cluster `a-ca` is that of the authority of `capx-a`.
    """
    name = cluster.metadata.name
    return [*series(name, groups(cluster.spec)), *map(str, extras), *sorted(secret_series(name))]


def groups(spec: eksa.ClusterSpec) -> list[str]:
    """Names of the worker node groups, and of external etcd."""
    return [*(group_name(group) for group in spec.worker_node_group_configurations), *_etcd(spec)]


def _etcd(spec: eksa.ClusterSpec) -> tuple[str, ...]:
    """The name of external etcd's objects, which no worker node group of the cluster may have."""
    return (names.ETCD_GROUP,) if spec.external_etcd_configuration is not None else ()


def needed(
    cluster: str, groups: list[str], resource: Resource, known: Iterable[str], extras: Collection[Name] = ()
) -> Iterator[str]:
    """The names of one kind that a cluster needs; `known` are the names of its existing objects of the kind.

    A template gets the first free number, so one more than the existing ones is included.
    """
    if is_of_cluster(resource):
        yield cluster
    elif resource == _DEPLOYMENT:
        yield from (names.machine_deployment(cluster, group) for group in groups)
    elif resource == external_etcd.RESOURCE:
        yield from (names.machine_deployment(cluster, group) for group in groups if group == names.ETCD_GROUP)
    elif resource == _HEALTH_CHECK:
        yield names.control_plane_health_check(cluster)
        yield from (names.worker_health_check(cluster, group) for group in groups)
    elif is_template(resource):
        control_plane, *workers = series(cluster, groups)
        for prefix in (control_plane, *workers) if resource != KubeadmConfigTemplate.resource else workers:
            numbers = [int(match[2]) for name in known if (match := _NUMBERED.fullmatch(name)) and match[1] == prefix]
            last = max(numbers, default=0)
            yield from (f"{prefix}-{number}" for number in range(max(1, last - _EARLIER_TEMPLATES), last + 2))
    yield from (extra.name for extra in extras if extra.resource == resource)


def secrets(cluster: str) -> list[Key]:
    """The Secrets that Cluster API makes or uses for a cluster."""
    return [Key(SYSTEM_NAMESPACE, f"{cluster}-{purpose}") for purpose in SECRETS]


def secret_series(cluster: str) -> set[str]:
    """The same as they are compared with extra objects."""
    return {str(Name(SECRET, secret.name)) for secret in secrets(cluster)}


def left_over(cluster: Key, secrets_: Iterable[Object]) -> tuple[Taken, ...]:
    """The given Secrets that Cluster API would use for a new cluster although they contain another cluster's keys.

    Secrets with the labels of the Cluster are meant for it.
    """
    wanted = set(secrets(cluster.name))
    owned = ((secret, names.cluster_of(secret.metadata.labels)) for secret in secrets_ if secret.key in wanted)
    return tuple(Taken(SECRET, secret.key, LEFT_OVER, owner) for secret, owner in owned if owner != cluster)


def prefixes(name: str) -> Iterator[str]:
    """The possible names of the Cluster for which an object of this name was made."""
    for place, character in enumerate(name):
        if character == "-":
            yield name[:place]
    yield name


def parts(name: str) -> Iterator[str]:
    """The possible Cluster names for an extra object: the cluster's name may be anywhere in it, between dashes."""
    words = name.split("-")
    for begin in range(len(words)):
        for end in range(begin + 1, len(words) + 1):
            yield "-".join(words[begin:end])


def _is_cluster(api_version: str, kind: str) -> bool:
    return kind == capi.Cluster.resource.kind and api_version.partition("/")[0] == contract.GROUP
