"""Caches that are filled once and watch nothing, for previews."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request, Response, Stream
from espalier.runtime.caches.cache import Caches


class Snapshot(Caches):
    """Caches with a fixed state. Readers use them like caches that follow an API server."""

    def __init__(self) -> None:
        super().__init__(Client(_RejectingTransport()))
        self._objects: dict[tuple[str, str, Key], Object] = {}

    def get(self, api_version: str, kind: str, key: Key) -> Object | None:
        """An object as it was filled in, with everything that caches strip."""
        return self._objects.get((api_version, kind, key))

    def fill(self, objects: Iterable[Object]) -> None:
        """Set the content of all caches to these objects."""
        by_kind: dict[tuple[str, str], list[Object]] = {}
        for object_ in objects:
            by_kind.setdefault((object_.head.api_version, object_.kind), []).append(object_)
            self._objects[object_.head.api_version, object_.kind, object_.key] = object_
        for cache in self.all:
            source = cache.source
            of_kind = by_kind.get((source.resource.api_version, source.resource.kind), ())
            cache.begin_list()
            selected = (
                object_ for object_ in of_kind if not source.namespaces or object_.namespace in source.namespaces
            )
            cache.listed([Object(object_.raw) for object_ in selected])  # a transform may change the object
            cache.end_list("0")

    def put(self, object_: Object) -> None:
        """Add an object to the caches, or replace it."""
        self._objects[object_.head.api_version, object_.kind, object_.key] = object_
        for cache in self.all:
            source = cache.source
            if source.resource.kind != object_.kind or source.resource.api_version != object_.head.api_version:
                continue
            if not source.namespaces or object_.namespace in source.namespaces:
                cache.happened("MODIFIED", Object(object_.raw))


class _RejectingTransport:
    """A transport that rejects all requests, as the caches are not run."""

    async def request(self, request: Request) -> Response:
        raise AssertionError(f"{request.method} {request.path}: a snapshot sends no requests")

    async def stream(self, request: Request) -> Stream | Response:
        raise AssertionError(f"{request.path}: a snapshot has no watches")

    async def close(self) -> None: ...
