"""The controller that reports in the seed's own Seed whether its network reaches the stores of all other seeds.

Only a seed that reaches a shoot's store can restore the shoot. The address of a store is taken from the Seed, which
operators write, not from BackupBuckets, which gardenlets write: a malicious one could have others connect anywhere.
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
from espalier.api.gardener import names
from espalier.api.gardener.garden.seed import BUCKET_REACHABLE, Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.condition_types import Satisfied
from espalier.api.gardener.vocabulary.conditions import merged
from espalier.api.gardener.vocabulary.operations import Condition
from espalier.api.gardener.vocabulary.reasons import ControllerReason, SeedReason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.printable import quoted
from espalier.api.trees import json_trees
from espalier.kube.objects import Object
from espalier.runtime.controllers import reconciler
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.shoots.admission import seeds
from espalier.shoots.bucket_providers import (
    BUCKET,
    ENDPOINT,
    UNDECLARED,
    URL,
    BucketConfig,
    BucketProviders,
    BucketStatus,
    endpoint_fault,
    url_fault,
)
from espalier.shoots.etcd.settings import scheme_of
from espalier.shoots.garden.readiness import unready
from espalier.shoots.gardenlet.context import Connect, GardenletTools
from espalier.shoots.gardenlet.observe import ShootObserver
from espalier.shoots.gardenlet.reports.health import ReachReport
from espalier.shoots.gardenlet.reports.seed_status import SeedObservation, report

_log = structlog.get_logger("espalier.gardenlet")

CONCURRENT = 3
"""The largest number of concurrent connections."""
RETRY = 60.0
"""The longest time in seconds until a store that could not be reached is tried again."""
LONGEST_PROBLEM = 100
ENDPOINT_OF_GCS = "storageAPIEndpoint"
"""In credentials, as etcd-backup-restore has it."""
_SERVER_KEYS = (ENDPOINT, ENDPOINT_OF_GCS, "storageAccount", "domain")
_AWS_REGION = re.compile(r"[a-z]{2,4}(-[a-z]{2,12}){1,3}-[0-9]{1,2}", re.ASCII)
_GOOGLE = "https://storage.googleapis.com"


@dataclass(frozen=True)
class StoreAddress:
    """The address of a seed's store, as far as its Seed has it."""

    url: str = ""
    """The URL of its server, or of the folder that has the buckets; empty if it is not known."""
    unknown: str = ""
    """The reason why the URL is not known; empty if it is."""


def address_of(seed: Seed) -> StoreAddress | None:
    """The address of a seed's store; None if the seed has no backups."""
    backup, field = seed.spec.backup, f"spec.backup.providerConfig of Seed {seed.metadata.name}"
    if backup is None:
        return None
    try:
        config = json_trees.decode(backup.provider_config or b"{}", BucketConfig)
        scheme = urlsplit(config.url).scheme or scheme_of(backup.provider)
    except (msgspec.MsgspecError, ValueError):
        return StoreAddress(unknown=f"{field} can't be read; correct it")
    if config.endpoint:
        fault = endpoint_fault(config.endpoint)
        return (
            StoreAddress(unknown=f"{field}: endpoint: {fault}") if fault else StoreAddress(config.endpoint.rstrip("/"))
        )
    if scheme == "s3" and _AWS_REGION.fullmatch(backup.region):
        return StoreAddress(f"https://s3.{backup.region}.amazonaws.com")
    if scheme == "gs":
        return StoreAddress(_GOOGLE)
    if urlsplit(config.url).scheme == scheme == "file" and BUCKET in config.url:
        folder = config.url.partition(BUCKET)[0].rpartition("/")[0]
        return StoreAddress(folder if urlsplit(folder).path else f"{folder}/")
    return StoreAddress(
        unknown=f"{field} has no endpoint, and without it only the Secret tells where its store is; set it"
    )


def reported_conditions(
    before: Sequence[Condition], others: Mapping[str, StoreAddress], problems: Mapping[str, str], now: datetime
) -> list[Condition]:
    """The conditions of a Seed. `others`: the addresses of other seeds' stores; `problems`: for each URL that was
    tried, why it is not reached, empty if it is. Conditions on stores that were not tried stay; those on seeds that
    are gone are removed."""
    types = {BUCKET_REACHABLE + name for name in others}
    present = [
        condition for condition in before if not condition.type.startswith(BUCKET_REACHABLE) or condition.type in types
    ]
    reported = [
        _condition(name, place, problems.get(place.url, ""))
        for name, place in sorted(others.items())
        if place.unknown or place.url in problems
    ]
    return merged(present, reported, now)


