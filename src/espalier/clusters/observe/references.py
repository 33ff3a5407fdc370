"""The objects that a Cluster links, the Secrets and ConfigMaps that these name, and the key for digests of their
data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from espalier.api.core import CONFIG_MAP, SECRET, ConfigMap, Secret
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa import identity_providers
from espalier.api.eksa.parts.fields import Ref
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key, Resource
from espalier.clusterapi import kubeconfig
from espalier.clusters.design import names
from espalier.clusters.design.provider import Dependency, Links, Providers, needed
from espalier.clusters.design.secrets import credentials
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.transforms import metadata_only, strip_managed_fields

if TYPE_CHECKING:
    from espalier.runtime.controllers.controller import Controller

OF_OTHERS = f"!{kubeconfig.CLUSTER_NAME_LABEL}"
"""Selects Secrets that are not Cluster API's."""

NO_CREDENTIALS = ("kubernetes.io/tls", "kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token")
"""Types of Secrets whose data is never kept: this process must not hold others' keys and tokens."""


RECHECK_INTERVAL = 30.0
"""Seconds between two attempts to find a kind that is not installed."""

_DATACENTER = "spec.datacenterRef"

IDENTITY_PROVIDERS: tuple[Resource, ...] = tuple(kind.resource for kind in identity_providers.KINDS)
"""Kinds that `spec.identityProviderRefs` may name, whatever the provider."""


class Data(dict[str, bytes]):
    """The data of a Secret or ConfigMap. Its repr shows only the names of fields."""

    def __repr__(self) -> str:
        return f"Data(fields={sorted(self)})"


class GateKey(bytes):
    """The key for digests of data, hidden from its repr."""

    def __repr__(self) -> str:
        return f"GateKey({len(self)} bytes)"


class Missing(NamedTuple):
    """A linked object that does not exist."""

    field: str
    """The field that names it."""
    what: str
    """`Kind name in namespace …, which …`."""
    is_credentials: bool = False
    """A Secret that is absent or does not permit its use."""
    after: float | None = None
    """Seconds until it is read again; None if it is watched."""


class Linked(msgspec.Struct, frozen=True):
    """Everything that a Cluster links, as observed."""

    children: tuple[tuple[Resource, Object], ...] = ()
    missing: tuple[Missing, ...] = ()
    data: Mapping[str, Data] = {}
    """The data of the ConfigMaps that the children name, by `Kind namespace/name`."""
    credentials: Mapping[str, Data] = {}
    """The data of Secrets, likewise."""
    key: GateKey = GateKey()
    """The key for digests of credentials; empty while there is none."""
    resolved: Mapping[str, str] = {}
    """Values resolved by the provider; empty while not known."""

    def suffices(self, links: Links) -> bool:
        """True if all objects that rendering reads exist."""
        return all(missing.field == _DATACENTER and not links.needed for missing in self.missing)


def kinds(providers: Providers) -> tuple[Resource, ...]:
    """All kinds that Clusters of these providers link."""
    of_providers = (kind for provider in providers.values() for kind in provider.links.kinds)
    return tuple(dict.fromkeys((*of_providers, *IDENTITY_PROVIDERS)))


def data_kinds(providers: Providers) -> tuple[Resource, ...]:
    """The kinds whose data is read for these providers; Secrets if there are any, because the key is in one."""
    return tuple(dict.fromkeys(kind for provider in providers.values() for kind in provider.links.data))


def references(spec: eksa.ClusterSpec) -> Iterator[tuple[str, Ref]]:
    """The references of a Cluster, with their fields."""
    control_plane, etcd = spec.control_plane_configuration, spec.external_etcd_configuration
    fields = [
        (_DATACENTER, spec.datacenter_ref),
        ("spec.controlPlaneConfiguration.machineGroupRef", control_plane.machine_group_ref if control_plane else None),
        ("spec.externalEtcdConfiguration.machineGroupRef", etcd.machine_group_ref if etcd else None),
        *(
            (f"spec.workerNodeGroupConfigurations[{index}].machineGroupRef", group.machine_group_ref)
            for index, group in enumerate(spec.worker_node_group_configurations)
        ),
        *(
            (f"spec.identityProviderRefs[{index}]", reference)
            for index, reference in enumerate(spec.identity_provider_refs)
        ),
    ]
    yield from ((field, reference) for field, reference in fields if reference is not None)


