"""Credentials of every provider, each a canary, are in the objects that need them and in nothing else.

Neither logs (debug included), events, statuses, metrics, plans, warnings of dry runs, refusals nor descriptions have
them: while clusters are made, when credentials change, and when they can't be read. `NEEDED` lists the objects that
have some.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import copy
import inspect
import io
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout

import pytest
import structlog

from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.storage.store import Store
from espalier.cli.clusters.plans import plan_text
from espalier.cli.clusters.reports import describe
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.kube.client import Client
from espalier.kube.errors import ApiError
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.runtime import logs
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.managed_environment import CALM, ManagedEnvironment, managed_environment
from tests.support.environments.tenants_of_every_provider import EPOCH, key_of, make_all
from tests.support.histories.tenant_stories import ALICE, BOB
from tests.support.providers.every_provider import KINDS, SAMPLES, Sample, apply, canary, groups

pytestmark = pytest.mark.embedded

CANARY = re.compile(r"canary-([a-z-]+)-h7q2")
SPOILT = canary("spoilt")
_IN_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_MACHINE = re.compile(r"-etcd-[a-z0-9]{5}$")

PROXY = {"proxy-user", "proxy-password"}
MIRROR = {"mirror-user", "mirror-password"}
OF_ALL: Mapping[str, set[str]] = {
    # The tenant wrote it there; etcd's machines are given it by no other way.
    "Cluster CLUSTER": PROXY,
    "EtcdadmCluster CLUSTER-etcd": PROXY,
    "EtcdadmConfig CLUSTER-etcd-MACHINE": PROXY,
    "Secret CLUSTER-node-files": PROXY | MIRROR,
    "Secret registry-credentials": MIRROR,
}
"""Which credentials an object needs, for clusters of all providers."""

NEEDED: Mapping[str, Mapping[str, set[str]]] = {
    "CloudStackDatacenterConfig": {"Secret global": {"cloudstack-key", "cloudstack-secret-key"}},
    "DockerDatacenterConfig": {},
    "NutanixDatacenterConfig": {
        "Secret nutanix-credentials": {
            "nutanix-user",
            "nutanix-password",
            "nutanix-reader",
            "nutanix-reader-password",
        },
        "Secret capx-CLUSTER": {"nutanix-user", "nutanix-password"},
        "Secret CLUSTER-nutanix-ccm-secret": {"nutanix-reader", "nutanix-reader-password"},
        "workload cluster: Secret nutanix-creds": {"nutanix-reader", "nutanix-reader-password"},
    },
    "SnowDatacenterConfig": {
        "Secret snow-credentials": {"snow-key", "snow-secret-key"},
        "Secret CLUSTER-snow-credentials": {"snow-key", "snow-secret-key"},
    },
    "TinkerbellDatacenterConfig": {"Secret bmc-HARDWARE-auth": {"bmc-user", "bmc-password"}},
    "VSphereDatacenterConfig": {
        "Secret vsphere-credentials": {
            "vsphere-user",
            "vsphere-password",
            "vsphere-reader",
            "vsphere-reader-password",
        },
        "Secret CLUSTER-vsphere-credentials": {"vsphere-user", "vsphere-password"},
        "Secret CLUSTER-cloud-provider-vsphere-credentials": {"vsphere-reader", "vsphere-reader-password"},
        "workload cluster: Secret cloud-provider-vsphere-credentials": {"vsphere-reader", "vsphere-reader-password"},
    },
}
"""The same for each provider. Who registers one adds a row."""


def strings(value: object) -> Iterator[str]:
    """All texts in a tree, and what is base64 in them."""
    if isinstance(value, str):
        yield value
        for element in _IN_BASE64.findall(value):
            try:
                yield from strings(base64.b64decode(element, validate=True).decode())
            except (binascii.Error, UnicodeDecodeError):
                continue
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def canaries(value: object) -> set[str]:
    """The credentials in a tree or text."""
    return {name for text in strings(value) for name in CANARY.findall(text)}


def holders(store: Store, cluster: str = "") -> Iterator[tuple[str, set[str]]]:
    """The objects of a store that have credentials, with kind and name; `cluster` is the one whose own store it is."""
    for _, table in store.tables():
        for key, value in table.objects.items():
            if has := canaries(value.tree):
                yield f"{'workload cluster: ' if cluster else ''}{value.kind} {key.name}", has


def generic(place: str, kind: str) -> str:
    """The same for whichever cluster."""
    place = _MACHINE.sub("-etcd-MACHINE", place.replace(key_of(kind).name, "CLUSTER"))
    return re.sub(r"bmc-.*-auth", "bmc-HARDWARE-auth", place)


def everything_with_credentials(env: ManagedEnvironment, stores: MemoryStores) -> dict[str, set[str]]:
    """By the names of objects, which credentials they have; names of clusters and machines are left out."""
    result: defaultdict[str, set[str]] = defaultdict(set)
    places = list(holders(env.store))
    for name in (key_of(kind).name for kind in KINDS):
        places += holders(stores.open(Key(SYSTEM_NAMESPACE, name)), name)
    for place, has in places:
        for kind in KINDS:
            place = generic(place, kind)  # noqa: PLW2901  of whichever it is
        result[place] |= has
    return dict(result)


NEEDED_AT_ALL: dict[str, set[str]] = {
    **OF_ALL,
    **{place: has for item in NEEDED.values() for place, has in item.items()},
}


@contextmanager
def all_that_is_told() -> Iterator[io.StringIO]:
    """Logs, debug included, and what is printed."""
    paper, before = io.StringIO(), structlog.get_config()
    logs.setup(level="debug", stream=paper)
    structlog.configure(cache_logger_on_first_use=False)
    try:
        with redirect_stdout(paper), redirect_stderr(paper):
            yield paper
    finally:
        structlog.configure(**before)


async def ask(env: ManagedEnvironment, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever anybody may ask about a cluster: its answers are printed."""
    key, sample = key_of(kind), SAMPLES[kind]
    changed = other(sample, key)
    told: list[str] = []
    user = Client(InProcessTransport(env.server), user_agent="journey", on_warning=told.append)
    previews = [
        await env.preview(key, trees) for trees in (changed, sample.cluster(key.namespace, key.name), wrong(changed))
    ]
    assert previews[0].objects
    assert previews[2].refusals
    planned = [plan_text.Planned(preview) for preview in previews]
    plan_text.write(planned)
    print(json.dumps(plan_text.facts(planned)), previews)
    await user.apply(Cluster.resource, changed[0], field_manager="kubectl", dry_run=True)
    assert any("plan: " in item for item in told), told
    with pytest.raises(ApiError) as refused:
        await user.apply(Cluster.resource, wrong(changed)[0], field_manager="kubectl", dry_run=True)
    print(told, refused.value, repr(refused.value))

    @asynccontextmanager
    async def connected(_connection: flags.Connection) -> AsyncIterator[connection.Connected]:
        yield connection.Connected(user, key.namespace)

    monkeypatch.setattr(connection, "connect", connected)
    for output_format, show_all in (("", True), ("json", False)):
        command = inspect.unwrap(describe.cluster.callback)  # type: ignore[arg-type]
        await command(key.name, connect=None, show_all=show_all, output_format=output_format)