def reported_urls(seed: Seed, others: Mapping[str, StoreAddress]) -> set[str]:
    """The URLs on which the conditions of a Seed report; not that of a store that has another address by now."""
    reported = {condition.type.removeprefix(BUCKET_REACHABLE): condition for condition in seed.status.conditions}
    return {address.url for name, address in others.items() if name in reported and _is_about(reported[name], address)}


def _is_about(condition: Condition, address: StoreAddress | None) -> bool:
    return (
        address is not None
        and address.url != ""
        and condition.message.startswith((f"{address.url} ", f"{address.url}: "))
    )


def _condition(seed: str, address: StoreAddress, problem: str) -> Condition:
    type = BUCKET_REACHABLE + seed
    if address.unknown:
        return Condition(type, "Unknown", SeedReason.ENDPOINT_UNKNOWN, address.unknown)
    if problem:
        advice = f"let this seed's network reach it, or shoots of seed {seed} can't be restored here"
        return Condition(type, "False", SeedReason.BUCKET_NOT_REACHED, f"{address.url}: {problem}; {advice}")
    return Condition(type, "True", Satisfied.BUCKET_REACHED, f"{address.url} answers")


def reports(shoot: Shoot, source: str, seed_list: Iterable[Seed]) -> tuple[ReachReport, ...]:
    """The reports on the present store of the source, by other seeds that are ready and could take the shoot."""
    result, seed_list = [], tuple(seed_list)
    address = next((address_of(candidate) for candidate in seed_list if candidate.metadata.name == source), None)
    for seed in seed_list:
        name = seed.metadata.name
        condition = condition_list.get(seed.status.conditions, BUCKET_REACHABLE + source)
        if (
            name == source
            or condition is None
            or condition.status not in ("True", "False")
            or not _is_about(condition, address)
        ):
            continue
        is_deleted = seed.metadata.deletion_timestamp is not None
        if not unready(seed, is_deleted=is_deleted)[0] and not any(seeds.unfit(shoot, name, seed)):
            problem = quoted(condition.message.rsplit("; ", 1)[0], LONGEST_PROBLEM)
            result.append(ReachReport(name, "" if condition.status == "True" else problem))
    return tuple(sorted(result, key=lambda report: report.seed))


def endpoint_of(seed: Seed | None, providers: BucketProviders) -> str | None:
    """The endpoint that operators have set for a seed's store; empty if they have set none, or its provider has its own
    configuration. None if it is not known: the Seed is gone, or its configuration is invalid."""
    backup = seed.spec.backup if seed is not None else None
    if backup is None or not providers.get(backup.provider, UNDECLARED).uses_bucket_config:
        return "" if seed is not None else None
    try:
        endpoint = json_trees.decode(backup.provider_config or b"{}", BucketConfig).endpoint
    except msgspec.MsgspecError:
        return None
    return None if endpoint and endpoint_fault(endpoint) else endpoint


def is_elsewhere(credentials: Mapping[str, bytes], seed: Seed | None) -> bool:
    """True if credentials name another server than the Seed, from which other seeds know it."""
    address = address_of(seed) if seed is not None else None
    values = {key: credentials.get(key, b"").decode(errors="replace").strip() for key in _SERVER_KEYS}
    servers = [values[ENDPOINT], values[ENDPOINT_OF_GCS]]
    if domain := values["domain"]:  # of Azure
        servers.append(f"https://{values['storageAccount']}.{domain}")
    return address is not None and any(_server(server) != _server(address.url) for server in servers if server)


def _server(url: str) -> str:
    server = "/".join(url.strip().lower().split("/", 3)[:3])
    return server.removesuffix(":443" if server.startswith("https:") else ":80")


