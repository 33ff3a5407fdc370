"""Caches for all pages: one of each kind, filled with the caller's own rights."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta

from espalier.api import conditions
from espalier.api.core import LEASE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.names import SEED_LEASES
from espalier.api.text.printable import quoted
from espalier.dashboard.probe import Probe
from espalier.kube.client import Client
from espalier.kube.discovery import ServedResource
from espalier.kube.errors import Forbidden, NotFound, Unauthorized, Unreachable
from espalier.kube.objects import Object, encode_json
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.transforms import strip_managed_fields
from espalier.runtime.clock import Clock
from espalier.runtime.options import Options

PATIENCE = 2.0
"""Seconds without an answer from which the page says so."""
_LONGEST = 500
_POLL = 0.05
_READY = 8
"""Objects of a kind that are not packed: a view reads an object once for each change of it."""


class NotRead(RuntimeError):
    """A request that would write: a mistake in this program."""


class ReadOnly:
    """A transport that lets nothing through but reads."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def request(self, request: Request) -> Response:
        """Send a GET. Raises `NotRead` for anything else."""
        if request.method != "GET":
            raise NotRead(f"the dashboard was about to send {request.method} {request.path}")
        return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        if request.method != "GET":
            raise NotRead(f"the dashboard was about to send {request.method} {request.path}")
        return await self._transport.stream(request)

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()


def only_support(object_: Object) -> Object:
    """Bundles without all but the dates of support: the rest is most of what the caches would hold."""
    tree = strip_managed_fields(object_).tree
    spec = tree.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("versionsBundles"), list):
        spec["versionsBundles"] = [
            {name: entry[name] for name in ("kubeVersion", "endOfStandardSupport") if name in entry}
            for entry in spec["versionsBundles"]
            if isinstance(entry, dict)
        ]
    return Object(encode_json(tree))


class Watched:
    """Caches, and in words what keeps them from being filled."""

    def __init__(self, client: Client, clock: Clock, namespaces: tuple[str, ...], probe: Probe, advice: str) -> None:
        """`advice`: a sentence for callers who may list a kind in one namespace only."""
        self.client = client
        self.clock = clock
        self.probe = probe
        self.advice = advice
        self.namespaces = namespaces
        # Spreads watches in time, guards nothing.
        options = Options(namespaces=namespaces)
        self.caches = Caches(client, rng=random.Random(), options=options, ready=_READY)  # noqa: S311

    async def wait_filled(self, seconds: float) -> None:
        """Wait until each kind is read, or can't be; not longer than that."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while loop.time() < ends:
            troubles = self.caches.troubles
            if all(cache.synced or cache.source.resource in troubles for cache in self.caches.all):
                return
            await asyncio.sleep(_POLL)

    def banner(self) -> str:
        """A sentence while the API server does not answer; else empty."""
        if self.probe.silent_since is not None:
            return self._away(self.probe.silent_since, self.probe.trouble)
        since = self.caches.silent_since
        if since is None:
            return ""
        troubles = list(self.caches.troubles.values())
        away = next((error for error in troubles if isinstance(error, Unreachable | TimeoutError)), None)
        if away is not None:
            return self._away(since, str(away) or "no answer in time")
        refused = next((error for error in troubles if isinstance(error, Unauthorized)), None)
        if refused is not None and _seconds(since) >= PATIENCE:
            why = quoted(str(refused), _LONGEST)
            began = self._timestamp(since)
            return f"The API server has refused the credentials of the kubeconfig since {began}: {why}. Log in again."
        return ""

    def _away(self, since: float, why: str) -> str:
        if _seconds(since) < PATIENCE:
            return ""
        return (
            f"The API server has not answered since {self._timestamp(since)}: {quoted(why, _LONGEST)}. This is what it "
            "had then; it is asked again."
        )

    def _timestamp(self, since: float) -> str:
        return conditions.timestamp(self.clock.now() - timedelta(seconds=_seconds(since)))

    def is_forbidden(self, cache: Cache) -> bool:
        """True if the caller may not list a kind."""
        return isinstance(self.caches.troubles.get(cache.source.resource), Forbidden)

    def notice(self, *caches: Cache, instead: str = "") -> str:
        """A sentence if kinds can't be shown; `instead`: what is not shown, if the kinds themselves are not."""
        if forbidden := [cache for cache in caches if self.is_forbidden(cache)]:
            what = instead or f"{forbidden[0].source.resource.kind}s"
            source = forbidden[0].source
            is_limited = source.namespaces or instead or not source.resource.namespaced
            refused = " and ".join(map(_collection, forbidden))
            return f"{what} are not shown: you may not list {refused}{'' if is_limited else f'. {self.advice}'}."
        return next(filter(None, (self._unread(cache, instead) for cache in caches)), "")

    def _unread(self, cache: Cache, instead: str) -> str:
        error = self.caches.troubles.get(cache.source.resource)
        what = instead or f"{cache.source.resource.kind}s"
        if isinstance(error, NotFound) or error is None:
            if cache.synced:
                return ""
            waits = self.probe.silent_since is not None
            return f"{what} are read once the API server answers." if waits else f"{what} are being read."
        if isinstance(error, Unreachable | TimeoutError) and cache.synced:
            return ""  # the banner says it
        return f"{what} can't be read: {quoted(str(error) or 'no answer in time', _LONGEST)}."


def _collection(cache: Cache) -> str:
    """The collection of a cache, in words."""
    resource, namespaces = cache.source.resource, cache.source.namespaces
    where = f" in namespace {', '.join(namespaces)}" if namespaces else " in all namespaces"
    return f"{resource.group_resource}{where if resource.namespaced else ''}"


def _seconds(since: float) -> float:
    """The seconds since a time of the loop's clock."""
    return asyncio.get_running_loop().time() - since


ADVICE = "If you may list them in one namespace, start `espalier dashboard` with --namespace"


class Observation(Watched):
    """The kinds of which all objects are watched."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        namespaces: tuple[str, ...],
        served: Sequence[ServedResource],
        advice: str = ADVICE,
    ) -> None:
        """`served`: the kinds of the API server."""
        super().__init__(client, clock, namespaces, Probe(client), advice)
        self.served = served
        of, within = self.caches.of, SYSTEM_NAMESPACE if namespaces else None
        self.clusters = of(Cluster.resource, optional=True)
        self.releases = of(EKSARelease.resource, optional=True)
        self.bundles = of(Bundles.resource, within, optional=True, transform=only_support)


class GardenObservation(Watched):
    """The kinds of a garden of which all objects are watched."""

    def __init__(self, client: Client, clock: Clock, namespaces: tuple[str, ...], probe: Probe, advice: str) -> None:
        super().__init__(client, clock, namespaces, probe, advice)
        self.shoots = self.caches.of(Shoot.resource)
        self.seeds = self.caches.of(Seed.resource)
        self.leases = self.caches.of(LEASE, SEED_LEASES)


def is_garden(served: Sequence[ServedResource]) -> bool:
    """True for an API server with shoots and seeds."""
    return {Shoot.resource, Seed.resource} <= {entry.resource for entry in served}


def is_management_cluster(served: Sequence[ServedResource]) -> bool:
    """True for an API server with clusters."""
    return Cluster.resource in {entry.resource for entry in served}
