"""Metrics of a manager under the names of controller-runtime and client-go, so that their dashboards and alerts work.

Each manager has its own registry, as several share a process in the local environment. Values that queues and caches
count anyway are read on a scrape; the rest costs one `inc` or `observe` per reconcile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from espalier.api.resource import Resource
from espalier.kube.measures import Measure

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUEUE_SECONDS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10, 100, 1000)


_BY_CONTROLLER = ("controller",)
_BY_QUEUE = ("name", "controller")

RECONCILES = Measure("controller_runtime_reconcile", "counter", "Reconciles by result.", ("controller", "result"))
RECONCILE_ERRORS = Measure(
    "controller_runtime_reconcile_errors",
    "counter",
    "Reconciles that failed.",
    _BY_CONTROLLER,
    to_do="if it keeps rising, the log names the object and the error",
)
TERMINAL_ERRORS = Measure(
    "controller_runtime_terminal_reconcile_errors",
    "counter",
    "Reconciles that failed and are not retried.",
    _BY_CONTROLLER,
    to_do="the object's condition says what has to change",
)
RECONCILE_PANICS = Measure(
    "controller_runtime_reconcile_panics",
    "counter",
    "Reconciles that ended in an unexpected exception.",
    _BY_CONTROLLER,
    to_do="report it, with the traceback in the log",
)
RECONCILE_SECONDS = Measure(
    "controller_runtime_reconcile_time_seconds", "histogram", "Duration of reconciles.", _BY_CONTROLLER, _SECONDS
)
MAX_CONCURRENT = Measure(
    "controller_runtime_max_concurrent_reconciles", "gauge", "Reconciles that may run at once.", _BY_CONTROLLER
)
ACTIVE_WORKERS = Measure("controller_runtime_active_workers", "gauge", "Reconciles that run now.", _BY_CONTROLLER)
QUEUE_SECONDS = Measure(
    "workqueue_queue_duration_seconds",
    "histogram",
    "Time that ready keys waited for a worker.",
    _BY_QUEUE,
    _QUEUE_SECONDS,
    to_do="if it reaches seconds, the manager is overloaded; split it by `--namespace` or `--watch-filter`",
)
WORK_SECONDS = Measure(
    "workqueue_work_duration_seconds",
    "histogram",
    "Time that workers spent on a key.",
    _BY_QUEUE,
    _QUEUE_SECONDS,
)
QUEUE_DEPTH = Measure(
    "workqueue_depth", "gauge", "Ready keys.", (*_BY_QUEUE, "priority"), to_do="if it keeps growing, as above"
)
QUEUE_ADDS = Measure("workqueue_adds", "counter", "Keys added.", _BY_QUEUE)
QUEUE_RETRIES = Measure("workqueue_retries", "counter", "Keys added after a failure.", _BY_QUEUE)
UNFINISHED_SECONDS = Measure(
    "workqueue_unfinished_work_seconds", "gauge", "Total seconds of the running reconciles so far.", _BY_QUEUE
)
LONGEST_SECONDS = Measure(
    "workqueue_longest_running_processor_seconds",
    "gauge",
    "Seconds that the longest running reconcile has taken so far.",
    _BY_QUEUE,
    to_do="if it reaches minutes, a reconcile hangs; report it",
)
LEADER = Measure(
    "leader_election_master_status",
    "gauge",
    "1 while this process is the leader.",
    ("name",),
    to_do="if no replica has 1 for a minute, inspect the Lease in `eksa-system`",
)
UNINSTALLED = Measure(
    "espalier_uninstalled_objects",
    "gauge",
    "Objects of this build's releases that the manager has not been able to create.",
    to_do="if above 0 for minutes, see the log; often the CRDs or rights of an earlier `espalier manifests`",
)
LIMITED_WRITES = Measure(
    "espalier_braked_writes",
    "counter",
    "Writes that were not sent because another writer reverts the object each time.",
    ("resource",),
    to_do="condition reason `TooManyWrites` names the object; its managedFields name the other writer",
)
WEBHOOK_REQUESTS = Measure(
    "controller_runtime_webhook_requests", "counter", "Admission requests by status code.", ("webhook", "code")
)
WEBHOOK_SECONDS = Measure(
    "controller_runtime_webhook_latency_seconds",
    "histogram",
    "Time to answer admission requests.",
    ("webhook",),
    _SECONDS,
    to_do="above some seconds, API servers time out (`timeoutSeconds`) and reject writes",
)
WEBHOOKS_IN_FLIGHT = Measure(
    "controller_runtime_webhook_requests_in_flight", "gauge", "Admission requests being answered.", ("webhook",)
)
CACHE_OBJECTS = Measure("espalier_cache_objects", "gauge", "Objects in caches.", ("resource",))
CACHE_BYTES = Measure(
    "espalier_cache_bytes",
    "gauge",
    "Bytes of JSON in caches.",
    ("resource",),
    to_do="the largest part of the manager's memory; set the Deployment's limit above it",
)

MEASURES: tuple[Measure, ...] = (
    RECONCILES,
    RECONCILE_ERRORS,
    TERMINAL_ERRORS,
    RECONCILE_PANICS,
    RECONCILE_SECONDS,
    MAX_CONCURRENT,
    ACTIVE_WORKERS,
    QUEUE_SECONDS,
    WORK_SECONDS,
    QUEUE_DEPTH,
    QUEUE_ADDS,
    QUEUE_RETRIES,
    UNFINISHED_SECONDS,
    LONGEST_SECONDS,
    LEADER,
    UNINSTALLED,
    LIMITED_WRITES,
    WEBHOOK_REQUESTS,
    WEBHOOK_SECONDS,
    WEBHOOKS_IN_FLIGHT,
    CACHE_OBJECTS,
    CACHE_BYTES,
)


class QueueCounters(Protocol):
    """The counters of a work queue."""

    adds: int
    retries: int

    def depth(self) -> dict[int, int]:
        """Ready keys by priority."""


class CacheSize(Protocol):
    """The size of a cache."""

    def __len__(self) -> int: ...

    @property
    def size(self) -> int:
        """The bytes of JSON in it."""


class ControllerMeasures:
    """The metrics of one controller, with its labels set."""

    def __init__(self, metrics: Metrics, controller: str) -> None:
        self.time = metrics.reconcile_time.labels(controller)
        self.waited = metrics.queue_duration.labels(controller, controller)
        self.worked = metrics.work_duration.labels(controller, controller)
        self.active = metrics.active_workers.labels(controller)
        self.errors = metrics.reconcile_errors.labels(controller)
        self.terminal_errors = metrics.terminal_errors.labels(controller)
        self.panics = metrics.reconcile_panics.labels(controller)
        self.success, self.error, self.requeue_after = (
            metrics.reconciles.labels(controller, result) for result in ("success", "error", "requeue_after")
        )


class Metrics:
    """All metrics of one manager."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry(auto_describe=False)
        self.reconciles = RECONCILES.counter(registry)
        self.reconcile_errors = RECONCILE_ERRORS.counter(registry)
        self.terminal_errors = TERMINAL_ERRORS.counter(registry)
        self.reconcile_panics = RECONCILE_PANICS.counter(registry)
        self.reconcile_time = RECONCILE_SECONDS.histogram(registry)
        self.max_concurrent = MAX_CONCURRENT.gauge(registry)
        self.active_workers = ACTIVE_WORKERS.gauge(registry)
        self.queue_duration = QUEUE_SECONDS.histogram(registry)
        self.work_duration = WORK_SECONDS.histogram(registry)
        self.leader = LEADER.gauge(registry)
        self.uninstalled = UNINSTALLED.gauge(registry)
        self.limited_writes = LIMITED_WRITES.counter(registry)
        self.webhook_requests = WEBHOOK_REQUESTS.counter(registry)
        self.webhook_latency = WEBHOOK_SECONDS.histogram(registry)
        self.webhook_in_flight = WEBHOOKS_IN_FLIGHT.gauge(registry)
        self._scrape_collector = _ScrapeCollector()
        registry.register(self._scrape_collector)

    def controller(
        self, name: str, queue: QueueCounters, workers: int, unfinished: Callable[[], Iterable[float]]
    ) -> ControllerMeasures:
        """The metrics of a controller. `unfinished` returns the seconds so far of each running reconcile."""
        self._scrape_collector.queues[name] = (queue, unfinished)
        self.max_concurrent.labels(name).set(workers)
        return ControllerMeasures(self, name)

    def cache(self, resource: Resource, cache: CacheSize) -> None:
        """Report the objects and bytes of a cache."""
        self._scrape_collector.caches.append((resource.group_resource, cache))

    def on_limited(self, resource: str) -> None:
        """Count a write that was not sent, to any cluster."""
        self.limited_writes.labels(resource).inc()

    def exposition(self) -> bytes:
        """Everything in the Prometheus text format."""
        return generate_latest(self.registry)