def trusted_location(
    status: bytes, bucket: str, seeds: Iterable[Seed], before: Tree, providers: BucketProviders
) -> Tree:
    """The URL and endpoint of a bucket with a `BucketStatus`, to which agents will connect. Those in the Seed count, as
    operators write them; then those of `before`, the last result: neither a typo in a Seed nor its deletion may
    disconnect agents, whose etcds would end. The URL in `status`, which another seed's gardenlet writes, comes last,
    and only if it is of this very bucket."""
    seed = next((candidate for candidate in seeds if names.bucket(candidate.metadata.uid) == bucket), None)
    endpoint = endpoint_of(seed, providers)
    if endpoint is None:
        endpoint = before.get(ENDPOINT, "")
    urls = (_url_of(seed, bucket), before.get(URL, ""), _status(status).url)
    url = next((candidate for candidate in urls if candidate and not url_fault(candidate, bucket)), "")
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
class _Attempt:
    """The last result for a store, and the time of the next attempt."""

    due: float
    problem: str | None = None
    """None before the first attempt."""


def controller(observer: ShootObserver, tools: GardenletTools, connect: Connect, rng: random.Random) -> Controller:
    """The controller; it reconciles the own Seed only."""
    own = Key("", tools.config.seed)
    reach = Reach(observer, tools, connect, rng)
    seeds = reconciler.Reconciled(
        Seed.resource, observer.garden[Seed.resource].get, SeedObservation, lambda _observation: (reach.check,), report
    )
    reconciles = reconciler.Reconciler(seeds, tools.garden)
    reach_controller = Controller("bucket-reach", reconciler.replanned(reconciles.reconcile), workers=1, rng=rng)
    reach_controller.watch(observer.garden[Seed.resource], lambda _seed: [own])
    return reach_controller


class Reach:
    """Keeps the conditions of the own Seed up to date."""

    def __init__(self, observer: ShootObserver, tools: GardenletTools, connect: Connect, rng: random.Random) -> None:
        self._observer, self._tools, self._connect, self._rng = observer, tools, connect, rng
        self._attempts: dict[str, _Attempt] = {}
        self._has_begun = False

    async def check(self, observation: SeedObservation) -> Outcome:
        """Connect to the stores that are due, and set the conditions."""
        own = observation.object
        others = self._others(own)
        await self._connect_due(
            {address.url for address in others.values() if address.url}, reported_urls(own.decode(Seed), others)
        )
        observation.object = self._observer.own_seed or own  # connecting takes a while
        status = observation.object.decode(Seed).status
        problems = {url: attempt.problem for url, attempt in self._attempts.items() if attempt.problem is not None}
        wanted = reported_conditions(status.conditions, others, problems, self._tools.clock.now())
        observation.status = msgspec.structs.replace(status, conditions=wanted)
        if not self._attempts:
            return Done()
        due = min(attempt.due for attempt in self._attempts.values()) - self._tools.clock.monotonic()
        return Wait(
            ControllerReason.STORE_CHECK_SCHEDULED, "stores of other seeds will be tried again", after=max(1.0, due)
        )

    def _others(self, own: Object) -> dict[str, StoreAddress]:
        seeds = (seed.decode(Seed) for seed in self._observer.garden[Seed.resource].list() if seed.key != own.key)
        return {seed.metadata.name: address for seed in seeds if (address := address_of(seed)) is not None}

    async def _connect_due(self, urls: Collection[str], known: Collection[str]) -> None:
        """Connect to each store that is due, of these URLs. The first attempts at `known` ones, on which an earlier
        process has reported, are spread: otherwise all seeds would connect to all stores after a restart."""
        now, config = self._tools.clock.monotonic(), self._tools.config
        self._attempts = {url: attempt for url, attempt in self._attempts.items() if url in urls}
        for url in urls:
            if url not in self._attempts:
                is_known = not self._has_begun and url in known
                self._attempts[url] = _Attempt(now + self._rng.random() * config.bucket_check / 4 if is_known else now)
        self._has_begun = True
        limit = asyncio.Semaphore(CONCURRENT)

        async def attempt(url: str, tried: _Attempt) -> None:
            async with limit:
                try:
                    tried.problem = await self._connect(url)
                except Exception as error:  # the other stores are still tried
                    _log.exception("connecting to a store failed", url=url)
                    tried.problem = f"the attempt failed ({type(error).__name__})"
            seconds = min(RETRY, config.bucket_check) if tried.problem else config.bucket_check
            tried.due = self._tools.clock.monotonic() + seconds * (0.75 + self._rng.random() / 2)

        async with asyncio.TaskGroup() as group:
            for url, tried in self._attempts.items():
                if now >= tried.due:
                    group.create_task(attempt(url, tried))
