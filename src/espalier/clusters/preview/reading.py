"""All objects that a preview needs, read once with rights to get and list only.

Some rights are optional: to read the ConfigMap of the management cluster, the GitOps configuration of a Cluster, the
Secrets under names of a new cluster, and in-place upgrades. Without them notices state the assumptions. Only the
metadata of Secrets is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineSet
from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.upgrades import RUNTIME_EXTENSION, ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi import contract, external_etcd
from espalier.clusterapi.machines.machine_objects import MachineObjects
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.provider import Providers, bottlerocket_groups, infrastructures
from espalier.clusters.effects.machines import Fleet
from espalier.clusters.observe import adoptions, git_ops, references
from espalier.clusters.observe.observe import ClusterObserver, written
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.clusters.observe.scope import is_self_managed
from espalier.clusters.observe.scope import read as read_cluster
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object, readable
from espalier.runtime.caches.snapshot import Snapshot
from espalier.runtime.caches.transforms import metadata_only

_GIT_OPS = {resource.kind: resource for resource in git_ops.KINDS}


_UPGRADES = (ControlPlaneUpgrade.resource, MachineDeploymentUpgrade.resource, NodeUpgrade.resource)


def kinds(providers: Providers) -> tuple[Resource, ...]:
    """All kinds that are read."""
    return (
        eksa.Cluster.resource,
        CONFIG_MAP,
        *references.kinds(providers),
        *references.data_kinds(providers),
        *git_ops.KINDS,
        EKSARelease.resource,
        Bundles.resource,
        DistroRelease.resource,
        *written(providers),
        *_of_machines(providers),
        *_UPGRADES,
        ExtensionConfig.resource,
        CUSTOM_RESOURCE_DEFINITION,
        SECRET,
    )


def _of_machines(providers: Providers) -> tuple[Resource, ...]:
    """Kinds of machines and their parts; metadata of infrastructure machines names their template."""
    machines = (infrastructure.machine for infrastructure in infrastructures(providers).all)
    return (Machine.resource, MachineSet.resource, KubeadmConfig.resource, *machines)


_CAPI_CLUSTER = (capi.Cluster.resource.kind, capi.Cluster.resource.api_version)

_MANY = 50
"""The most Clusters that are requested by name; above that, everything is listed."""


class ObservedState(NamedTuple):
    """The objects that a manager observes, and the machines of each cluster by its name."""

    objects: list[Object]
    fleets: dict[str, Fleet]
    secrets: tuple[Object, ...] = ()
    """The Secrets that Cluster API would find for clusters without objects."""
    notices: tuple[str, ...] = ()
    """Kinds that could not be read, and the assumptions instead."""


async def read(
    client: Client,
    asked: Collection[Key] | None,
    *,
    versions: Collection[str] = (),
    namespace: str | None = None,
    manifests: Iterable[Tree] = (),
    providers: Providers,
    only_judges: bool = False,
) -> ObservedState:
    """Read the objects of some clusters, or of all (None) in a namespace, or everywhere.

    `versions` are the requested eksaVersions, `manifests` the requested Clusters. Only those Bundles are read that a
    cluster uses or will use. With `only_judges`, objects that only matter for later obstacles are not read.
    """
    # All Clusters are read once for names; what else is read of them depends on these.
    everything = await _clusters(client) if asked is None else None
    keys = set(asked or ()) | {object_.key for object_ in everything or () if namespace in (None, object_.namespace)}
    names = sorted({key.name for key in keys})
    ours, theirs = _selector(CLUSTER_NAME_LABEL, names), _selector(contract.CLUSTER_NAME_LABEL, names)
    untold: list[str] = []
    adopted = await adoptions.objects(client, untold.append)
    if any(key.name in names for object_ in adopted for key in adoptions.cluster_of(object_)):
        ours = ""  # their objects have no labels before the first change
    places = {key.namespace for key in keys}
    # What does not depend on the specs, at the same time.
    named, unnamed = await _management(client)
    notices = [*untold, *unnamed]
    progress = () if only_judges else _UPGRADES
    extension_kinds = () if only_judges else (ExtensionConfig.resource,)
    clusters, releases, distros, data, made, machines, upgrades, extension = await asyncio.gather(
        _clusters(client, everything),
        _list(client, EKSARelease.resource, None),
        _list(client, DistroRelease.resource, SYSTEM_NAMESPACE),
        _all(
            _list(client, kind, SYSTEM_NAMESPACE, references.OF_OTHERS)
            for kind in references.data_kinds(providers)
            if kind != SECRET
        ),
        _all(
            _list(client, kind, SYSTEM_NAMESPACE if kind.namespaced else None, ours)
            for kind in written(providers)
            if kind not in (SECRET, CONFIG_MAP, external_etcd.RESOURCE)
        ),
        _all(_list(client, kind, SYSTEM_NAMESPACE, theirs) for kind in _of_machines(providers)),
        _all(_granted(_list(client, kind, SYSTEM_NAMESPACE, theirs), kind, notices) for kind in progress),
        _all(_granted(_get(client, kind, "", RUNTIME_EXTENSION), kind, notices) for kind in extension_kinds),
    )
    # The objects that the specs name, those that must not clash with them, and the kinds that only some clusters have.
    asked_for = [
        *(cluster for cluster in clusters if cluster.key in keys),
        *(Object(msgspec.json.encode(manifest)) for manifest in manifests),
    ]
    specs = [spec for object_ in asked_for if (spec := _spec(object_)) is not None]
    places |= {object_.namespace for object_ in asked_for}
    links = await _all(_list(client, kind, place) for kind in _linked(specs, providers) for place in sorted(places))
    for kind, place in _compared(clusters, specs, providers, places):
        links += await _granted(_list(client, kind, place), kind, notices)
    with_etcd = any(spec.external_etcd_configuration is not None for spec in specs)
    if with_etcd:
        made += await _list(client, external_etcd.RESOURCE, SYSTEM_NAMESPACE, ours)
    made += await _all(
        _get(client, KubeadmControlPlane.resource, SYSTEM_NAMESPACE, object_.name)
        for object_ in _sharing(clusters, keys, specs)
    )
    if with_etcd or any(_asks_for_bottlerocket(spec, [*links, *asked_for], providers) for spec in specs):
        definition = _get(client, CUSTOM_RESOURCE_DEFINITION, "", external_etcd.CLUSTER_DEFINITION)
        named += await _granted(definition, CUSTOM_RESOURCE_DEFINITION, notices)
    extras = frozenset[Resource]().union(*(_extras(cluster, providers) for cluster in asked_for))
    if SECRET in extras:
        data = data + await _list(client, SECRET, SYSTEM_NAMESPACE, references.OF_OTHERS)
    made = made + await _all(_list(client, kind, SYSTEM_NAMESPACE, ours) for kind in sorted(extras))
    repositories, unread = await _git_ops(client, [*clusters, *named], keys, manifests, providers)
    # Objects under the names of these clusters without their label, and the Bundles that clusters use or will use.
    known = {(object_.kind, object_.name) for object_ in made}
    singles = [resource for resource in written(providers) if object_names.is_of_cluster(resource)]
    others = ((resource, name) for resource in singles for name in names[:_MANY] if ours)
    rest = await asyncio.gather(
        _all(_get(client, kind, SYSTEM_NAMESPACE, name) for kind, name in others if (kind.kind, name) not in known),
        _bundles(client, clusters, keys, releases, versions),
    )
    # Of a new cluster, Secrets under its names show whether Cluster API would take over keys of another cluster.
    observed = (machine for machine in machines if _is_observed(machine))
    by_name = (object_ for part in rest for object_ in part)
    objects = [*clusters, *named, *releases, *distros, *links, *repositories, *data, *made, *observed, *by_name]
    objects += [*upgrades, *extension, *adopted]
    there = {object_.name for object_ in objects if (object_.kind, object_.head.api_version) == _CAPI_CLUSTER}
    there |= {cluster.name for cluster in clusters if _manages_itself(cluster)}
    new = [] if only_judges else [name for name in names if name not in there][:_MANY]
    secrets = await _all(
        _granted(_get(client, SECRET, key.namespace, key.name), SECRET, notices)
        for name in new
        for key in object_names.secrets(name)
    )
    unique = {(object_.head.api_version, object_.kind, object_.key): object_ for object_ in objects}
    all_notices = tuple(dict.fromkeys((*notices, *unread)))
    return ObservedState(list(unique.values()), _fleets(machines), tuple(map(metadata_only, secrets)), all_notices)


def _sharing(clusters: Iterable[Object], keys: Collection[Key], asked: Iterable[eksa.ClusterSpec]) -> list[Object]:
    """Other Clusters with the address of a requested one: it belongs to the one whose control plane exists."""
    hosts = {place.host for spec in asked if (place := endpoint.place(spec)) is not None}
    others = ((cluster, _spec(cluster)) for cluster in clusters if hosts and cluster.key not in keys)
    located = ((other, endpoint.place(spec)) for other, spec in others if spec is not None)
    return [cluster for cluster, place in located if place is not None and place.host in hosts][:_MANY]


def _compared(
    clusters: Iterable[Object], asked: Iterable[eksa.ClusterSpec], providers: Providers, known: Collection[str]
) -> list[tuple[Resource, str]]:
    """Kinds and other namespaces of linked objects that are compared with those of a requested cluster."""
    comparing = {spec.datacenter_ref.kind for spec in asked if spec.datacenter_ref is not None}
    comparing = {kind for kind in comparing & providers.keys() if providers[kind].clashes is not None}
    specs = (
        (cluster.namespace, _spec(cluster)) for cluster in clusters if comparing and cluster.namespace not in known
    )
    configs = {
        (kind, namespace)
        for namespace, spec in specs
        if spec is not None and spec.datacenter_ref is not None and spec.datacenter_ref.kind in comparing
        for kind in providers[spec.datacenter_ref.kind].links.kinds
    }
    return sorted(configs)


def _asks_for_bottlerocket(spec: eksa.ClusterSpec, objects: Sequence[Object], providers: Providers) -> bool:
    """True if machines may use Bottlerocket, which stock Cluster API does not support."""
    provider = providers.get(spec.datacenter_ref.kind) if spec.datacenter_ref else None
    try:
        return bool(bottlerocket_groups(provider, spec, objects))
    except msgspec.ValidationError:  # a machine config that will be refused
        return False


def _spec(cluster: Object) -> eksa.ClusterSpec | None:
    try:
        return read_cluster(cluster).spec if cluster.kind == eksa.Cluster.resource.kind else None
    except msgspec.ValidationError:
        return None


def _extras(object_: Object, providers: Providers) -> frozenset[Resource]:
    """Secret and ConfigMap, if they are created for a Cluster, or read: most clusters have none, and planning needs
    no right to read them then.
    """
    if object_.kind != eksa.Cluster.resource.kind:
        return frozenset()
    try:
        cluster = read_cluster(object_)
    except msgspec.ValidationError:
        return frozenset()
    provider = providers.get(cluster.spec.datacenter_ref.kind) if cluster.spec.datacenter_ref else None
    if provider is None:
        return frozenset()
    names = provider.extras.names(cluster.metadata.name, cluster.spec, ())
    secrets = {SECRET} if provider.links.names_secrets else {SECRET} & {name.resource for name in names}
    return frozenset({CONFIG_MAP} & {*provider.extras.kinds}) | secrets


def _is_observed(object_: Object) -> bool:
    """True if a manager observes this Cluster API object: MachineSets, and the machines of control planes."""
    is_machine = object_.kind == Machine.resource.kind and contract.CONTROL_PLANE_LABEL in object_.metadata.labels
    return is_machine or object_.kind == MachineSet.resource.kind


def _selector(label: str, names: Sequence[str]) -> str:
    return f"{label} in ({','.join(names)})" if 0 < len(names) <= _MANY else ""


async def _clusters(client: Client, known: list[Object] | None = None) -> list[Object]:
    return known if known is not None else (await client.list(eksa.Cluster.resource)).items


async def _management(client: Client) -> tuple[list[Object], list[str]]:
    """The ConfigMap that names the management cluster; without it, the oldest record is used."""
    try:
        return await _get(client, CONFIG_MAP, SYSTEM_NAMESPACE, MANAGEMENT_CLUSTER), []
    except Forbidden as error:
        where = f"ConfigMap {SYSTEM_NAMESPACE}/{MANAGEMENT_CLUSTER}, which names the management cluster"
        assumed = "the oldest self-managed Cluster is assumed to be it"
        return [], [f"not allowed to read {where}: {assumed} ({error})"]


async def _git_ops(
    client: Client, known: Iterable[Object], keys: Collection[Key], manifests: Iterable[Tree], providers: Providers
) -> tuple[list[Object], list[str]]:
    """The GitOps configurations that Clusters and their management cluster reference, in the namespaces where a manager
    reads them.
    """
    snapshot = Snapshot()
    observer = ClusterObserver(snapshot, providers=providers)
    objects = list(known)
    snapshot.fill(objects)
    asked = [
        *(object_ for object_ in objects if object_.key in keys),
        *(Object(msgspec.json.encode(manifest)) for manifest in manifests),
    ]
    wanted = {
        place for cluster in asked if cluster.kind == eksa.Cluster.resource.kind for place in _places(cluster, observer)
    }
    fetched: list[Object] = []
    notices = []
    for kind, key in sorted(wanted):
        try:
            fetched += await _get(client, _GIT_OPS[kind], key.namespace, key.name)
        except Forbidden as error:
            notices.append(f"not allowed to read {kind} {key}: it is assumed to be missing ({error})")
    return fetched, notices


def _places(object_: Object, observer: ClusterObserver) -> Iterator[tuple[str, Key]]:
    """Kind and key of the GitOps configuration that a Cluster references, and of the one it is compared with."""
    try:
        cluster = read_cluster(object_)
    except msgspec.ValidationError:
        return
    management = observer.management(cluster)
    if (place := git_ops.place(cluster, management)) is not None:
        yield place
        if (theirs := git_ops.of_management(management)) is not None:
            yield theirs


async def _all(readings: Iterable[Awaitable[list[Object]]]) -> list[Object]:
    return [object_ for part in await asyncio.gather(*readings) for object_ in part]


def _linked(specs: Sequence[eksa.ClusterSpec], providers: Providers) -> list[Resource]:
    """The kinds that these Clusters may link: users of one provider may have no rights on another's kinds."""
    used = {spec.datacenter_ref.kind for spec in specs if spec.datacenter_ref is not None}
    kinds = [kind for name in providers if name in used for kind in providers[name].links.kinds]
    if any(spec.identity_provider_refs for spec in specs):
        kinds += references.IDENTITY_PROVIDERS
    return kinds