class _ScrapeCollector(Collector):
    """Reads queues and caches when scraped."""

    def __init__(self) -> None:
        self.queues: dict[str, tuple[QueueCounters, Callable[[], Iterable[float]]]] = {}
        self.caches: list[tuple[str, CacheSize]] = []

    def collect(self) -> Iterator[Metric]:
        depth = QUEUE_DEPTH.gauge_family()
        adds, retries = QUEUE_ADDS.counter_family(), QUEUE_RETRIES.counter_family()
        unfinished, longest = UNFINISHED_SECONDS.gauge_family(), LONGEST_SECONDS.gauge_family()
        for name, (queue, running) in self.queues.items():
            seconds = list(running())
            for priority, keys in (queue.depth() or {0: 0}).items():
                depth.add_metric([name, name, str(priority)], keys)
            adds.add_metric([name, name], queue.adds)
            retries.add_metric([name, name], queue.retries)
            unfinished.add_metric([name, name], sum(seconds))
            longest.add_metric([name, name], max(seconds, default=0.0))
        yield from (depth, adds, retries, unfinished, longest)
        objects, size = CACHE_OBJECTS.gauge_family(), CACHE_BYTES.gauge_family()
        totals: dict[str, tuple[int, int]] = {}
        for resource, cache in self.caches:
            count, total = totals.get(resource, (0, 0))
            totals[resource] = (count + len(cache), total + cache.size)
        for resource, (count, total) in totals.items():
            objects.add_metric([resource], count)
            size.add_metric([resource], total)
        yield from (objects, size)
