"""The Kubernetes client of controllers and commands.

Bodies are handed out undecoded (`Object`). Every write names its field manager and asks for strict field validation:
a server of another version that does not know a field must say so, for dropping it silently would give another
cluster than asked for, and a controller that finds its field missing would write it again for ever.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, Literal, TypeVar

from msgspec import structs

from espalier.api.core import POD
from espalier.api.resource import Resource
from espalier.api.text.listing import merged
from espalier.kube.bodies import decode_list, decode_object, identify, is_status
from espalier.kube.errors import AnswerTooLarge, Expired, Invalid, Unreachable, error_of
from espalier.kube.objects import Body, Object, ObjectList, encode_json
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.server_warnings import WarningLog, warnings_of
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.kube.watching import WatchEvent, decode_event

A = TypeVar("A", Response, Stream | Response)

Propagation = Literal["Background", "Foreground", "Orphan"]
FieldValidation = Literal["Strict", "Warn", "Ignore"]

LARGEST_LIST = 256 * 1024**2
"""The maximum bytes of a list in memory. (Caches are filled page by page, without this limit.)"""

_JSON = {"content-type": "application/json"}
_METADATA_ONLY = {"accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}


class PatchType(Enum):
    """Type of a patch; the value is its content type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Client:
    """Speaks to one API server.

    All methods raise the errors of `espalier.kube.errors`: an `ApiError` for each failure the server names,
    `Unreachable` when none of the attempts (see `Retry`) was answered. `on_warning` gets the server's warnings;
    without it they are logged once each. `rng` spreads retries in time. `largest_list` bounds the bytes of what
    `list` gives.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "espalier",
        user_agent: str = "espalier",
        field_validation: FieldValidation = "Strict",
        retry: Retry | None = None,
        on_warning: Callable[[str], None] | None = None,
        rng: random.Random | None = None,
        largest_list: int = LARGEST_LIST,
    ) -> None:
        self.transport = transport
        self._largest_list = largest_list
        self.field_manager = field_manager
        self._headers = {"accept": "application/json", "user-agent": user_agent}
        self._field_validation = field_validation
        self._retry = retry or Retry()
        self._on_warning = on_warning or WarningLog()
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries, guards nothing

    def warn(self, text: str) -> None:
        """Report a warning like those of the server."""
        self._on_warning(text)

    @contextmanager
    def warning(self, on_warning: Callable[[str], None]) -> Iterator[None]:
        """Call `on_warning` with the server's warnings within the block."""
        before, self._on_warning = self._on_warning, on_warning
        try:
            yield
        finally:
            self._on_warning = before

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, subresource: str | None = None
    ) -> Object:
        """Read one object, or its subresource (`scale`). Raises `NotFound`."""
        response = await self._call("GET", _path(resource, namespace, name, subresource))
        return decode_object(response.body, resource if subresource is None else None)

    async def version(self, resource: Resource, name: str, namespace: str | None = None) -> str:
        """The resource version of one object, without the rest of it. Raises `NotFound`."""
        response = await self._call("GET", _path(resource, namespace, name), headers=_METADATA_ONLY)
        return Object(response.body).resource_version

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "", limit: int = 500
    ) -> ObjectList:
        """Read a whole collection, `limit` objects at a time, as it was at one moment.

        When that moment is compacted away between two pages, the list is read again in one piece. Raises
        `AnswerTooLarge`.
        """
        try:
            return await self._all_pages(resource, namespace, labels, fields, limit)
        except Expired:
            return await self._all_pages(resource, namespace, labels, fields, 0)

    async def pages(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "", limit: int = 500
    ) -> AsyncGenerator[ObjectList, None]:
        """Read a collection page by page; all pages show the same moment.

        Pages that are too large become smaller ones. Raises `Expired` when that moment is compacted away before the
        last page: start again.
        """
        path = _path(resource, namespace)
        query = _selectors(labels, fields)
        if limit:
            query["limit"] = str(limit)
        while True:
            try:
                response = await self._call("GET", path, query)
            except AnswerTooLarge:
                if limit <= 1:
                    raise
                limit = max(1, limit // 4)
                query["limit"] = str(limit)
                continue
            page, more = decode_list(response.body, resource)
            yield page
            if not more:
                return
            query["continue"] = more

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_seconds: int | None = None,
        accept: str = "application/json",
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Watch a collection from `resource_version`: one connection, ended by the server.

        `accept` may ask for another representation of the objects, as `as=Table`. `opened` is called when the server
        has agreed: there may be no event for long.

        Whoever wants more watches again from the last resource version seen; bookmarks keep it young. Raises
        `Expired` when it is too old (list again), `Unreachable` when the connection breaks.
        """
        query = _selectors(labels, fields) | {"watch": "true", "allowWatchBookmarks": "true"}
        query["resourceVersion"] = resource_version
        if timeout_seconds is not None:
            query["timeoutSeconds"] = str(timeout_seconds)
        request = Request("GET", _path(resource, namespace), query, {**self._headers, "accept": accept})
        stream = await self._attempt(self.transport.stream, request)
        if isinstance(stream, Response):
            raise error_of(stream.status, stream.body)
        opened()
        try:
            async for document in stream:
                yield decode_event(document)
        finally:
            await stream.close()

    async def create(self, resource: Resource, body: Body, *, dry_run: bool = False) -> Object:
        """Create an object. Raises `AlreadyExists`; `Invalid` names each wrong field."""
        target = identify(resource, body)
        path = _path(resource, _namespace(resource, target.namespace))
        return await self._write("POST", path, target.raw, _JSON, dry_run=dry_run)

    async def evict(self, pod: Object) -> None:
        """Ask for the deletion of this pod within its PodDisruptionBudgets. Raises `TooManyRequests`, `NotFound`."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.metadata.uid}},
        }
        path = _path(POD, pod.namespace, pod.name, "eviction")
        await self._call("POST", path, None, _JSON, encode_json(body))

    async def replace(
        self, resource: Resource, body: Body, *, subresource: str | None = None, dry_run: bool = False
    ) -> Object:
        """Write a whole object. Raises `Conflict` when its resource version is not the current one."""
        target = identify(resource, body)
        path = _path(resource, target.namespace, target.name, subresource)
        return await self._write("PUT", path, target.raw, _JSON, dry_run=dry_run)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        patch: Body | Sequence[Mapping[str, Any]],
        type: PatchType,
        subresource: str | None = None,
        field_validation: FieldValidation | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Change a part of an object. A `metadata.resourceVersion` or `uid` in the patch is a precondition.
        `field_validation` takes the place of the client's.
        """
        path = _path(resource, namespace, name, subresource)
        raw = patch.raw if isinstance(patch, Object) else patch if isinstance(patch, bytes) else encode_json(patch)
        query = {"fieldValidation": field_validation} if field_validation else {}
        return await self._write("PATCH", path, raw, {"content-type": type.value}, query, dry_run=dry_run)

    async def apply(
        self,
        resource: Resource,
        body: Body,
        *,
        force: bool = True,
        field_manager: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply: the fields of `body` belong to the field manager, those it left out no longer do.

        Raises `Conflict` when another manager owns a field and `force` is False.
        """
        target = identify(resource, body)
        path = _path(resource, target.namespace, target.name, subresource)
        headers = {"content-type": "application/apply-patch+yaml"}  # JSON is YAML
        query = {"force": "true" if force else "false"}
        if field_manager:
            query["fieldManager"] = field_manager
        return await self._write("PATCH", path, target.raw, headers, query, dry_run=dry_run)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Propagation = "Background",
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Object | None:
        """Delete an object: None when it is gone, the object when a finalizer or its grace period still holds it.

        `uid` and `resource_version` are preconditions (`Conflict`). Raises `NotFound`.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {field: value for field, value in preconditions.items() if value}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if dry_run:
            options["dryRun"] = ["All"]
        path = _path(resource, namespace, name)
        response = await self._call("DELETE", path, headers=_JSON, body=encode_json(options))
        return None if is_status(response.body) else decode_object(response.body, resource)

    async def raw(self, request: Request) -> Response:
        """Any other request (discovery, health), with this client's headers and retries. Returns the response whatever
        its status."""
        headers = {**self._headers, **request.headers}
        request = Request(request.method, request.path, request.query, headers, request.body, request.timeout)
        return await self._attempt(self.transport.request, request)

    def without_repeats(self) -> Client:
        """The same client without retries of failures, for callers that retry themselves. Retry-After is obeyed."""
        other = copy.copy(self)
        other._retry = structs.replace(self._retry, failures=False)
        return other

    async def close(self) -> None:
        """Close connections; idempotent."""
        await self.transport.close()

    async def _all_pages(
        self, resource: Resource, namespace: str | None, labels: str, fields: str, limit: int
    ) -> ObjectList:
        items: list[Object] = []
        size = 0
        resource_version = ""
        async for page in self.pages(resource, namespace, labels=labels, fields=fields, limit=limit):
            items += page.items
            size += sum(len(item.raw) for item in page.items)
            if size > self._largest_list:
                limit_ = f"{self._largest_list / 1024**2:g} MiB"
                raise AnswerTooLarge(
                    f"the list of {resource.group_resource} has more than {limit_}; the rest was not read"
                )
            resource_version = page.resource_version
        return ObjectList(items, resource_version)

    async def _write(
        self,
        method: str,
        path: str,
        raw: bytes,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
        *,
        dry_run: bool,
    ) -> Object:
        options = {"fieldManager": self.field_manager, "fieldValidation": self._field_validation, **(query or {})}
        if dry_run:
            options["dryRun"] = "All"
        response = await self._call(method, path, options, headers, raw)
        return decode_object(response.body)

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Response:
        merged = {**self._headers, **headers} if headers else self._headers
        response = await self._attempt(self.transport.request, Request(method, path, dict(query or {}), merged, body))
        if response.status >= 300:
            raise error_of(response.status, response.body)
        return response

    async def _attempt(self, send: Callable[[Request], Awaitable[A]], request: Request) -> A:
        attempt, loop = 0, asyncio.get_running_loop()
        began = loop.time()
        while True:
            attempt += 1
            try:
                answer = await send(request)
            except Unreachable as failure:
                pause = self._retry.after_failure(attempt, request, failure, self._rng, loop.time() - began)
                if pause is None:
                    raise
            else:
                if not isinstance(answer, Response):
                    return answer
                for text in merged(warnings_of(answer.headers)):
                    self._on_warning(text)
                pause = self._retry.after_response(attempt, answer, self._rng)
                if pause is None:
                    return answer
            await asyncio.sleep(pause)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}


def _path(
    resource: Resource, namespace: str | None = None, name: str | None = None, subresource: str | None = None
) -> str:
    """The path of a request; names that would change the path are refused (Kubernetes' rule for path segments)."""
    for part, value in (("name", name), ("namespace", namespace)):
        if value and (value in {".", ".."} or "/" in value or "%" in value):
            raise Invalid.of(
                f'{resource.group_resource}: the {part} "{value}" may not be ".", ".." or contain "/" or "%"'
            )
    if name is not None:
        if not name:
            raise Invalid.of(f"{resource.group_resource}: a name is needed")
        namespace = _namespace(resource, namespace)
    return resource.path(namespace, name, subresource)


def _namespace(resource: Resource, namespace: str | None) -> str | None:
    if resource.namespaced and not namespace:
        raise Invalid.of(f"{resource.group_resource}: a namespace is needed")
    return namespace
