"""The manager: starts the parts of a process in order, and stops them in reverse order.

The order is nearly that of controller-runtime: health and metrics, caches and webhooks (filled and served before any
controller acts), leader election, preparations, controllers. Webhooks and caches run on every replica, so that a new
leader starts warm. `checks` report what it is waiting for.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from enum import IntEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

import structlog
from aiohttp import web

from espalier.api.core import LEASE, SECRET
from espalier.api.resource import Resource
from espalier.kube.client import Client
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.metrics import MeasuredTransport, RequestMetrics
from espalier.runtime.caches.cache import Caches
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.events import Recorder
from espalier.runtime.leadership.fencing import Fence, fenced, with_transport
from espalier.runtime.leadership.write_limits import WriteLimit, limited
from espalier.runtime.metrics import Metrics
from espalier.runtime.options import Options
from espalier.runtime.servers.health import Check, health_application, metrics_application
from espalier.runtime.servers.serving import HttpServer
from espalier.runtime.servers.webhooks import Webhooks
from espalier.runtime.workload_clusters.remote import Connect, RemoteClients, over_http
from espalier.runtime.workload_clusters.workload_account import WorkloadAccount

_log = structlog.get_logger("espalier.manager")


class Ending(IntEnum):
    """How a manager ended; the value is the exit code of its process."""

    STOPPED = 0
    LEADERSHIP_LOST = 3


Hint: TypeAlias = Callable[[Resource, KubeError | TimeoutError], str]
"""A hint about an error with a kind, as the end of a sentence; empty if there is none."""

LOG_EVERY = 5.0
"""Seconds between two checks for why a process is not ready yet, and before it is logged which kinds are missing."""


class CachesNotFilled(Exception):
    """The first lists did not arrive in time; the message names them."""


@runtime_checkable
class Runnable(Protocol):
    """Runs until it is cancelled or done; an exception ends the manager. Only the leader runs it."""

    async def run(self) -> None:
        """Run."""


class Preparation(Runnable, Protocol):
    """Work that must be done before controllers start. An exception ends the manager."""

    @property
    def prepared(self) -> asyncio.Event:
        """Set once controllers may start; `run` may continue after that."""


class Leadership(Protocol):
    """An election: `Election` or `ElectionThread`."""

    fence: Fence
    name: str

    @property
    def trouble(self) -> KubeError | None:
        """The error that keeps this candidate from leading until somebody acts."""

    async def acquire(self) -> None:
        """Wait until this candidate leads."""

    async def hold(self) -> None:
        """Renew until leadership is lost."""

    async def release(self) -> None:
        """Release the Lease."""


class Manager:
    """Runs controllers and what they need.

    `client` is the manager's own; components use `manager.client`, which refuses writes while this process does not
    lead. `connect` creates clients of workload clusters. With a `server_name`, requests are measured under that host.
    Addresses are (host, port); port 0 takes a free one, None serves nothing. `grace` is the time in seconds for running
    reconciles to finish when the manager stops, `fill_within` that for the first lists (None for no limit). `hint` is
    added to messages on why lists take long. Without `own_account`, workload clusters are asked as the user of their
    kubeconfigs.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random | None = None,
        connect: Connect = over_http,
        options: Options | None = None,
        election: Leadership | None = None,
        health_address: tuple[str, int] | None = None,
        metrics_address: tuple[str, int] | None = None,
        component: str = "espalier",
        server_name: str = "",
        grace: float = 30.0,
        fill_within: float | None = 120.0,
        hint: Hint = lambda _resource, _error: "",
        own_account: bool = True,
    ) -> None:
        self.clock = clock
        self.rng = rng or random.Random()  # noqa: S311 - spreads load in time, guards nothing
        self.options = options or Options()
        self.metrics = Metrics()
        self.fence = election.fence if election is not None else None
        if server_name:
            client = with_transport(
                client, MeasuredTransport(client.transport, RequestMetrics(self.metrics.registry), server_name)
            )
        self.replica_client = limited(client, WriteLimit(self.metrics.on_limited))
        """For writes of every replica, whether it leads or not."""
        self.client = self.replica_client if self.fence is None else fenced(self.replica_client, self.fence)
        self.workload_account = WorkloadAccount(clock) if own_account else None
        """The user of all requests to workload clusters; None for that of their kubeconfigs."""
        self.remotes = RemoteClients(
            connect, fence=self.fence, on_limited=self.metrics.on_limited, account=self.workload_account
        )
        """Clients of workload clusters, for all components; closed when the manager ends."""
        self.caches = Caches(client, rng=self.rng, options=self.options)
        self.recorder = Recorder(self.client, component=component, clock=clock, rng=self.rng)
        self.checks: dict[str, Check] = {"caches": self._caches_check}
        """Readiness checks: a replica that fails one gets no webhook calls, and a rollout of it stops."""
        self.notices: dict[str, Check] = {"kinds": lambda: self._unserved(optional=False)}
        """Listed with the checks, but without effect on readiness."""
        self._election = election
        if election is not None:
            self.checks["leadership"] = lambda: self._error_message(LEASE, election.trouble)
        self._addresses = (health_address, metrics_address)
        self._grace = grace
        self._fill_within = fill_within
        self._hint = hint
        self._caches = [self.caches]
        self.caches.on_served = self._on_served
        self._logged_unserved = ("", "")
        self._is_logging_unserved = False
        self._webhooks: list[Webhooks] = []
        self._controllers: list[Controller] = []
        self._preparations: list[Preparation] = []
        self._runnables: list[Runnable] = []
        self._servers: list[HttpServer] = []
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._end: asyncio.Future[Ending] | None = None
        self.leading = asyncio.Event()
        """Set while controllers run."""

    def add(self, component: Caches | Controller | Webhooks | Runnable) -> None:
        """Run this, too. Controllers that `options.controllers` excludes are ignored."""
        if isinstance(component, Controller):
            if self.options.enables(component.name):
                component.measured_by(self.metrics)
                self._controllers.append(component)
                if self.leading.is_set():
                    self._spawn(component.run(), component.name)
        elif isinstance(component, Caches):
            self._caches.append(component)
            component.on_served = self._on_served
        elif isinstance(component, Webhooks):
            component.measured_by(self.metrics)
            if component not in self._webhooks:
                self._webhooks.append(component)
            self.checks["webhooks"] = self._webhooks_check
        else:
            self._runnables.append(component)
            if self.leading.is_set():
                self._spawn(component.run(), type(component).__name__)

    def prepare(self, preparation: Preparation) -> None:
        """Have the leader run this before its controllers, which start once it is prepared."""
        self._preparations.append(preparation)

    @property
    def unready(self) -> str:
        """Why this replica is not ready, as `/readyz` says; empty if it is."""
        return "; ".join(filter(None, (check() for check in self.checks.values())))

    @property
    def ports(self) -> list[int]:
        """The ports of health and metrics."""
        return [server.port for server in self._servers]

    def stop(self) -> None:
        """Have `run` shut down gracefully."""
        self._finish(Ending.STOPPED)

    async def run(self, *, signals: bool = False) -> Ending:
        """Run until `stop`, the loss of the Lease, or a failure, which is raised. With `signals`, for the owner of the
        process, SIGTERM and SIGINT stop it gracefully, and a second one at once."""
        loop = asyncio.get_running_loop()
        self._end = loop.create_future()
        if signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._signalled)
        try:
            self._spawn(self._start(), "start")
            ending = await self._end
            _log.info("stopping", reason=ending.name)
            if ending is Ending.STOPPED:
                await self._drain()
            return ending
        finally:
            await self._shut_down()
            if signals:
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.remove_signal_handler(number)

    async def _start(self) -> None:
        await self._serve()
        self._spawn(self._log_troubles(), "log troubles")
        for caches in self._caches:
            self._spawn(caches.run(), "caches")
        for webhooks in self._webhooks:
            await self._start_webhooks(webhooks)
        await self._fill()
        for cache in (cache for caches in self._caches for cache in caches.all):
            self.metrics.cache(cache.source.resource, cache)
        if self._election is not None:
            gauge = self.metrics.leader.labels(self._election.name)
            gauge.set(0)
            await self._election.acquire()
            gauge.set(1)
            self._spawn(self._hold(self._election), "leadership")
        for preparation in self._preparations:
            self._spawn(preparation.run(), type(preparation).__name__)
            await preparation.prepared.wait()
        self.leading.set()
        for controller in self._controllers:
            self._spawn(controller.run(), controller.name)
        for runnable in self._runnables:
            self._spawn(runnable.run(), type(runnable).__name__)

    async def _serve(self) -> None:
        health, metrics = self._addresses
        applications: list[tuple[tuple[str, int] | None, web.Application]] = [
            (health, health_application({}, self.checks, self.notices)),
            (metrics, metrics_application(self.metrics)),
        ]
        for address, application in applications:
            if address is not None:
                server = HttpServer(application, *address)
                await server.start()
                self._servers.append(server)

    async def _start_webhooks(self, webhooks: Webhooks) -> None:
        certificate = webhooks.certificate
        if certificate is not None:
            certificate.controller.measured_by(self.metrics)
            self._spawn(certificate.caches.run(), "caches of webhook certificate")
            self._spawn(certificate.controller.run(), certificate.controller.name)
            certificate.begin()
        await webhooks.start()

    async def _log_troubles(self) -> None:
        """Log why the process is not ready, each time the reason changes, until it is ready."""
        logged = ""
        while True:
            await asyncio.sleep(LOG_EVERY)
            trouble = self.unready
            if trouble and trouble != logged:
                _log.warning("not ready", reason=trouble)
            elif logged and not trouble:
                _log.info("ready")
            logged = trouble
            if not trouble:
                return

    def _on_served(self) -> None:
        """Log which kinds are missing or have come, once for all that change at about the same time."""
        if not self._is_logging_unserved:
            self._is_logging_unserved = True
            self._spawn(self._log_unserved(), "log missing kinds")

    async def _log_unserved(self) -> None:
        await asyncio.sleep(LOG_EVERY)
        self._is_logging_unserved = False
        required, optional = self._unserved(optional=False), self._unserved(optional=True)
        before, self._logged_unserved = self._logged_unserved, (required, optional)
        if required and required != before[0]:
            _log.warning("kinds are not served", reason=required)
        if optional and optional != before[1]:
            _log.info("optional kinds are not served", reason=optional)
        if before[0] and not required:
            _log.info("all required kinds are served")
        if before[1] and not optional:
            _log.info("all optional kinds are served")

    async def _fill(self) -> None:
        try:
            async with asyncio.timeout(self._fill_within):
                for caches in self._caches:
                    await caches.wait_synced()
        except TimeoutError:
            raise CachesNotFilled(f"within {self._fill_within:g} s: {self._caches_check()}") from None

    async def _hold(self, election: Leadership) -> None:
        await election.hold()
        self.metrics.leader.labels(election.name).set(0)
        self._finish(Ending.LEADERSHIP_LOST)

    async def _drain(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await asyncio.gather(*(controller.drain() for controller in self._controllers))
                await self.recorder.flush()

    async def _shut_down(self) -> None:
        """Stop in the reverse order of starting. The Lease is released after the last write."""
        self.leading.clear()
        tasks = list(self._tasks)[::-1]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.recorder.close()
        if self._election is not None:
            await self._election.release()
        for webhooks in self._webhooks:
            await webhooks.stop()
        await self.remotes.close()
        for server in self._servers:
            await server.stop()
        self._servers.clear()

    def _spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._end is not None and not self._end.done():
            self._end.set_exception(error)

    def _finish(self, ending: Ending) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(ending)

    def _signalled(self) -> None:
        if self._end is not None and self._end.done():
            os._exit(1)
        self.stop()

    def _caches_check(self) -> str:
        certificates = (webhooks.certificate for webhooks in self._webhooks)
        watched = [*self._caches, *(certificate.caches for certificate in certificates if certificate is not None)]
        unfilled = [(kind, error) for caches in watched for kind, error in caches.unfilled.items()]
        return self._grouped(unfilled, "not listed yet: ")

    def _unserved(self, *, optional: bool) -> str:
        """The kinds that the API server stopped to serve, or with `optional` those that nothing waits for."""
        waiting = {kind for caches in self._caches for kind in caches.unfilled}
        missing = [
            source.resource
            for caches in self._caches
            for source in caches.unserved
            if source.optional == optional and source.resource not in waiting
        ]
        return self._grouped((kind, NotFound.of("not served")) for kind in missing)

    def _grouped(self, kinds: Iterable[tuple[Resource, KubeError | TimeoutError | None]], prefix: str = "") -> str:
        """Kinds and their errors with hints; those of the same error are named together."""
        grouped: dict[str, dict[str, None]] = {}
        for kind, error in kinds:
            grouped.setdefault(self._error_message(kind, _grouped_error(kind, error)), {})[kind.group_resource] = None
        return "; ".join(f"{prefix}{', '.join(names)}{f' ({why})' if why else ''}" for why, names in grouped.items())

    def _error_message(self, resource: Resource, error: KubeError | TimeoutError | None) -> str:
        if error is None:
            return ""
        why = str(error).strip() or "no answer in time"
        return "; ".join(filter(None, (why, self._hint(resource, error))))

    def _webhooks_check(self) -> str:
        waiting = [webhooks for webhooks in self._webhooks if not webhooks.serving]
        certificates = [webhooks.certificate for webhooks in waiting if webhooks.certificate is not None]
        troubles = filter(None, (self._error_message(SECRET, certificate.trouble) for certificate in certificates))
        return ": ".join(["the webhook server does not serve yet", *troubles]) if waiting else ""


def _grouped_error(resource: Resource, error: KubeError | TimeoutError | None) -> KubeError | TimeoutError | None:
    """The same error for all kinds of a version that the API server lacks, so that they are named together."""
    if not isinstance(error, NotFound):
        return error
    return NotFound.of(f"not served by the API server in {resource.version}")