async def _list(client: Client, resource: Resource, namespace: str | None, labels: str = "") -> list[Object]:
    """All objects of a kind; none if the kind is not installed."""
    try:
        return (await client.list(resource, namespace, labels=labels)).items
    except NotFound:
        return []


async def _get(client: Client, resource: Resource, namespace: str, name: str) -> list[Object]:
    try:
        return [await client.get(resource, name, namespace)]
    except NotFound:
        return []


def _manages_itself(cluster: Object) -> bool:
    try:
        return is_self_managed(read_cluster(cluster))
    except msgspec.ValidationError:
        return False


async def _granted(reading: Awaitable[list[Object]], kind: Resource, notices: list[str]) -> list[Object]:
    """The objects of a kind; none, and a notice, without the right to read it."""
    try:
        return await reading
    except Forbidden:
        unknown = _WITHOUT.get(kind.kind, _WITHOUT_OTHERS)
        notices.append(f"not allowed to read {kind.kind} objects: it is unknown {unknown}")
        return []


_WITHOUT_OTHERS = "whether machines of clusters in other namespaces have the addresses of this cluster's machines"
_WITHOUT = {
    SECRET.kind: "whether Secrets of a former cluster conflict with the new one",
    CUSTOM_RESOURCE_DEFINITION.kind: "whether Cluster API supports external etcd",
    ExtensionConfig.resource.kind: "whether machines are upgraded in place by runtime hooks",
} | {kind.kind: "whether an in-place upgrade was refused or has failed" for kind in _UPGRADES}


