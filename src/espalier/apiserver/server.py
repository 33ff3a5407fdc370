"""The server: runs the core's steps, makes their webhook calls, and responds once writes are durable."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime

import msgspec

from espalier.api import core as builtin
from espalier.api.core import KUBE_SYSTEM
from espalier.api.version_matrix import DEFAULT_ROW, KUBERNETES
from espalier.apiserver.access.rbac import Rbac
from espalier.apiserver.access.webhooks import CallFailed, CallWebhook, Result, WebhookCall
from espalier.apiserver.builtin import builtin as builtin_kinds
from espalier.apiserver.core.core import Answer, Core, RequestSteps
from espalier.apiserver.core.garbage_collector import GarbageCollector
from espalier.apiserver.core.handler import Handler
from espalier.apiserver.core.watches import Watch
from espalier.apiserver.documents import definitions
from espalier.apiserver.documents.discovery import Discovery
from espalier.apiserver.documents.openapi import OpenApi
from espalier.apiserver.requests import logs
from espalier.apiserver.requests.requests import Authorizer, RequestInfo, parse, with_json_body
from espalier.apiserver.schema.registry import Registry
from espalier.apiserver.storage.store import Change, Store, Write
from espalier.apiserver.wire import failures, options, warnings
from espalier.apiserver.wire.content import JSON, NOT_FOUND, failure
from espalier.kube.errors import ApiError, ServerFailure, Status
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import ADMIN, Request, Response, Stream, User

NAMESPACES = ("default", "kube-node-lease", "kube-public", KUBE_SYSTEM)
"""The initial namespaces."""

MINUTE = 60.0
KEPT_MINUTES = 5
"""How long changes are kept for watches."""


DEFAULT_VERSION = f"v{KUBERNETES[DEFAULT_ROW].patch}"


class Server:
    """An API server in this process (`kube.transports.wire.Endpoint`).

    `now` and `random` are its only clock and random number generator. `call_webhook` makes the calls of admission
    webhooks. Without an `authorizer`, administrators may do anything, and others what the stored roles allow.
    `requests` counts requests by verb, resource, subresource and user agent. `version` may be changed while it runs.
    """

    def __init__(
        self,
        store: Store,
        *,
        now: Callable[[], datetime],
        random: random.Random,
        call_webhook: CallWebhook | None = None,
        version: str = DEFAULT_VERSION,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.requests: Counter[tuple[str, str, str, str]] = Counter()
        self._schemas = builtin_kinds.schemas_of(version)
        self.registry = Registry(builtin_kinds.kinds(self._schemas))
        self._store = store
        self._core = Core(store, self.registry, now, random, authorizer or Rbac(store))
        self._handler = Handler(self._core)
        self._call_webhook = call_webhook
        self._watches: dict[Watch, None] = {}
        self._started = False
        self._timer: asyncio.TimerHandle | None = None
        self._compaction_revisions: deque[int] = deque(maxlen=KEPT_MINUTES)
        self._garbage_collector = GarbageCollector(self._core, self.serve)
        self._lost: asyncio.Future[str] | None = None
        self.version = version
        self.read_log: logs.ReadLog = logs.nothing
        """The source of container logs; may be changed while it runs."""
        store.follow(self._on_change)
        store.on_loss(self._lose)

    @property
    def version(self) -> str:
        """The Kubernetes version of the server, as `v1.36.3`."""
        return self._version

    @version.setter
    def version(self, version: str) -> None:
        self._version = version
        if (schemas := builtin_kinds.schemas_of(version)) != self._schemas:
            self._schemas = schemas
            self.registry.replace_built_in(builtin_kinds.kinds(schemas))
        self._discovery = Discovery(self.registry, version)
        self._openapi = OpenApi(self.registry, version)

    async def start(self) -> None:
        """Read the store, create the initial namespaces, and start the garbage collector."""
        self._lost = asyncio.get_running_loop().create_future()
        await self._store.start()
        definitions_table = self._store.table(definitions.TABLE)
        for key in definitions_table.keys:
            self._define(key.name, definitions_table.objects[key].raw)
        self._started = True
        for name in NAMESPACES:
            body = encode_json({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            if not any(key.name == name for key in self._store.table(builtin.NAMESPACE.group_resource).keys):
                agent = {"user-agent": "kube-apiserver", "content-type": JSON}
                await self.serve(Request("POST", builtin.NAMESPACE.path(), {}, agent, body), ADMIN)
        self._garbage_collector.start()
        self._tick()

    async def close(self) -> None:
        """Stop watches and the garbage collector, and close the store; idempotent."""
        self._started = False
        if self._timer is not None:
            self._timer.cancel()
        try:
            await self._garbage_collector.stop()
            for watch in tuple(self._watches):
                await watch.close()
        finally:  # also when `close` is cancelled while watches close
            await self._store.close()

    async def lost(self) -> str:
        """Return when the store is lost, with the reason: nothing is served any more, and watches have ended.

        The process is to end then. Only a store on etcd gets lost.
        """
        if self._lost is None:
            raise RuntimeError("the server was not started")
        return await asyncio.shield(self._lost)

    def _lose(self, reason: str) -> None:
        self._started = False
        for watch in self._watches:
            watch.end()
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(reason)

    async def serve(self, request: Request, user: User) -> Response:
        """Answer a request that is not a watch, after its effects are durable."""
        try:
            document = self._document(request)
            if document is not None:
                return document
            info = self._request_info(request, user)
            if info.subresource == logs.SUBRESOURCE:
                return await self._log(info)
            if _needs_latest_state(info):
                await self._store.catch_up()
            answer = await self._run(self._handler.steps(info))
            await self._store.flushed(answer.revision)
        except ApiError as error:
            return await self._error_response(error)
        return Response(answer.status, answer.body, _headers(answer))

    async def watch(self, request: Request, user: User) -> Stream | Response:
        """Start a watch; a `Response` when it is refused."""
        try:
            info = self._request_info(request, user, watch=True)
            options.check(info.verb, info.query)
            if not info.query.get("resourceVersion"):
                await self._store.catch_up()
            watch = Watch(self._store, info, self._core.now)
        except ApiError as error:
            return await self._error_response(error)
        self._watches = {open_watch: None for open_watch in self._watches if not open_watch.is_released}
        self._watches[watch] = None
        return watch

    async def _log(self, info: RequestInfo) -> Response:
        if info.verb != "get":
            raise failures.method_not_allowed()
        pod = self._store.table(info.kind.table).objects.get(info.key)
        if pod is None:
            raise failures.not_found(info.kind.resource, info.name)
        return await logs.answer(info, pod.raw, self.read_log)

    def _document(self, request: Request) -> Response | None:
        """The response of discovery or OpenAPI, for every authenticated user; None for other paths."""
        document = self._discovery.respond(request) or self._openapi.respond(request)
        if document is not None and document.status != NOT_FOUND.status and request.method not in ("GET", "HEAD"):
            raise failures.method_not_allowed()
        return document

    def _request_info(self, request: Request, user: User, *, watch: bool = False) -> RequestInfo:
        if not self._started:
            raise ServerFailure(Status(message="the server is not running", reason="ServiceUnavailable", code=503))
        info = parse(self.registry, request, user, watch=watch)
        self.requests[info.verb, info.kind.resource.plural, info.subresource, info.user_agent] += 1
        self._handler.authorize(info)
        # Bodies of unauthorized requests are not read.
        return with_json_body(info)

    async def _run(self, steps: RequestSteps) -> Answer:
        """Run the steps of a request: its writes, and its webhook calls, those of one step concurrently."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, Write):
                    step = steps.send(await self._store.commit(step))
                else:
                    step = steps.send(list(await asyncio.gather(*map(self._call, step))))
        except StopIteration as end:
            answer: Answer = end.value
            return answer

    async def _call(self, call: WebhookCall) -> Result:
        if self._call_webhook is None:
            return CallFailed("failed to call webhook: this API server calls none")
        try:
            return await asyncio.wait_for(self._call_webhook(call), call.timeout)
        except CallFailed as failed:
            return failed
        except TimeoutError:
            return CallFailed(f"failed to call webhook: no answer within {call.timeout:g} s")

    async def _error_response(self, error: ApiError) -> Response:
        """The response for an error, once the state that it reveals (an object exists, or doesn't) is durable."""
        try:
            await self._store.flushed(self._store.revision)
        except ApiError as worse:
            error = worse
        return failure(error)

    def _on_change(self, change: Change) -> None:
        if change.table == definitions.TABLE:
            if change.deleted:
                self._forget(change.key.name)
            elif change.before is None or _serving_fields(change.before.raw) != _serving_fields(change.after.raw):
                self._define(change.key.name, change.after.raw)

    def _define(self, name: str, raw: bytes) -> None:
        kinds = definitions.kinds_of(msgspec.json.decode(raw))
        if kinds:
            self.registry.define(name, kinds)
        else:
            self._forget(name)
        self._end_watches(name)

    def _forget(self, name: str) -> None:
        self.registry.forget(name)
        self._end_watches(name)

    def _end_watches(self, table: str) -> None:
        """End the watches of a changed kind: clients must list again."""
        for watch in self._watches:
            if watch.kind.table == table and watch.kind not in self.registry.versions(table):
                watch.end()

    def _tick(self) -> None:
        """Send bookmarks and compact old changes, once a minute."""
        if len(self._compaction_revisions) == KEPT_MINUTES:
            self._store.compact(self._compaction_revisions[0])
        self._compaction_revisions.append(self._store.durable)
        self._watches = {watch: None for watch in self._watches if not watch.is_released}
        for watch in self._watches:
            watch.bookmark()
        self._timer = asyncio.get_running_loop().call_later(MINUTE, self._tick)


def _serving_fields(raw: bytes) -> tuple[object, ...]:
    """The parts of a definition that affect serving its kind."""
    tree = msgspec.json.decode(raw)
    status = tree.get("status") or {}
    return tree["spec"], status.get("acceptedNames"), definitions.is_true(tree, "Established")


def _needs_latest_state(info: RequestInfo) -> bool:
    """False for a read that accepts any state."""
    return info.verb not in ("get", "list") or info.query.get("resourceVersion") != "0"


def _headers(answer: Answer) -> dict[str, str]:
    if not answer.warnings:
        return {"content-type": JSON}
    return {"content-type": JSON, "warning": warnings.header(answer.warnings)}
