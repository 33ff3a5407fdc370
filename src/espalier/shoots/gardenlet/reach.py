"""The controller that says in the seed's own Seed whether its network reaches the stores of all other seeds.

Only a seed that reaches a shoot's store can restore the shoot. Where a store is, a Seed says, which operators write.
BackupBuckets are written by gardenlets: one that lies would have others connect to whatever it names.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

import msgspec
import structlog

from espalier.api import conditions as condition_list
from espalier.api import json_trees
from espalier.api.gardener import names
from espalier.api.gardener.conditions import merged
from espalier.api.gardener.operations import Condition
from espalier.api.gardener.seed import BUCKET_REACHABLE, Seed, SeedStatus
from espalier.api.gardener.shoot import Shoot
from espalier.api.meta import Tree
from espalier.api.printable import quoted
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime import reconciler
from espalier.runtime.controller import Controller
from espalier.runtime.outcome import Done, Outcome, Wait
from espalier.runtime.writer import Precondition
from espalier.shoots.admission import seeds
from espalier.shoots.etcd.settings import scheme_of
from espalier.shoots.garden.readiness import unready
from espalier.shoots.gardenlet.context import Connect, Tools
from espalier.shoots.gardenlet.health import Report
from espalier.shoots.gardenlet.observe import Observer
from espalier.shoots.local_provider.backups import (
    BUCKET,
    ENDPOINT,
    URL,
    BucketConfig,
    BucketStatus,
    endpoint_fault,
    url_fault,
)
from espalier.shoots.local_provider.cloud import TYPE

_log = structlog.get_logger("espalier.gardenlet")

AT_ONCE = 3
"""Connections at a time."""
AGAIN = 60.0
"""Seconds until a store that could not be reached is tried again."""
LONGEST_PROBLEM = 100
ENDPOINT_OF_GCS = "storageAPIEndpoint"
"""In credentials, as etcd-backup-restore has it."""
_NAMES_OF_SERVERS = (ENDPOINT, ENDPOINT_OF_GCS, "storageAccount", "domain")
_AWS_REGION = re.compile(r"[a-z]{2,4}(-[a-z]{2,12}){1,3}-[0-9]{1,2}", re.ASCII)
_GOOGLE = "https://storage.googleapis.com"


@dataclass(frozen=True)
class Place:
    """Where the store of a seed is, as far as its Seed tells."""

    url: str = ""
    """Of its server, or of the folder that has the buckets."""
    unknown: str = ""
    """Why the URL is not known."""


def place_of(seed: Seed) -> Place | None:
    """Where the store of a seed is; None if the seed has no backups."""
    backup, field = seed.spec.backup, f"spec.backup.providerConfig of Seed {seed.metadata.name}"
    if backup is None:
        return None
    try:
        config = json_trees.decode(backup.provider_config or b"{}", BucketConfig)
        scheme = urlsplit(config.url).scheme or scheme_of(backup.provider)
    except (msgspec.MsgspecError, ValueError):
        return Place(unknown=f"{field} can't be read; correct it")
    if config.endpoint:
        fault = endpoint_fault(config.endpoint)
        return Place(unknown=f"{field}: endpoint: {fault}") if fault else Place(config.endpoint.rstrip("/"))
    if scheme == "s3" and _AWS_REGION.fullmatch(backup.region):
        return Place(f"https://s3.{backup.region}.amazonaws.com")
    if scheme == "gs":
        return Place(_GOOGLE)
    if urlsplit(config.url).scheme == scheme == "file" and BUCKET in config.url:
        folder = config.url.partition(BUCKET)[0].rpartition("/")[0]
        return Place(folder if urlsplit(folder).path else f"{folder}/")
    return Place(unknown=f"{field} has no endpoint, and without it only the Secret tells where its store is; set it")


def reported_conditions(
    before: Sequence[Condition], others: Mapping[str, Place], problems: Mapping[str, str], now: datetime
) -> list[Condition]:
    """The conditions of a Seed, given where the stores of other seeds are, and which of them were tried: by URL, why
    they are not reached. What was not tried yet stays as it is; conditions of seeds that are gone, go."""
    types = {BUCKET_REACHABLE + name for name in others}
    kept = [one for one in before if not one.type.startswith(BUCKET_REACHABLE) or one.type in types]
    said = [
        _condition(name, place, problems.get(place.url, ""))
        for name, place in sorted(others.items())
        if place.unknown or place.url in problems
    ]
    return merged(kept, said, now)


def reported_urls(seed: Seed, others: Mapping[str, Place]) -> set[str]:
    """The URLs of which the conditions of a Seed tell. A store may have moved since: then its present one is not."""
    said = {one.type.removeprefix(BUCKET_REACHABLE): one for one in seed.status.conditions}
    return {place.url for name, place in others.items() if name in said and _is_about(said[name], place)}


def _is_about(said: Condition, place: Place | None) -> bool:
    return place is not None and place.url != "" and said.message.startswith((f"{place.url} ", f"{place.url}: "))


def _condition(seed: str, place: Place, problem: str) -> Condition:
    type = BUCKET_REACHABLE + seed
    if place.unknown:
        return Condition(type, "Unknown", "EndpointUnknown", place.unknown)
    if problem:
        advice = f"let this seed's network reach it, or shoots of seed {seed} can't be restored here"
        return Condition(type, "False", "BucketNotReached", f"{place.url}: {problem}; {advice}")
    return Condition(type, "True", "BucketReached", f"{place.url} answers")


def reports(shoot: Shoot, source: str, found: Iterable[Seed]) -> tuple[Report, ...]:
    """The reports about the present store of its seed, of other seeds that are ready and could take the shoot."""
    made, found = [], tuple(found)
    place = next((place_of(one) for one in found if one.metadata.name == source), None)
    for seed in found:
        name = seed.metadata.name
        said = condition_list.get(seed.status.conditions, BUCKET_REACHABLE + source)
        if name == source or said is None or said.status not in ("True", "False") or not _is_about(said, place):
            continue
        is_deleted = seed.metadata.deletion_timestamp is not None
        if not unready(seed, is_deleted=is_deleted)[0] and not any(seeds.unfit(shoot, name, seed)):
            problem = quoted(said.message.rsplit("; ", 1)[0], LONGEST_PROBLEM)
            made.append(Report(name, "" if said.status == "True" else problem))
    return tuple(sorted(made, key=lambda one: one.seed))


def endpoint_of(seed: Seed | None) -> str | None:
    """The endpoint that operators have given to the store of a seed of ours; empty where they have given none. None if
    it is not known: the Seed is gone, or what they wrote is invalid."""
    backup = seed.spec.backup if seed is not None else None
    if backup is None or backup.provider != TYPE:
        return "" if seed is not None else None
    try:
        endpoint = json_trees.decode(backup.provider_config or b"{}", BucketConfig).endpoint
    except msgspec.MsgspecError:
        return None
    return None if endpoint and endpoint_fault(endpoint) else endpoint


def is_elsewhere(credentials: Mapping[str, bytes], seed: Seed | None) -> bool:
    """True if credentials name another server than the one of which other seeds know by the Seed."""
    place = place_of(seed) if seed is not None else None
    given = {key: credentials.get(key, b"").decode(errors="replace").strip() for key in _NAMES_OF_SERVERS}
    named = [given[ENDPOINT], given[ENDPOINT_OF_GCS]]
    if domain := given["domain"]:  # of Azure
        named.append(f"https://{given['storageAccount']}.{domain}")
    return place is not None and any(_server(one) != _server(place.url) for one in named if one)


def _server(url: str) -> str:
    server = "/".join(url.strip().lower().split("/", 3)[:3])
    return server.removesuffix(":443" if server.startswith("https:") else ":80")


def trusted(status: bytes, bucket: str, found: Iterable[Seed], before: Tree) -> Tree:
    """Where a bucket of ours is, as operators have written it. Agents will connect to it, and another seed's gardenlet
    writes the `status`: its URL counts where nothing else tells one, and if it is of this very bucket. `before` is what
    this gave the last time: neither a typo in a Seed nor its deletion takes the store from agents that use it, whose
    etcds would end."""
    seed = next((one for one in found if names.bucket(one.metadata.uid) == bucket), None)
    endpoint = endpoint_of(seed)
    if endpoint is None:
        endpoint = before.get(ENDPOINT, "")
    urls = (_url_of(seed, bucket), before.get(URL, ""), _status(status).url)
    url = next((one for one in urls if one and not url_fault(one, bucket)), "")
    return {name: value for name, value in ((URL, url), (ENDPOINT, endpoint)) if value}


def _url_of(seed: Seed | None, bucket: str) -> str:
    backup = seed.spec.backup if seed is not None else None
    try:
        url = json_trees.decode(backup.provider_config or b"{}", BucketConfig).url if backup is not None else ""
    except msgspec.MsgspecError:
        return ""
    return url.replace(BUCKET, bucket)


def _status(status: bytes) -> BucketStatus:
    try:
        return json_trees.decode(status, BucketStatus)
    except msgspec.MsgspecError:
        return BucketStatus()


@dataclass
class _Tried:
    """The last result for a store, and the time of the next attempt."""

    due: float
    problem: str | None = None
    """None before the first attempt."""


def controller(observer: Observer, tools: Tools, connect: Connect, rng: random.Random) -> Controller:
    """The controller, of the own Seed alone."""
    own = Key("", tools.config.seed)
    reach = Reach(observer, tools, connect, rng)
    of_seed = reconciler.Reconciled(
        Seed.resource, observer.garden[Seed.resource].get, _Observation, lambda _observation: (reach.check,), _report
    )
    reconciles = reconciler.Reconciler(of_seed, tools.garden)
    made = Controller("bucket-reach", reconciler.replanned(reconciles.reconcile), workers=1, rng=rng)
    made.watch(observer.garden[Seed.resource], lambda _seed: [own])
    return made


@dataclass
class _Observation:
    """The observation of stores, for the own Seed."""

    object: Object
    said: SeedStatus | None = None
    """Its status with the conditions."""


def _report(observation: _Observation, _outcome: Outcome) -> reconciler.Report | None:
    """By version: the garden writes conditions beside these."""
    if observation.said is None:
        return None
    before = observation.object.decode(Seed).status
    return reconciler.Report(observation.said, before=before, precondition=Precondition.VERSION)


class Reach:
    """Keeps the conditions of the own Seed up to date."""

    def __init__(self, observer: Observer, tools: Tools, connect: Connect, rng: random.Random) -> None:
        self._observer, self._tools, self._connect, self._rng = observer, tools, connect, rng
        self._tried: dict[str, _Tried] = {}
        self._has_begun = False

    async def check(self, observation: _Observation) -> Outcome:
        """Try the stores that are due, and say what has changed."""
        own = observation.object
        others = self._others(own)
        await self._try({one.url for one in others.values() if one.url}, reported_urls(own.decode(Seed), others))
        observation.object = self._observer.own_seed or own  # as trying takes a while
        status = observation.object.decode(Seed).status
        problems = {url: one.problem for url, one in self._tried.items() if one.problem is not None}
        wanted = reported_conditions(status.conditions, others, problems, self._tools.clock.now())
        observation.said = msgspec.structs.replace(status, conditions=wanted)
        if not self._tried:
            return Done()
        due = min(one.due for one in self._tried.values()) - self._tools.clock.monotonic()
        return Wait("StoreCheckScheduled", "stores of other seeds will be tried again", after=max(1.0, due))

    def _others(self, own: Object) -> dict[str, Place]:
        found = (one.decode(Seed) for one in self._observer.garden[Seed.resource].list() if one.key != own.key)
        return {one.metadata.name: place for one in found if (place := place_of(one)) is not None}

    async def _try(self, places: Collection[str], known: Collection[str]) -> None:
        """Try each store that is due, given their URLs. One of which a condition of an earlier process tells is not
        tried at once: not all of them by all seeds at a time."""
        now, config = self._tools.clock.monotonic(), self._tools.config
        self._tried = {url: one for url, one in self._tried.items() if url in places}
        for url in places:
            if url not in self._tried:
                is_told = not self._has_begun and url in known
                self._tried[url] = _Tried(now + self._rng.random() * config.bucket_check / 4 if is_told else now)
        self._has_begun = True
        free = asyncio.Semaphore(AT_ONCE)

        async def attempt(url: str, tried: _Tried) -> None:
            async with free:
                try:
                    tried.problem = await self._connect(url)
                except Exception as error:  # of one store: the others are tried all the same
                    _log.exception("connecting to a store failed", url=url)
                    tried.problem = f"the attempt failed ({type(error).__name__})"
            seconds = min(AGAIN, config.bucket_check) if tried.problem else config.bucket_check
            tried.due = self._tools.clock.monotonic() + seconds * (0.75 + self._rng.random() / 2)

        async with asyncio.TaskGroup() as group:
            for url, tried in self._tried.items():
                if now >= tried.due:
                    group.create_task(attempt(url, tried))
