"""A small API server for tests of the runtime: enough of the protocol, and faults on request.

Versions are one rising number; a watch replays the history after its version; `compact` forgets history (410).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import jsonpatch
import msgspec

from espalier.api.core import CONFIG_MAP
from espalier.api.resource import Resource
from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists, ApiError, Conflict, Expired, Invalid, NotFound, Unreachable
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request, Response, Stream, User
from espalier.runtime.caches import selectors
from tests.support.servers.no_retry import NO_RETRY

Tree = dict[str, Any]
Change = tuple[int, str, str, Tree]  # version, type, path of the object, object


class SmallServer:
    """Keeps objects by path. `before` is called with each request and may raise."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, Tree] = {}
        self.requests: list[Request] = []
        self.watches: list[SmallWatch] = []
        self.before: Callable[[Request], None] = lambda request: None
        self.slow: float = 0.0
        self._history: list[Change] = []
        self._oldest = 0
        self._uids = 0

    async def serve(self, request: Request, user: User) -> Response:
        self.requests.append(request)
        if self.slow:
            await asyncio.sleep(self.slow)
        try:
            self.before(request)
            return Response(200, msgspec.json.encode(self._answer(request)))
        except ApiError as error:
            return Response(error.status.code, msgspec.json.encode(error.status))

    async def watch(self, request: Request, user: User) -> Stream | Response:
        self.requests.append(request)
        try:
            self.before(request)
            since = int(request.query["resourceVersion"])
            if since < self._oldest:
                raise Expired.of("too old resource version")
        except ApiError as error:
            return Response(error.status.code, msgspec.json.encode(error.status))
        watch = SmallWatch(self, request, float(request.query.get("timeoutSeconds", 300)))
        for change in self._history:
            if change[0] > since:
                watch.tell(change)
        self.watches.append(watch)
        return watch

    @property
    def writes(self) -> Counter[str]:
        return Counter(request.method for request in self.requests if request.method != "GET")

    def compact(self) -> None:
        """Forget history, and break all watches: whoever watched has to list again."""
        self._oldest = self.version + 1
        self.version += 1
        self._history.clear()
        self.break_watches()

    def break_watches(self) -> None:
        for watch in self.watches:
            watch.break_off()
        self.watches.clear()

    def put(self, tree: Tree, resource: Resource = CONFIG_MAP) -> Tree:
        """Write an object behind everybody's back."""
        metadata = tree["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"])
        tree = {"apiVersion": resource.api_version, "kind": resource.kind, **tree}
        return self._store(path, tree, "MODIFIED" if path in self.objects else "ADDED")

    def remove(self, name: str, namespace: str = "default", resource: Resource = CONFIG_MAP) -> None:
        self._delete(resource.path(namespace, name))

    def bookmark(self) -> None:
        for watch in self.watches:
            watch.bookmark()

    def _answer(self, request: Request) -> object:
        method, path = request.method, request.path
        body = msgspec.json.decode(request.body) if request.body else {}
        if method == "GET":
            return self.objects[path] if path in self.objects else self._list(request)
        if method == "POST":
            name = body["metadata"]["name"]
            path = f"{path}/{name}"
            if path in self.objects:
                raise AlreadyExists.of(f"{name} already exists")
            return self._store(path, body, "ADDED")
        if method == "PATCH":
            if path not in self.objects and "apply" not in request.headers["content-type"]:
                raise NotFound.of(f"{path} not found")
            present = self.objects.get(path)
            if isinstance(body, list):
                return self._store(path, _json_patch(present, body), "MODIFIED")
            wanted = body.get("metadata", {}).get("resourceVersion")
            if wanted and present and wanted != present["metadata"]["resourceVersion"]:
                raise Conflict.of("the object has been modified")
            return self._store(path, _merge(present or {}, body), "MODIFIED" if present else "ADDED")
        if path not in self.objects:
            raise NotFound.of(f"{path} not found")
        self._delete(path)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _list(self, request: Request) -> Tree:
        selected = [tree for path, tree in self.objects.items() if selects(request, path, tree)]
        if not selected and request.path.rsplit("/", 1)[1] not in PLURALS:
            raise NotFound.of(f"{request.path} not found")
        start, limit = int(request.query.get("continue", "0")), int(request.query.get("limit", "0")) or len(selected)
        metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(selected):
            metadata["continue"] = str(start + limit)
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": selected[start : start + limit]}

    def _store(self, path: str, tree: Tree, type_: str) -> Tree:
        self.version += 1
        self._uids += 1
        metadata = tree["metadata"]
        uid = self.objects[path]["metadata"]["uid"] if path in self.objects else f"uid-{self._uids}"
        managed = [{"manager": "small", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]
        own = {"resourceVersion": str(self.version), "uid": uid, "managedFields": managed}
        tree = {**tree, "metadata": {**metadata, **own}}
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            self.objects.pop(path)
            type_ = "DELETED"
        else:
            self.objects[path] = tree
        self._record((self.version, type_, path, tree))
        return tree

    def _delete(self, path: str) -> None:
        tree = self.objects.pop(path)
        self.version += 1
        gone = {**tree, "metadata": {**tree["metadata"], "resourceVersion": str(self.version)}}
        self._record((self.version, "DELETED", path, gone))

    def _record(self, change: Change) -> None:
        self._history.append(change)
        for watch in self.watches:
            watch.tell(change)


PLURALS = {
    "configmaps",
    "secrets",
    "leases",
    "events",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
}


class SmallWatch:
    """One watch; `hold` keeps its events back until `release`."""

    def __init__(self, server: SmallServer, request: Request, seconds: float) -> None:
        self._server = server
        self._request = request
        self.seconds = seconds
        self._held: list[bytes] | None = None
        self._queue: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    def tell(self, change: Change) -> None:
        _, type_, path, tree = change
        if selects(self._request, path, tree):
            self._send(msgspec.json.encode({"type": type_, "object": tree}))

    def bookmark(self) -> None:
        metadata = {"resourceVersion": str(self._server.version)}
        self._send(msgspec.json.encode({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "metadata": metadata}}))

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for document in held:
            self._queue.put_nowait(document)

    def break_off(self) -> None:
        self._queue.put_nowait(Unreachable("connection reset"))

    def _send(self, document: bytes) -> None:
        if self._held is not None:
            self._held.append(document)
        else:
            self._queue.put_nowait(document)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    item = await self._queue.get()
                    if isinstance(item, Exception):
                        raise item
                    yield item
        except TimeoutError:
            return

    async def close(self) -> None:
        if self in self._server.watches:
            self._server.watches.remove(self)


def selects(request: Request, path: str, tree: Tree) -> bool:
    """True if a list or watch request covers an object."""
    collection = path.rsplit("/", 1)[0]
    everywhere = collection
    if "/namespaces/" in collection:
        head, tail = collection.split("/namespaces/")
        everywhere = f"{head}/{tail.split('/', 1)[1]}"
    if request.path not in (collection, everywhere):
        return False
    fields = request.query.get("fieldSelector", "")
    if fields and fields != f"metadata.name={tree['metadata']['name']}":
        return False
    return selectors.parse(request.query.get("labelSelector", ""))(tree["metadata"].get("labels", {}))


def _merge(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


def _json_patch(tree: Tree | None, patch: list[Tree]) -> Tree:
    try:
        patched: Tree = jsonpatch.apply_patch(tree, patch)
    except jsonpatch.JsonPatchException as error:
        raise Invalid.of(str(error)) from error
    return patched


def client_of(server: SmallServer) -> Client:
    return Client(InProcessTransport(server), retry=NO_RETRY, rng=random.Random(0))


def config_map(name: str, namespace: str = "default", *, labels: Tree | None = None, **data: str) -> Tree:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, "data": data}
