"""Leader election with a Lease, by the rules and times of client-go, and a fence for writes.

The holder renews every `retry` seconds. Another candidate takes over once it has seen the Lease unchanged for its
duration (15 s). The holder gives up after `renew` seconds (10) without a renewal, counted from before the last request
that succeeded; so its last write is sent five seconds before anybody else can write.

A candidate is in one of three states:

- Candidate (`acquire`): it tries every `retry` seconds, and up to a fifth more, so that two of them do not keep in
  step. It takes a Lease that nobody or itself holds, or that has been the same for its duration. The time counts on
  this process's clock from when this version was first read (`_observed_at`): clocks of machines differ, and
  `renewTime` is only for readers.
- Leader (`hold`): each answered write extends `fence` to `renew` seconds after its request was sent, because the server
  may have stored it that early. A renewal that fails is tried again until then. A process that is not `alive` does not
  renew, and so loses the Lease.
- Former leader: `fence` is closed, because its deadline is over or the Lease was read with another holder. `hold`
  returns, and the process ends: its supervisor starts it again, as a candidate.

Two candidates can't both take a Lease. Each write has the resource version that was read last, so the second one gets a
conflict; it then reads the Lease again before it writes (`_observed_version` is empty). So does a leader after a
renewal whose answer was lost: the next one conflicts with it, and the Lease that is read names this candidate.

`release` empties the holder after the last write, so that the next leader need not wait for the duration.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from espalier.api.core import LEASE
from espalier.api.kinds import KubeObject, kind
from espalier.api.meta import ObjectMeta, Part
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.runtime.leadership.fencing import Fence

_log = structlog.get_logger("espalier.election")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: the duration of a Lease, the time after which its holder gives up, and the interval of its renewal."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0


class LeaseSpec(Part):
    """`spec` of a Lease."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