class LinkedObjects:
    """Caches of linked objects. Secrets are only watched if a provider reads data."""

    def __init__(self, caches: Caches, providers: Providers) -> None:
        self._providers = providers
        self._children = {kind.kind: caches.of(kind) for kind in kinds(providers)}
        self._data: dict[Resource, Cache] = {
            kind: caches.of(
                kind,
                SYSTEM_NAMESPACE,
                labels=OF_OTHERS,
                transform=without_keys_of_others if kind == SECRET else strip_managed_fields,
            )
            for kind in data_kinds(providers)
        }
        self._users: dict[tuple[str, Key], set[Key]] = {}
        """The Clusters that named a Secret or ConfigMap at their last reconcile; one that starts to is reconciled
        anyway."""

    def watched_by(self, controller: Controller, users: Callable[[Object], Iterable[Key]]) -> None:
        """Enqueue, for every change, the Clusters that it concerns; `users` are those that link an object."""
        further = {kind.kind for provider in self._providers.values() for kind in provider.links.further_kinds}
        for kind, cache in self._children.items():
            controller.watch(cache, self._through_links(users) if kind in further else users)
        for cache in self._data.values():
            controller.watch(cache, lambda object_: tuple(self._users.get((object_.kind, object_.key), ())))

    def _through_links(self, users: Callable[[Object], Iterable[Key]]) -> Callable[[Object], Iterable[Key]]:
        """The users of the linked objects that name an object."""

        def mapped(object_: Object) -> Iterable[Key]:
            for provider in self._providers.values():
                if not any(kind.kind == object_.kind for kind in provider.links.further_kinds):
                    continue
                for kind in (provider.links.datacenter, *provider.links.machine_configs):
                    for child in self._children[kind.kind].list(object_.namespace):
                        named = ((link.resource.kind, link.name) for link in provider.links.further(child))
                        if (object_.kind, object_.name) in named:
                            yield from users(child)

        return mapped

    def of(self, cluster: eksa.Cluster) -> Linked:
        """The linked objects of a Cluster."""
        reference = cluster.spec.datacenter_ref
        if reference is None:
            return Linked()
        provider = self._providers.get(reference.kind)
        namespace = cluster.metadata.namespace
        if provider is None:
            return Linked(missing=(_missing(_DATACENTER, reference.kind, Key(namespace, reference.name)),))
        links = provider.links
        children: list[tuple[Resource, Object]] = []
        missing = []
        for field, kind, key, child in self._used(namespace, cluster.spec, links):
            if child is None:
                missing.append(_missing(field, kind.kind, key))
            else:
                children.append((kind, child))
        resolved = links.resolve(cluster.spec, [child for _, child in children])
        if not links.data:
            return Linked(tuple(children), tuple(missing), resolved=resolved)
        dependencies = () if missing else tuple(links.depend(cluster, [child for _, child in children]))
        data, absent = self._data_of(Key(namespace, cluster.metadata.name), dependencies)
        return Linked(
            children=tuple(children),
            missing=(*missing, *absent),
            data={name: content for (kind, name), content in data.items() if kind == CONFIG_MAP},
            credentials={name: content for (kind, name), content in data.items() if kind == SECRET},
            key=self._key,
            resolved=resolved,
        )

    def children(self, namespace: str, spec: eksa.ClusterSpec) -> list[Object]:
        """The existing objects that a Cluster links."""
        provider = self._providers.get(spec.datacenter_ref.kind) if spec.datacenter_ref else None
        if provider is None:
            return []
        return [child for *_, child in self._used(namespace, spec, provider.links) if child is not None]

    def absent(self, cluster: eksa.Cluster) -> list[Missing]:
        """The objects that a Cluster links and that do not exist; none if its provider is unknown."""
        spec = cluster.spec
        provider = self._providers.get(spec.datacenter_ref.kind) if spec.datacenter_ref else None
        if provider is None:
            return []
        used = self._used(cluster.metadata.namespace, spec, provider.links)
        return [_missing(field, kind.kind, key) for field, kind, key, child in used if child is None]

    def _used(
        self, namespace: str, spec: eksa.ClusterSpec, links: Links
    ) -> Iterator[tuple[str, Resource, Key, Object | None]]:
        seen = set()
        for field, kind, name in _used(spec, links):
            key = Key(namespace, name)
            child = self._children[kind.kind].get(key)
            yield field, kind, key, child
            for further in links.further(child) if child is not None else ():
                if (further.resource, further.name) not in seen:
                    seen.add((further.resource, further.name))
                    key = Key(namespace, further.name)
                    yield further.field, further.resource, key, self._children[further.resource.kind].get(key)

    def owned_by(self, uid: str, namespace: str) -> Iterator[tuple[Resource, Object]]:
        """The linked objects that a Cluster owns, including those that it no longer names."""
        for cache in self._children.values():
            for child in cache.list(namespace):
                if any(owner.uid == uid for owner in child.metadata.owner_references):
                    yield cache.source.resource, child

    def forget(self, cluster: Key) -> None:
        """Forget a deleted Cluster."""
        for users in self._users.values():
            users.discard(cluster)

    @property
    def caches(self) -> dict[Resource, Cache]:
        """The caches by kind."""
        return self._data | {cache.source.resource: cache for cache in self._children.values()}

    def _data_of(
        self, cluster: Key, dependencies: Sequence[Dependency]
    ) -> tuple[dict[tuple[Resource, str], Data], list[Missing]]:
        data: dict[tuple[Resource, str], Data] = {}
        missing: list[Missing] = []
        refused: list[Dependency] = []
        lacks: dict[str, dict[str, None]] = {}
        for dependency in dependencies:
            resource, name, field, server, unusable, optional, variables, _ = dependency
            key = Key(SYSTEM_NAMESPACE, name)
            self._users.setdefault((resource.kind, key), set()).add(cluster)
            object_ = self._data[resource].get(key)
            if object_ is None and optional:
                continue
            if server and not _is_permitted(object_, server, cluster.namespace):
                refused.append(dependency)
            elif object_ is None:
                missing.append(_missing(field, resource.kind, key))
            elif lack := unusable(content := _content(object_), object_.metadata.annotations):
                lack += credentials.variables(variables) if variables else ""
                lacks.setdefault(lack, {})[field] = None
            else:
                data[resource, f"{resource.kind} {key}"] = content
        unusable_secrets = (Missing(", ".join(fields), lack, is_credentials=True) for lack, fields in lacks.items())
        return data, [*_not_permitted(refused, cluster.namespace), *unusable_secrets, *missing]

    @property
    def _key(self) -> GateKey:
        object_ = self._data[SECRET].get(names.GATE_KEY) if SECRET in self._data else None
        return GateKey(_content(object_).get(names.GATE_KEY_FIELD, b"") if object_ is not None else b"")


