"""The times of an election in one configuration, and the inequalities that make it safe.

Both seeds have one; it includes the leases of clusters. Every field except `clock_drift` is in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from espalier.api.text.violations import Violation


class TimingError(ValueError):
    """Times with which an election would be unsafe, or would fail needlessly; `violations` has all of them."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        super().__init__("\n".join(str(violation) for violation in violations))
        self.violations = violations


class Timing(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Times of agents, destinations and gardenlets. Raises `TimingError` if they violate an inequality."""

    poll_period: float = 5
    """How often sync objects are read."""
    store_timeout: float = 4
    """Timeout of a request to a store, retries included."""
    store_staleness: float = 0
    """How stale a read from a store may be. 0 for S3, GCS and Azure, which are consistent per key."""
    validity: float = 15
    """How long etcd serves clients after the start of a read that found no CopyOperation."""
    serving_grace: float = 10
    """How long an API server that has lost its etcd keeps answering from its cache."""
    clock_drift: float = 0.01
    """Fraction by which one machine's clock may run faster than another's."""
    snapshot_timeout: float = 900
    """Longest duration of a final snapshot, including its upload."""
    progress_period: float = 10
    """How often the source writes how much of its final snapshot is stored."""
    progress_timeout: float = 60
    """After this long without progress of the source, the destination proceeds without it."""
    copy_timeout: float = 1200
    """After this long, the destination proceeds in any case."""
    lease_validity: float = 120
    """How long extensions may start to reconcile after a renewal of their cluster's lease."""
    lease_renewal: float = 30
    """How often a gardenlet renews the lease."""
    longest_reconcile: float = 120
    """Timeout of an extension's reconcile that started while the lease was valid."""
    clock_skew: float = 5
    """Largest difference between the clocks of two machines: the lease is in wall-clock time."""
    lease_wait: float = 250
    """How long the destination waits, after the source has stopped, before its extensions may act."""

    def __post_init__(self) -> None:
        """Raise `TimingError` with all that is wrong."""
        if violations := tuple(_violations(self)):
            raise TimingError(violations)

    @property
    def release(self) -> float:
        """How long, by the agent's clock, its epoch may still serve after the CopyOperation can be read."""
        return self.validity + self.serving_grace

    def fence(self, release: float) -> float:
        """How long a destination waits, by its own clock, after it saw the CopyOperation of a source with a `release`.

        The source's last read without it may have started just before, and be stale by `store_staleness`.
        """
        return self.store_staleness + release * (1 + self.clock_drift)


def _violations(timing: Timing) -> Iterator[Violation]:
    for field in timing.__struct_fields__:
        value = getattr(timing, field)
        least = 0 if field in ("store_staleness", "clock_drift", "clock_skew", "serving_grace") else 0.001
        if not least <= value <= 7 * 86400:
            yield Violation(_shown(field), _number(value), f"{least:g} to 604800", "not a plausible time")
            return
    times: Mapping[str, float] = {field: getattr(timing, field) for field in timing.__struct_fields__}
    drift = 1 + timing.clock_drift
    yield from _least(
        times, "poll_period", "store_timeout", 1, "a read could still be running when the next one is due"
    )
    yield from _least(
        times, "validity", "poll_period poll_period store_timeout", 1, "one failed read would stop etcd from serving"
    )
    closing = "the destination would proceed without the final snapshot while the source still serves"
    yield from _least(times, "progress_timeout", "validity serving_grace", drift, closing, "store_staleness")
    silence = (
        "a working source would be considered dead: it reads the CopyOperation, stores, writes progress, "
        "and the destination reads that"
    )
    detected = "store_staleness poll_period store_timeout"
    writes = "progress_period" if timing.progress_period >= timing.serving_grace else "serving_grace"
    seen = "store_timeout store_staleness poll_period store_timeout"
    yield from _least(times, "progress_timeout", f"{detected} {writes} {seen}", drift, silence)
    unfinished = "the destination would proceed without a final snapshot that takes as long as allowed"
    yield from _least(times, "copy_timeout", f"{detected} snapshot_timeout serving_grace {seen}", drift, unfinished)
    yield from _least(
        times, "lease_validity", "lease_renewal lease_renewal lease_renewal", 1, "a lost renewal would stop extensions"
    )
    acting = "extensions of the source may still act"
    yield from _least(times, "lease_wait", "lease_validity longest_reconcile", drift, acting, "clock_skew")


def _least(
    times: Mapping[str, float], field: str, terms: str, factor: float, otherwise: str, plain: str = ""
) -> Iterator[Violation]:
    """A violation where `field` is smaller than the sum of `terms` by a clock that is `factor` slower, and `plain`."""
    names = terms.split()
    least = sum(times[name] for name in names) * factor + (times[plain] if plain else 0)
    if times[field] >= least:
        return
    sum_of = " + ".join(f"{_shown(name)} {_number(times[name])}" for name in names)
    sum_of = f"({sum_of}) x {factor:g}" if factor != 1 else sum_of
    sum_of = f"{_shown(plain)} {_number(times[plain])} + {sum_of}" if plain and times[plain] else sum_of
    missing = least - times[field]
    yield Violation(
        _shown(field),
        f"{_number(times[field])} s, {_number(missing)} s too small",
        f"{_number(least)} s or more = {sum_of}",
        f"{otherwise}; make it larger or a term of the sum smaller",
    )


def _shown(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _number(value: float) -> str:
    """As people write it: 1600 and not 1.6e+03, and no more digits than a clock has."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if 0.001 <= value < 1e9 else f"{value:g}"
