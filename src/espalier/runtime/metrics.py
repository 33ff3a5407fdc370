"""Measures of a manager under the names of controller-runtime and client-go, so that their dashboards and alerts fit.

One registry per manager: in the local environment many share a process. What the hot path counts anyway (queues,
caches) is read when somebody scrapes; the rest is one `inc` or `observe` a reconcile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from espalier.api.resource import Resource

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUEUE_SECONDS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10, 100, 1000)


class QueueFacts(Protocol):
    """What a work queue tells about itself."""

    adds: int
    retries: int

    def depth(self) -> dict[int, int]:
        """Ready keys by priority."""


class CacheFacts(Protocol):
    """What a cache tells about itself."""

    def __len__(self) -> int: ...

    @property
    def size(self) -> int:
        """Bytes of JSON held."""


class ControllerMeasures:
    """The measures of one controller, ready to use."""

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
    """All measures of one manager."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry(auto_describe=False)
        by_controller = ["controller"]
        self.reconciles = Counter(
            "controller_runtime_reconcile",
            "Passes of reconcile by result.",
            ["controller", "result"],
            registry=registry,
        )
        self.reconcile_errors = Counter(
            "controller_runtime_reconcile_errors", "Passes that failed.", by_controller, registry=registry
        )
        self.terminal_errors = Counter(
            "controller_runtime_terminal_reconcile_errors",
            "Passes that failed and are not retried.",
            by_controller,
            registry=registry,
        )
        self.reconcile_panics = Counter(
            "controller_runtime_reconcile_panics",
            "Passes that ended in an unexpected exception.",
            by_controller,
            registry=registry,
        )
        self.reconcile_time = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of reconciles.",
            by_controller,
            buckets=_SECONDS,
            registry=registry,
        )
        self.max_concurrent = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "How many reconciles may run at once.",
            by_controller,
            registry=registry,
        )
        self.active_workers = Gauge(
            "controller_runtime_active_workers", "Passes that run now.", by_controller, registry=registry
        )
        by_queue = ["name", "controller"]
        self.queue_duration = Histogram(
            "workqueue_queue_duration_seconds",
            "How long ready keys waited for a worker.",
            by_queue,
            buckets=_QUEUE_SECONDS,
            registry=registry,
        )
        self.work_duration = Histogram(
            "workqueue_work_duration_seconds",
            "How long keys were in the hands of a worker.",
            by_queue,
            buckets=_QUEUE_SECONDS,
            registry=registry,
        )
        self.leader = Gauge("leader_election_master_status", "1 while this process leads.", ["name"], registry=registry)
        self.uninstalled = Gauge(
            "espalier_uninstalled_objects",
            "Objects that this process brings to its cluster and could not create so far.",
            registry=registry,
        )
        self.braked_writes = Counter(
            "espalier_braked_writes",
            "Writes that were not sent, because an object is written too often: somebody else changes it each time.",
            ["resource"],
            registry=registry,
        )
        self.webhook_requests = Counter(
            "controller_runtime_webhook_requests",
            "Admission requests by status code.",
            ["webhook", "code"],
            registry=registry,
        )
        self.webhook_latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Time to answer admission requests.",
            ["webhook"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.webhook_in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Admission requests being answered.",
            ["webhook"],
            registry=registry,
        )
        self._facts = _Facts()
        registry.register(self._facts)

    def controller(
        self, name: str, queue: QueueFacts, workers: int, unfinished: Callable[[], Iterable[float]]
    ) -> ControllerMeasures:
        """Measures of a controller. `unfinished` gives, for each reconcile that runs, its seconds so far."""
        self._facts.queues[name] = (queue, unfinished)
        self.max_concurrent.labels(name).set(workers)
        return ControllerMeasures(self, name)

    def cache(self, resource: Resource, cache: CacheFacts) -> None:
        """Report objects and bytes of a cache."""
        self._facts.caches.append((resource.group_resource, cache))

    def on_braked(self, resource: str) -> None:
        """Count a write that was not sent, to whichever cluster."""
        self.braked_writes.labels(resource).inc()

    def exposition(self) -> bytes:
        """Everything in the Prometheus text format."""
        return generate_latest(self.registry)


class _Facts(Collector):
    """Reads queues and caches when scraped."""

    def __init__(self) -> None:
        self.queues: dict[str, tuple[QueueFacts, Callable[[], Iterable[float]]]] = {}
        self.caches: list[tuple[str, CacheFacts]] = []

    def collect(self) -> Iterator[Metric]:
        by_queue = ["name", "controller"]
        depth = GaugeMetricFamily("workqueue_depth", "Ready keys.", labels=[*by_queue, "priority"])
        adds = CounterMetricFamily("workqueue_adds", "Keys added.", labels=by_queue)
        retries = CounterMetricFamily("workqueue_retries", "Keys added after a failure.", labels=by_queue)
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Seconds that passes have run, in sum.", labels=by_queue
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the longest reconcile has run.",
            labels=by_queue,
        )
        for name, (queue, running) in self.queues.items():
            seconds = list(running())
            for priority, keys in (queue.depth() or {0: 0}).items():
                depth.add_metric([name, name, str(priority)], keys)
            adds.add_metric([name, name], queue.adds)
            retries.add_metric([name, name], queue.retries)
            unfinished.add_metric([name, name], sum(seconds))
            longest.add_metric([name, name], max(seconds, default=0.0))
        yield from (depth, adds, retries, unfinished, longest)
        objects = GaugeMetricFamily("espalier_cache_objects", "Objects in caches.", labels=["resource"])
        size = GaugeMetricFamily("espalier_cache_bytes", "Bytes of JSON in caches.", labels=["resource"])
        totals: dict[str, tuple[int, int]] = {}
        for resource, cache in self.caches:
            count, total = totals.get(resource, (0, 0))
            totals[resource] = (count + len(cache), total + cache.size)
        for resource, (count, total) in totals.items():
            objects.add_metric([resource], count)
            size.add_metric([resource], total)
        yield from (objects, size)
