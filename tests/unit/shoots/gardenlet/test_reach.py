"""Where stores of other seeds are, what is said of them, and who counts: pure parts."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.api.gardener import names
from espalier.api.gardener.garden.seed import BUCKET_REACHABLE, GARDENLET_READY, Seed, SeedStatus, SeedTaint
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.operations import Condition
from espalier.api.meta import Tree
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.writer import Precondition
from espalier.shoots.bucket_providers import BucketCapabilities
from espalier.shoots.gardenlet.reports.health import ReachReport
from espalier.shoots.gardenlet.reports.reach import (
    Reach,
    StoreAddress,
    address_of,
    endpoint_of,
    is_elsewhere,
    reported_conditions,
    reported_urls,
    reports,
    trusted_location,
)
from espalier.shoots.gardenlet.reports.seed_status import SeedObservation
from espalier.shoots.gardenlet.reports.seed_status import report as reported
from tests.support.gardens.gardenlet_scopes import an_object, shoot

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENDPOINT = "https://store.example:9000"
PROVIDERS = {"local": BucketCapabilities(uses_bucket_config=True)}


def seed(name: str = "east", *, says: Condition | None = None, ready: str = "True", **backup: Any) -> Seed:
    conditions = [Condition(GARDENLET_READY, ready), *([says] if says is not None else [])]
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": f"uid-of-{name}"},
            "spec": {"provider": {"type": "local"}, "backup": {"provider": "local", **backup}},
            "status": {"conditions": msgspec.to_builtins(conditions)},
        },
        Seed,
    )


def config(provider: str = "local", region: str = "", **fields: Any) -> Seed:
    return seed(provider=provider, region=region, providerConfig=msgspec.Raw(msgspec.json.encode(fields)))


@pytest.mark.parametrize(
    ("value", "url"),
    [
        (config(url="s3://{bucket}", endpoint=f"{ENDPOINT}/"), ENDPOINT),
        (config(url="s3://{bucket}", region="eu-west-1"), "https://s3.eu-west-1.amazonaws.com"),
        (config("aws", "us-gov-west-1"), "https://s3.us-gov-west-1.amazonaws.com"),
        (config("gcp", "europe-west3"), "https://storage.googleapis.com"),
        (config(url="file:///{bucket}"), "file:///"),
        (config(url="file:///mnt/backups/of-{bucket}"), "file:///mnt/backups"),
    ],
)
def test_store_is_where_seed_or_provider_says(value: Seed, url: str) -> None:
    assert address_of(value) == StoreAddress(url)


@pytest.mark.parametrize(
    "value",
    [
        config("aws", "here"),
        config("aws", "evil.example/eu-west-1"),
        config("azure"),
        config(),
        config(url="file:///backups"),
        config(url="/backups/{bucket}"),
        config(url="s3://[", region="eu-west-1"),
        config(url=5),
        config(url="s3://{bucket}", endpoint="ftp://a"),
        config(url="s3://{bucket}", endpoint="https://user:rosebud@a"),
    ],
)
def test_missing_place_names_the_field(value: Seed) -> None:
    place = address_of(value)
    assert place is not None
    assert place.url == ""
    assert place.unknown.startswith("spec.backup.providerConfig of Seed east")
    assert "rosebud" not in place.unknown
    [condition] = reported_conditions([], {"east": place}, {}, NOW)
    assert (condition.status, condition.reason) == ("Unknown", "EndpointUnknown")


def test_a_seed_without_backups_has_no_store() -> None:
    assert (
        address_of(msgspec.convert({"metadata": {"name": "a"}, "spec": {"provider": {"type": "local"}}}, Seed)) is None
    )


def test_message_changes_with_the_attempt_only() -> None:
    others = {"east": StoreAddress(ENDPOINT), "north": StoreAddress("http://b")}
    own = Condition(GARDENLET_READY, "True")
    first = reported_conditions([own], others, {ENDPOINT: ""}, NOW)
    assert [(condition.type, condition.status) for condition in first] == [
        (GARDENLET_READY, "True"),
        (f"{BUCKET_REACHABLE}east", "True"),
    ], "what was not tried is not told"
    later = NOW.replace(hour=13)
    assert reported_conditions(first, others, {ENDPOINT: ""}, later) == first
    assert reported_conditions(first, others, {}, later) == first, "a new process has tried nothing"
    lost = reported_conditions(first, others, {ENDPOINT: "connection refused"}, later)[1]
    assert (lost.status, lost.reason, lost.last_transition_time) == (
        "False",
        "BucketNotReached",
        "2026-03-01T13:00:00Z",
    )
    advice = "let this seed's network reach it, or shoots of seed east can't be restored here"
    assert lost.message == f"{ENDPOINT}: connection refused; {advice}"
    assert reported_conditions(first, {}, {}, later) == [own]


EAST = config(url="s3://{bucket}", endpoint=ENDPOINT)


def apple() -> Shoot:
    return shoot("east", "east").decode(Shoot)


def says(status: str, message: str = f"{ENDPOINT}: refused; do something") -> Condition:
    return Condition(f"{BUCKET_REACHABLE}east", status, message=message)


def test_ready_possible_seeds_that_tried_count() -> None:
    tainted = seed("tainted", says=says("False"))
    tainted.spec.taints = [SeedTaint(key="closed")]
    seeds = [
        seed("west", says=says("False")),
        seed("north", says=says("True", f"{ENDPOINT} answers")),
        seed("elsewhere", says=says("True", "https://former.example answers")),
        seed("longer", says=says("False", f"{ENDPOINT}1: refused; do something")),
        seed("silent", says=says("False"), ready="Unknown"),
        seed("unknowing", says=says("Unknown")),
        seed("new"),
        tainted,
        EAST,
    ]
    assert reports(apple(), "east", seeds) == (ReachReport("north"), ReachReport("west", f"{ENDPOINT}: refused"))


def test_another_seeds_message_is_one_short_line() -> None:
    [report] = reports(
        apple(), "east", [EAST, seed("west", says=says("False", f"{ENDPOINT}: \x1b[2J\n" + "x" * 100_000))]
    )
    assert len(report.problem) < 150
    assert report.problem.isprintable()


BUCKET = names.bucket("uid-of-east")
HONEST = {"url": f"s3://{BUCKET}"}
LIES: tuple[Any, ...] = (
    {"url": "file:///etc", "endpoint": "http://169.254.169.254"},
    {"url": "s3://bucket-of-west", "endpoint": "http://127.0.0.1"},
    {"url": "s3://" + "x" * 1_000_000, "more": ["x"] * 1_000},
    {"url": f"s3://maker:secret@{BUCKET}"},
    {"url": f"file:///{BUCKET}/../bucket-of-west"},
    {"url": 5},
    ["x"],
)


def given(status: Any, value: list[Seed], before: Tree | None = None) -> Tree:
    return trusted_location(msgspec.json.encode(status), BUCKET, value, before or {}, PROVIDERS)


@pytest.mark.parametrize("status", [HONEST, *LIES])
def test_place_of_bucket_is_that_of_operators(status: Any) -> None:
    named = config(url="s3://{bucket}", endpoint=ENDPOINT)
    assert given(status, [seed("west"), named]) == {**HONEST, "endpoint": ENDPOINT}
    assert given(status, [named], {"url": "s3://former", "endpoint": "https://former.example"})["url"] == HONEST["url"]
    assert given(status, [config(url="s3://{bucket}")], {"endpoint": "https://former.example"}) == HONEST


@pytest.mark.parametrize(
    "value",
    [
        [],
        [config(url=9000)],
        [config(url="s3://{bucket}", endpoint="store.example:9000")],
        [config(url="s3://{bucket}", endpoint=9000)],
        [config(url="s3://{bucket}", endpoint="https://maker:secret@store.example")],
    ],
)
def test_typo_or_deletion_of_a_seed_keeps_the_store(value: list[Seed]) -> None:
    """It would be another one, and etcds end that can't read who owns them."""
    before = {**HONEST, "endpoint": ENDPOINT}
    for status in (HONEST, {**HONEST, "endpoint": "http://lie"}):
        assert given(status, value, before) == before
        assert given(status, value) == HONEST


