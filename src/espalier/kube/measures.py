"""The declaration of a metric: name, type, labels, meaning, and what an operator does about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric without measurements. `name` is that of the exposition, without the suffixes of Prometheus."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    to_do: str = ""

    def counter(self, registry: CollectorRegistry) -> Counter:
        """The counter, in a registry."""
        return Counter(self.name, self.help, self.labels, registry=registry)

    def gauge(self, registry: CollectorRegistry) -> Gauge:
        """The gauge, in a registry."""
        return Gauge(self.name, self.help, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry) -> Histogram:
        """The histogram, in a registry."""
        return Histogram(self.name, self.help, self.labels, registry=registry, buckets=self.buckets)

    def counter_family(self) -> CounterMetricFamily:
        """A counter that is read when it is scraped."""
        return CounterMetricFamily(self.name, self.help, labels=self.labels)

    def gauge_family(self) -> GaugeMetricFamily:
        """A gauge that is read when it is scraped."""
        return GaugeMetricFamily(self.name, self.help, labels=self.labels)