def without_keys_of_others(secret: Object) -> Object:
    """Keep data only of Secrets whose type may hold credentials."""
    # Not a view: views are cached together with the whole Secret.
    return metadata_only(secret) if _decode_type(secret.raw).type in NO_CREDENTIALS else strip_managed_fields(secret)


class _Typed(msgspec.Struct):
    type: str = ""


_decode_type = msgspec.json.Decoder(_Typed).decode


def _used(spec: eksa.ClusterSpec, links: Links) -> Iterator[tuple[str, Resource, str]]:
    """Each referenced object once, with the first field that names it."""
    if spec.datacenter_ref is not None:
        yield _DATACENTER, links.datacenter, spec.datacenter_ref.name
    if not links.machine_configs and not spec.identity_provider_refs:  # most clusters have none
        return
    by_kind = {kind.kind: kind for kind in (*links.machine_configs, *IDENTITY_PROVIDERS)}
    seen = set()
    for field, reference in references(spec):
        kind, name = by_kind.get(reference.kind), reference.name
        if field != _DATACENTER and kind is not None and (kind, name) not in seen:
            seen.add((kind, name))
            yield field, kind, name


def _missing(field: str, kind: str, key: Key) -> Missing:
    return Missing(field, f"{kind} {key.name} in namespace {key.namespace}, which does not exist")


def _not_permitted(dependencies: Iterable[Dependency], namespace: str) -> Iterator[Missing]:
    for secret in needed(dependencies):
        name = str(Key(SYSTEM_NAMESPACE, secret.name))
        told = credentials.advice(name, servers=secret.servers, namespace=namespace, fields=secret.fields)
        told += credentials.variables(secret.variables) if secret.variables else ""
        yield Missing(secret.places, told, is_credentials=True)


def missing_kind(resource: Resource) -> Missing:
    """The message for a provider whose kinds are not installed."""
    told = (
        f"CustomResourceDefinition {resource.plural}.{resource.group}, which does not exist: "
        "the Cluster API provider of this infrastructure is not installed in the management cluster"
    )
    return Missing("spec.datacenterRef.kind", told, after=RECHECK_INTERVAL)


def _is_permitted(secret: Object | None, server: str, namespace: str) -> bool:
    annotations = secret.metadata.annotations if secret is not None else {}
    return credentials.permits(annotations, server=server, namespace=namespace)


def _content(object_: Object) -> Data:
    if object_.kind == CONFIG_MAP.kind:
        return Data((name, value.encode()) for name, value in object_.decode(ConfigMap).data.items())
    return Data(object_.decode(Secret).data)