@pytest.mark.parametrize("status", LIES)
def test_place_of_a_lost_seed_is_its_buckets_own(status: Any) -> None:
    assert given(status, []) == {}
    assert given(status, [], HONEST) == HONEST


def test_bucket_without_a_place_keeps_its_former() -> None:
    """Its Seed is corrected while agents use it."""
    assert given(HONEST, [config(url="s3://all")], {"url": f"s3://former/{BUCKET}"}) == {"url": f"s3://former/{BUCKET}"}


def test_endpoints_are_read_for_declared_providers() -> None:
    for type in ("local", "acme"):
        named = config(type, url="s3://{bucket}", endpoint=ENDPOINT)
        assert endpoint_of(named, {type: BucketCapabilities(uses_bucket_config=True)}) == ENDPOINT
        assert endpoint_of(named, {type: BucketCapabilities(domains=("store.example",))}) == ""
        assert endpoint_of(named, {}) == ""


@pytest.mark.parametrize(
    ("credentials", "is_so"),
    [
        ({}, False),
        ({"endpoint": b"https://STORE.example:9000/path\n"}, False),
        ({"endpoint": b"https://store.example"}, True),
        ({"endpoint": b"http://store.example:9000"}, True),
        ({"storageAPIEndpoint": b"https://another.example"}, True),
        ({"storageAccount": b"store", "domain": b"example:9000"}, False),
        ({"storageAccount": b"store", "domain": b"private.example"}, True),
        ({"storageAccount": b"store"}, False),
        ({"endpoint": b"\xff"}, True),
    ],
)
def test_credentials_for_another_server_are_noticed(credentials: dict[str, bytes], is_so: bool) -> None:
    assert is_elsewhere(credentials, config(url="s3://{bucket}", endpoint=ENDPOINT)) is is_so
    assert not is_elsewhere(credentials, None)


