"""Single steps of a reconcile: among objects that were seen, with servers that keep what they are asked to write."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.act.context import ClusterContext, ClusterTools
from espalier.clusters.design.drift.rate_limit import RateLimits
from espalier.clusters.design.provider import Providers
from espalier.clusters.observe.settling import Settling
from espalier.kube.client import Client
from espalier.kube.errors import Unreachable
from espalier.kube.transports.wire import Request, Response, Stream
from espalier.providers.registry import PROVIDERS
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.events import Recorder
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.workload_clusters.remote import RemoteClients
from espalier.runtime.workload_clusters.remote_tasks import RemoteTasks
from tests.support.objects.observed_clusters import GARDEN, applied, observer

T = TypeVar("T")

NOT_FOUND = Response(404, b'{"kind":"Status","status":"Failure","reason":"NotFound","code":404}')


class Server:
    """Agrees to every write unless `answers` say otherwise (by method), and keeps what it was asked."""

    def __init__(self, answers: Mapping[str, Response] | None = None) -> None:
        self.answers = dict(answers or {})
        self.asked: list[Request] = []

    @property
    def written(self) -> list[Tree]:
        """The bodies of patches."""
        return [json.loads(request.body) for request in self.asked if request.method == "PATCH"]

    async def request(self, request: Request) -> Response:
        self.asked.append(request)
        return self.answers.get(request.method) or Response(200, _merged(request.body))

    async def stream(self, request: Request) -> Stream | Response:
        raise AssertionError(request.path)

    async def close(self) -> None: ...


def _merged(patch: bytes) -> bytes:
    """The fields that a patch leaves: those that it removes are not there."""
    return json.dumps(json.loads(patch, object_hook=_without_nulls)).encode() if patch else patch


def _without_nulls(tree: Tree) -> Tree:
    return {name: value for name, value in tree.items() if value is not None}


class Workload(Server):
    """The API server of a workload cluster, which has what is `stored` by its path, and what was applied there."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, bytes] = {}
        self.slow = 0.0
        """Seconds until it answers."""
        self.slow_writes = 0.0
        """The same for writes."""
        self.away = False
        """True if it is out of reach."""

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(self.slow if request.method == "GET" else self.slow or self.slow_writes)
        if self.away:
            raise Unreachable("connection refused")
        answer = await super().request(request)
        if request.method in self.answers:
            return answer
        if request.method == "GET":
            value = self.stored.get(request.path)
            return Response(200, value) if value is not None else NOT_FOUND
        if request.method == "PATCH":
            self.store(request.path, json.loads(request.body))
        return answer

    def store(self, path: str, tree: Tree) -> None:
        """Have an object there as if a manager had applied it."""
        self.stored[path] = json.dumps(applied(tree)).encode()


class Environment:
    """The environment that reconciles share: both API servers, and what was kept of earlier ones."""

    def __init__(self, server: Server, workload: Server, copies: Expiry | None) -> None:
        self.server = server
        self.workload = workload
        self.copies = copies
        self.rate_limits = RateLimits()
        self.client = Client(server)
        self._remotes = RemoteClients(lambda _: Client(workload))
        self._remote_tasks = RemoteTasks(self._remotes)

    def begin(self, *trees: Tree, key: Key = GARDEN, providers: Providers = PROVIDERS) -> ClusterContext:
        """A reconcile that has seen these objects."""
        seen = observer(*trees, providers=providers)
        scope = seen.scope(key)
        assert scope is not None
        recorder = Recorder(self.client, component="test", clock=SystemClock(), rng=random.Random(1))
        writer = seen.writer(self.client)
        tools = ClusterTools(
            seen,
            writer,
            self._remotes,
            recorder,
            SystemClock(),
            self._remote_tasks,
            self.rate_limits,
            Settling(0),
            self.copies,
        )
        return ClusterContext(tools, scope)


def step(
    act: Callable[[ClusterContext], Awaitable[T]], trees: Sequence[Tree], key: Key = GARDEN
) -> tuple[T, list[Tree], ClusterContext]:
    """How a step ends among these objects, what it patches, and its reconcile."""

    async def main() -> tuple[T, list[Tree], ClusterContext]:
        env = Environment(Server(), Workload(), Expiry())
        p = env.begin(*trees, key=key)
        return await act(p), env.server.written, p

    return asyncio.run(main())
