"""Discovery: the resources of an API server, and the one that a word refers to.

Aggregated discovery (two requests) where the server has it, else one request for each group and version.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from espalier.api.meta import Part
from espalier.api.resource import Resource
from espalier.api.trees import json_trees
from espalier.kube.client import Client
from espalier.kube.errors import KubeError, NotKubernetes, error_of
from espalier.kube.transports.wire import Request

T = TypeVar("T")

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class UnknownResource(KubeError):
    """The API server serves nothing under that name."""


class ServedResource(NamedTuple):
    """A resource with the other words for it and what can be done with it."""

    resource: Resource
    singular: str
    short_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class Discovery:
    """The resources of an API server: cached, and read again when one is not found."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._served: Sequence[ServedResource] | None = None
        self._lock = asyncio.Lock()

    async def resources(self) -> Sequence[ServedResource]:
        """All resources in the server's order: preferred groups and versions first."""
        async with self._lock:
            if self._served is None:
                self._served = await self._discover()
            return self._served

    async def resolve(self, word: str) -> Resource:
        """The resource for a plural, singular, kind or short name, alone or with `.group` or `.version.group`. If
        several groups have it, the server's first one counts, as for kubectl. Raises `UnknownResource`."""
        known = self._served is not None
        resource = _find(word, await self.resources())
        if resource is None and known:
            self._served = None  # a CRD may have been created since
            resource = _find(word, await self.resources())
        if resource is None:
            raise UnknownResource(f'the API server has no resource "{word}"{_suggestion(word, await self.resources())}')
        return resource

    async def _discover(self) -> Sequence[ServedResource]:
        documents = await asyncio.gather(*(self._get(path, _AGGREGATED) for path in ("/api", "/apis")))
        lists = [_decode(document, _GroupList) for document in documents]
        if all(list_.kind == "APIGroupDiscoveryList" for list_ in lists):
            return [served for list_ in lists for group in list_.items for served in _of_group(group)]
        versions = [("", version) for version in _decode(documents[0], _LegacyVersions).versions]
        for group in _decode(documents[1], _LegacyGroups).groups:
            versions += [(group.name, version) for version in group.ordered()]
        discovered = await asyncio.gather(*(self._of_version(group, version) for group, version in versions))
        return [served for of_version in discovered for served in of_version]

    async def _of_version(self, group: str, version: str) -> Sequence[ServedResource]:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        response = await self._client.raw(Request("GET", path))
        if response.status != 200:
            return []  # this group's server is unavailable; other groups still work
        resources = _decode(response.body, _LegacyResources).resources
        return [
            ServedResource(
                Resource(
                    resource.group or group,
                    resource.version or version,
                    resource.name,
                    resource.kind,
                    resource.namespaced,
                ),
                resource.singular_name or resource.kind.lower(),
                resource.short_names,
                resource.verbs,
                resource.categories,
            )
            for resource in resources
            if "/" not in resource.name
        ]

    async def _get(self, path: str, accept: str) -> bytes:
        response = await self._client.raw(Request("GET", path, headers={"accept": accept}))
        if response.status != 200:
            raise error_of(response.status, response.body)
        return response.body


def _find(word: str, served: Sequence[ServedResource]) -> Resource | None:
    name, _, place = word.lower().partition(".")

    def is_named(names: Iterable[str], resource: Resource) -> bool:
        return name in names and place in {"", resource.group, f"{resource.version}.{resource.group}"}

    for item in served:
        if is_named((item.resource.plural, item.singular, item.resource.kind.lower()), item.resource):
            return item.resource
    for item in served:
        if is_named(item.short_names, item.resource):
            return item.resource
    return None


def _suggestion(word: str, served: Sequence[ServedResource]) -> str:
    near = difflib.get_close_matches(word.lower(), [item.resource.plural for item in served], n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


class _ResponseKind(Part):
    kind: str = ""


class _Resource(Part):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str = ""
    singular_resource: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _Version(Part):
    version: str
    resources: tuple[_Resource, ...] = ()


class _GroupMeta(Part):
    name: str = ""


class _Group(Part):
    metadata: _GroupMeta = msgspec.field(default_factory=_GroupMeta)
    versions: tuple[_Version, ...] = ()


class _GroupList(Part):
    kind: str = ""
    items: tuple[_Group, ...] = ()


class _LegacyVersions(Part):
    versions: tuple[str, ...] = ()


class _LegacyVersion(Part):
    version: str


class _LegacyGroup(Part):
    name: str
    versions: tuple[_LegacyVersion, ...] = ()
    preferred_version: _LegacyVersion | None = None

    def ordered(self) -> list[str]:
        """The versions, the preferred one first."""
        names = [version.version for version in self.versions]
        preferred = self.preferred_version.version if self.preferred_version else ""
        return sorted(names, key=lambda name: name != preferred)


class _LegacyGroups(Part):
    groups: tuple[_LegacyGroup, ...] = ()


class _LegacyResource(Part):
    name: str
    kind: str
    singular_name: str = ""
    namespaced: bool = False
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _LegacyResources(Part):
    resources: tuple[_LegacyResource, ...] = ()


def _of_group(group: _Group) -> Iterator[ServedResource]:
    for version in group.versions:
        for resource in version.resources:
            if resource.response_kind is None:
                continue  # only subresources are served under this name
            kind = resource.response_kind.kind
            yield ServedResource(
                Resource(group.metadata.name, version.version, resource.resource, kind, resource.scope == "Namespaced"),
                resource.singular_resource or kind.lower(),
                resource.short_names,
                resource.verbs,
                resource.categories,
            )


def _decode(document: bytes, type_: type[T]) -> T:
    try:
        return json_trees.decode(document, type_)
    except msgspec.MsgspecError as error:
        raise NotKubernetes(f"the API server's discovery document cannot be read: {error}") from None