@pytest.mark.parametrize(("short", "full"), [("https://a", "https://a:443/b"), ("http://a", "http://a:80")])
def test_port_that_url_implies_names_no_other_server(short: str, full: str) -> None:
    for first, other in ((short, full), (full, short)):
        assert not is_elsewhere({"endpoint": first.encode()}, config(url="s3://{bucket}", endpoint=other))


def test_earlier_condition_counts_for_the_same_url() -> None:
    stores = {"west": StoreAddress("https://a"), "north": StoreAddress(unknown="no endpoint")}
    for problems in ({"https://a": ""}, {"https://a": "connection refused"}):
        before = reported_conditions([], stores, problems, NOW)
        own = msgspec.structs.replace(seed(), status=SeedStatus(conditions=before))
        assert reported_urls(own, stores) == {"https://a"}
        assert reported_urls(own, {"west": StoreAddress("https://b")}) == set()
        assert reported_urls(own, {"west": StoreAddress("https://")}) == set(), "a part of it is another one"
    assert reported_urls(seed(), stores) == set()


def test_unreached_store_is_reported_without_advice() -> None:
    url = "https://a.example/b;c"
    (condition,) = reported_conditions([], {"east": StoreAddress(url)}, {url: "connection refused"}, NOW)
    (report,) = reports(apple(), "east", [config(url="s3://{bucket}", endpoint=url), seed("west", says=condition)])
    assert report.problem == f"{url}: connection refused"


async def test_untriable_store_blocks_no_other() -> None:
    async def connect(url: str) -> str:
        if url == "https://odd":
            raise ValueError("nobody thought of it")
        return "connection refused"

    tools: Any = SimpleNamespace(clock=SystemClock(), config=SimpleNamespace(bucket_check=600.0))
    observer: Any = None
    reach = Reach(observer, tools, connect, random.Random(1))
    await reach._connect_due(["https://odd", "https://a"], [])
    problems = {url: attempt.problem for url, attempt in reach._attempts.items()}
    assert problems == {"https://odd": "the attempt failed (ValueError)", "https://a": "connection refused"}


async def test_conditions_go_to_the_seed_as_it_is_now() -> None:
    """Trying takes a while, and the garden writes conditions beside these."""

    async def connect(_url: str) -> str:
        return ""

    def own(version: str, *true_conditions: str) -> Object:
        conditions = [{"type": type_, "status": "True"} for type_ in true_conditions]
        spec, metadata = {"provider": {"type": "local"}}, {"resourceVersion": version}
        return an_object(Seed.resource, "own", metadata=metadata, spec=spec, status={"conditions": conditions})

    stores = SimpleNamespace(list=list[Object])
    observer: Any = SimpleNamespace(garden={Seed.resource: stores}, own_seed=own("2", GARDENLET_READY))
    tools: Any = SimpleNamespace(clock=SystemClock(), config=SimpleNamespace(bucket_check=600.0))
    observation = SeedObservation(own("1"))
    outcome = await Reach(observer, tools, connect, random.Random(1)).check(observation)
    report = reported(observation, outcome)
    assert report is not None
    assert observation.object.resource_version == "2"
    assert [condition.type for condition in cast(SeedStatus, report.status).conditions] == [GARDENLET_READY]
    assert report.precondition is Precondition.VERSION