def other(sample: Sample, key: Key) -> list[Tree]:
    """The manifest with another password for the proxy, and a label, for which workers are replaced."""
    before = sample.cluster(key.namespace, key.name, KINDS.index(sample.kind))
    later = json.dumps(before).replace("canary-proxy-password", "canary-proxy-password-of-later")
    trees: list[Tree] = json.loads(later)
    for group in groups(trees[0]["spec"]):
        group["labels"] = {"made": "later"}
    return trees


def wrong(trees: list[Tree]) -> list[Tree]:
    """The same with a password in a place where it is refused."""
    trees = copy.deepcopy(trees)
    spec = trees[0]["spec"]
    spec["proxyConfiguration"] |= {"httpProxy": "ftp://maker:canary-refused-password-h7q2@proxy.example.com"}
    return trees


async def spoil(env: ManagedEnvironment) -> None:
    """Make the administrator's Secret unreadable, then give it other credentials."""
    for kind in KINDS:
        for tree in SAMPLES[kind].credentials(f"{ALICE},{BOB}"):
            for name, text in tree["data"].items():
                if "canary" in (was := base64.b64decode(text).decode()):
                    tree["data"][name] = base64.b64encode(f'}}"{{[%s {SPOILT} {was}'.encode()).decode()
            await env.client.apply(SECRET, tree, field_manager="administrator")


@pytest.mark.parametrize("kind", KINDS)
def test_credentials_objects_are_listed_by_provider(kind: str) -> None:
    assert kind in NEEDED


@pytest.mark.demand(L64="the credentials of providers", L67="which objects have any, for every registered provider")
@pytest.mark.soak
def test_credentials_are_in_those_objects_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(simulation: Simulation) -> None:
        stores = MemoryStores()
        tenants = (ALICE, BOB)
        async with managed_environment(simulation.clock, stores=stores, copies_to=tenants) as env:
            await make_all(env)
            assert everything_with_credentials(env, stores) == NEEDED_AT_ALL
            for kind in KINDS:
                await ask(env, kind, monkeypatch)
            for kind in KINDS:
                await apply(env.client, other(SAMPLES[kind], key_of(kind)))
            await asyncio.sleep(CALM)
            await spoil(env)
            await asyncio.sleep(CALM)
            later = {"proxy-password-of-later", "spoilt"}
            for place, has in everything_with_credentials(env, stores).items():
                assert has <= NEEDED_AT_ALL.get(place, set()) | later, place
                assert place in NEEDED_AT_ALL, place
            print(env.manager.metrics.exposition().decode())

    with all_that_is_told() as paper:
        run(main, epoch=EPOCH, seed=1)
    assert len(paper.getvalue()) > 100_000
    assert canaries(paper.getvalue()) == set(), [
        paper.getvalue()[max(0, match.start() - 200) : match.end()] for match in CANARY.finditer(paper.getvalue())
    ]