async def _bundles(
    client: Client,
    clusters: Iterable[Object],
    keys: Collection[Key],
    releases: Iterable[Object],
    versions: Collection[str],
) -> list[Object]:
    """The Bundles of the requested clusters, and of management clusters, whose release new clusters get."""
    specs = [release.spec for release in readable(releases, EKSARelease)]
    by_version = {
        release_spec.version: (release_spec.bundles_ref.namespace, release_spec.bundles_ref.name)
        for release_spec in specs
    }
    wanted = {by_version[version] for version in versions if version in by_version}
    for item in clusters:
        try:
            cluster = read_cluster(item)
        except msgspec.ValidationError:  # a reconcile says so, and the preview as well
            continue
        spec = cluster.spec
        if item.key not in keys and not is_self_managed(cluster):
            continue
        if spec.bundles_ref is not None:
            wanted.add((spec.bundles_ref.namespace, spec.bundles_ref.name))
        elif spec.eksa_version in by_version:
            wanted.add(by_version[spec.eksa_version])
    return await _all(_get(client, Bundles.resource, *where) for where in sorted(wanted))


def _fleets(objects: Iterable[Object]) -> dict[str, Fleet]:
    """Machines with the objects that they were created from, by the name of their cluster."""
    by_kind: dict[str, dict[str, Object]] = {}
    for object_ in objects:
        by_kind.setdefault(object_.kind, {})[object_.name] = object_
    configs = by_kind.get(KubeadmConfig.resource.kind, {})
    machines: dict[str, list[MachineObjects]] = {}
    for object_ in by_kind.get(Machine.resource.kind, {}).values():
        machine = object_.decode(Machine)
        bootstrap, reference = machine.spec.bootstrap.config_ref, machine.spec.infrastructure_ref
        config = configs.get(bootstrap.name) if bootstrap is not None else None
        infrastructure = by_kind.get(reference.kind, {}).get(reference.name)
        seen = MachineObjects(object_, config, infrastructure)
        machines.setdefault(machine.spec.cluster_name, []).append(seen)
    sets: dict[str, dict[str, MachineSet]] = {}
    for object_ in by_kind.get(MachineSet.resource.kind, {}).values():
        set_ = object_.decode(MachineSet)
        sets.setdefault(set_.spec.cluster_name, {})[object_.name] = set_
    return {name: Fleet(machines.get(name, []), sets.get(name, {})) for name in machines.keys() | sets.keys()}