@kind(LEASE)
class Lease(KubeObject):
    """`coordination.k8s.io/v1 Lease`, with the fields that elections use."""

    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class _ObservedLease(Part):
    """The fields of a Lease that are read."""

    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class Election:
    """One candidate for one Lease. `fence` is open while it certainly leads. The client must not be behind that fence.

    `alive` returns True while the process is able to lead; it renews the Lease only then.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        fence: Fence,
        clock: Clock,
        rng: random.Random,
        timing: Timing | None = None,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self.namespace = namespace
        self.name = name
        self.identity = identity
        self.fence = fence
        self._clock = clock
        self._rng = rng
        self._timing = timing or Timing()
        self._alive = alive
        self._observed_version = ""  # resource version of the Lease; empty: read it again
        self._observed_at = 0.0
        self._holder = ""
        self._transitions = 0
        self._logged = ""
        self.trouble: KubeError | None = None
        """The error that keeps this candidate from leading until somebody acts: a missing right or namespace."""

    async def acquire(self) -> None:
        """Wait until this candidate leads."""
        while True:
            if await self._attempt(self._try_to_acquire, self._timing.renew):
                break
            await asyncio.sleep(self._timing.retry * (1 + 0.2 * self._rng.random()))
        _log.info("became leader", lease=f"{self.namespace}/{self.name}", identity=self.identity)

    async def hold(self) -> None:
        """Renew until leadership is lost; the fence is closed on return."""
        try:
            while self._left > 0:
                await asyncio.sleep(min(self._timing.retry, self._left))
                if self._left <= 0 or not self._alive():
                    continue
                if not await self._attempt(self._renew, self._left) and self._holder != self.identity:
                    break
        finally:
            self.fence.close()
        _log.error("leadership lost", lease=f"{self.namespace}/{self.name}", holder=self._holder)

    async def release(self) -> None:
        """Release the Lease, so that the next leader need not wait. Call it after the last write; errors are logged."""
        self.fence.close()
        if self._holder == self.identity:
            # One second, as in client-go: the API server rejects 0.
            spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()}
            try:
                async with asyncio.timeout(self._timing.retry):
                    await self._patch_released(spec)
                self._holder = ""
            except (KubeError, TimeoutError) as error:
                _log.warning("could not release the lease", error=str(error))

    async def _patch_released(self, spec: dict[str, Any]) -> None:
        try:
            await self._patch(spec)
        except Conflict:  # a cancelled renewal was written after all, or another candidate holds it
            if await self._is_ours():
                await self._patch(spec)

    @property
    def _left(self) -> float:
        """Seconds until leadership is lost without a renewal."""
        return self.fence.deadline - self._clock.monotonic()

    async def _attempt(self, action: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(seconds):
                leads = await action()
        except (KubeError, TimeoutError) as error:
            if isinstance(error, (AlreadyExists, Conflict, NotFound)):
                self._observed_version = ""  # somebody else wrote first: read it again
            self._failed(error)
            return False
        self._logged, self.trouble = "", None
        if leads:
            self._holder = self.identity
            self.fence.extend(started + self._timing.renew)
        return leads

    def _failed(self, error: KubeError | TimeoutError) -> None:
        self.trouble = error if isinstance(error, (Forbidden, NotFound)) else None
        message = str(error) or "no answer in time"
        if message != self._logged and not isinstance(error, (AlreadyExists, Conflict)):
            _log.warning("could not read or write the lease", error=message)
        self._logged = message

    async def _try_to_acquire(self) -> bool:
        try:
            lease = await self._client.get(LEASE, self.name, self.namespace)
        except NotFound:
            self._transitions = 0
            self._observe(await self._client.create(LEASE, self._new_lease()))
            return True
        spec = lease.decode(_ObservedLease).spec
        self._holder, self._transitions = spec.holder_identity, spec.lease_transitions
        if lease.resource_version != self._observed_version:
            self._observe(lease)
        expired = self._clock.monotonic() >= self._observed_at + spec.lease_duration_seconds
        if self._holder and self._holder != self.identity and not expired:
            return False
        if self._holder != self.identity:
            self._transitions += 1
        await self._patch(self._spec(acquired=True))
        return True

    async def _renew(self) -> bool:
        if not self._observed_version and not await self._is_ours():
            return False
        await self._patch(self._spec(acquired=False))
        return True

    async def _is_ours(self) -> bool:
        """Read the Lease. True if this candidate holds it. Raises `KubeError`."""
        lease = await self._client.get(LEASE, self.name, self.namespace)
        self._holder = lease.decode(_ObservedLease).spec.holder_identity
        self._observe(lease)
        return self._holder == self.identity

    async def _patch(self, spec: dict[str, Any]) -> None:
        patch = {"metadata": {"resourceVersion": self._observed_version}, "spec": spec}
        self._observe(await self._client.patch(LEASE, self.name, self.namespace, patch=patch, type=PatchType.MERGE))

    def _observe(self, lease: Object) -> None:
        self._observed_version, self._observed_at = lease.resource_version, self._clock.monotonic()

    def _spec(self, *, acquired: bool) -> dict[str, Any]:
        now = self._now()
        spec: dict[str, Any] = {"holderIdentity": self.identity, "renewTime": now}
        if acquired:
            spec |= {"acquireTime": now, "leaseTransitions": self._transitions}
            spec["leaseDurationSeconds"] = round(self._timing.lease)
        return spec

    def _new_lease(self) -> Lease:
        now = self._now()
        return Lease(
            metadata=ObjectMeta(name=self.name, namespace=self.namespace),
            spec=LeaseSpec(
                holder_identity=self.identity,
                lease_duration_seconds=round(self._timing.lease),
                acquire_time=now,
                renew_time=now,
            ),
        )

    def _now(self) -> str:
        return micro_time(self._clock.now())


def micro_time(moment: datetime) -> str:
    """A time in the format of Leases and events (`metav1.MicroTime`)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
