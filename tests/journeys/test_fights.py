"""Whatever somebody else undoes each time, at once: it is written ever less often, and is there when he stops.

The sweep takes each kind of write that the manager makes, in management and workload clusters, and lets another writer
undo it whenever it was made.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.runtime import virtual
from espalier.runtime.leadership.write_limits import BURST, LONGEST_PAUSE, REPEAT_THRESHOLD
from espalier.runtime.virtual import Simulation
from tests.support.environments.managed_clusters import NAMESPACE
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment
from tests.support.environments.many_clusters import all_ready, apply
from tests.support.sampling import sampled
from tests.support.servers.faults import Interceptor, is_of_manager, is_of_workload

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = 8
ENOUGH = 1000
"""Writes of one object after which a fight ends, lost: without a limit no time passes between them."""
PROGRESS = 5 * REPEAT_THRESHOLD
"""Writes of an object that are no fight yet: of each stage of a cluster, what is said before it was said too often."""
FIELDS_OF_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")

Kind = tuple[str, str]
"""Of a write: what it is in, management or workload, and the plural with its subresource."""


class Fighter(Interceptor):
    """Undoes each write of some kinds; remembers when what was written, by path."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds
        self.admin: InProcessTransport | None = None
        self.workload: Callable[[], Transport] | None = None
        """As administrator of the workload cluster."""
        self.fights = True
        self.writes: dict[tuple[Kind, str], list[float]] = defaultdict(list)
        self.undoing: set[asyncio.Task[None]] = set()

    def per_minute(self, since: float) -> dict[str, list[int]]:
        """How often each object was written in each minute."""
        results: dict[str, list[int]] = {}
        for (_, path), moments in self.writes.items():
            minutes = results.setdefault(path, [0] * MINUTES)
            for moment in moments:
                if 0 <= (minute := int((moment - since) // 60)) < MINUTES:
                    minutes[minute] += 1
        return results

    async def request(self, transport: Transport, request: Request) -> Response:
        path, subresource = path_of(request)
        is_remote = is_of_workload(transport)
        is_other = not is_remote and not is_of_manager(request)
        if request.method == "GET" or is_other or not path or "/events" in path or request.query.get("dryRun"):
            return await transport.request(request)
        kind = ("workload" if is_remote else "management", kind_of(path, subresource))
        moments = self.writes[kind, path]
        moments.append(asyncio.get_running_loop().time())
        if len(moments) > ENOUGH:
            self.fights = False
        if not self.fights or kind not in self.kinds or self.admin is None or self.workload is None:
            return await transport.request(request)
        admin = self.workload() if is_remote else self.admin
        before = await read(admin, path)
        response = await transport.request(request)
        if response.status < 300:
            task = asyncio.ensure_future(undo(admin, path, subresource, before))
            self.undoing.add(task)
            task.add_done_callback(self.undoing.discard)
        return response


def path_of(request: Request) -> tuple[str, str]:
    """The object that is written, and its subresource."""
    path = request.path
    for subresource in ("status", "scale", "approval"):
        if path.endswith(f"/{subresource}"):
            return path.removesuffix(f"/{subresource}"), subresource
    if request.method == "POST":
        name = msgspec.json.decode(request.body).get("metadata", {}).get("name", "")
        return (f"{path}/{name}" if name else ""), ""
    return path, ""


def kind_of(path: str, subresource: str) -> str:
    plural = path.rsplit("/", 2)[1]
    return f"{plural}/{subresource}" if subresource else plural


async def read(admin: Transport, path: str) -> Any:
    response = await admin.request(Request("GET", path))
    return msgspec.json.decode(response.body) if response.status == 200 else None


async def undo(admin: Transport, path: str, subresource: str, before: Any) -> None:
    after = await read(admin, path)
    headers = {"content-type": "application/json"}
    if before is None:
        await admin.request(Request("DELETE", path))
        return
    metadata = {name: value for name, value in before["metadata"].items() if name not in FIELDS_OF_THE_SERVER}
    if after is None:
        tree = {**before, "metadata": metadata}
        await admin.request(Request("POST", path.rsplit("/", 1)[0], headers=headers, body=msgspec.json.encode(tree)))
        return
    tree = {**before, "metadata": {**metadata, "resourceVersion": after["metadata"]["resourceVersion"]}}
    target = f"{path}/{subresource}" if subresource else path
    await admin.request(Request("PUT", target, headers=headers, body=msgspec.json.encode(tree)))


async def begun(env: ManagedEnvironment, fighter: Fighter) -> None:
    def workload() -> Transport:
        running = env.workloads.reach(Key(SYSTEM_NAMESPACE, "garden-000"))
        assert running is not None
        return InProcessTransport(running.server)

    fighter.admin, fighter.workload = InProcessTransport(env.server), workload
    await apply(env.client, 1)


@pytest.fixture
def written() -> list[Kind]:
    """The kinds that the manager writes while it makes a cluster, changes it and deletes it."""

    async def main(simulation: Simulation) -> list[Kind]:
        fighter = Fighter()
        async with managed_environment(simulation.clock, wrap=fighter) as env:
            await begun(env, fighter)
            await all_ready(env.clusters, 1, seconds=900)
            await env.client.delete(Cluster.resource, "garden-000", NAMESPACE)
            await asyncio.sleep(600)
        return sorted({kind for kind, _ in fighter.writes})

    return virtual.run(main, epoch=EPOCH, seed=1)


KINDS: list[Kind] = [
    ("management", "clusters"),
    ("management", "clusters/status"),
    ("management", "configmaps"),
    ("management", "dockerclusters"),
    ("management", "dockerdatacenterconfigs"),
    ("management", "dockermachinetemplates"),
    ("management", "kubeadmconfigtemplates"),
    ("management", "kubeadmcontrolplanes"),
    ("management", "machinedeployments"),
    ("management", "machinehealthchecks"),
    ("management", "secrets"),
    ("workload", "certificatesigningrequests"),
    ("workload", "certificatesigningrequests/approval"),
    ("workload", "clusterrolebindings"),
    ("workload", "clusterroles"),
    ("workload", "daemonsets"),
    ("workload", "serviceaccounts"),
]
"""Whatever the manager writes; held to that by the first test."""

LONG = frozenset(
    {"clusters", "dockerclusters", "dockerdatacenterconfigs", "dockermachinetemplates", "kubeadmconfigtemplates"}
    | {"machinedeployments", "machinehealthchecks"}
)
"""Kinds that take seconds each, as machines come and go with them."""

ONCE = frozenset({"certificatesigningrequests", "certificatesigningrequests/approval"})
"""Kinds that are written once a day, whoever undoes it."""

NOT_UNDONE = frozenset({("management", "kubeadmcontrolplanes"), ("workload", "daemonsets")})
"""Kinds that are not there again when the other writer stops.

A control plane that is deleted waits for its workers, as Cluster API has it; a CNI that was installed is not looked for
until something changes.
"""

CLUSTERS = ("management", "clusters")
"""Whoever deletes a Cluster of Cluster API, once it was there, has to say that it shall be made anew."""


def test_these_are_all_kinds_that_the_manager_writes(written: list[Kind]) -> None:
    assert written == KINDS


@pytest.mark.soak
@pytest.mark.embedded
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.soak] if kind[1] in LONG else [], id="-".join(kind))
        for kind in KINDS
        if kind[1] not in ONCE
    ],
)
def test_opposing_writer_causes_few_writes_a_minute(kind: Kind) -> None:
    async def main(simulation: Simulation) -> None:
        fighter = Fighter(kind)
        loop = asyncio.get_running_loop()
        async with managed_environment(simulation.clock, wrap=fighter) as env:
            since = loop.time()
            await begun(env, fighter)
            await asyncio.sleep(60 * MINUTES)
            for path, minutes in fighter.per_minute(since).items():
                assert max(minutes) <= BURST + PROGRESS, (path, minutes)
                assert max(minutes[MINUTES // 2 :]) <= 15, (path, minutes)
            fighter.fights = False
            if kind == CLUSTERS:
                cluster = (await env.client.get(Cluster.resource, "garden-000", NAMESPACE)).decode(Cluster)
                assert cluster.status.failure_reason == Reason.CLUSTER_API_OBJECTS_MISSING
                again = {"metadata": {"annotations": {metadata_keys.GATE_ANNOTATION: None}}}
                await env.client.patch(Cluster.resource, "garden-000", NAMESPACE, patch=again, type=PatchType.MERGE)
            if kind not in NOT_UNDONE:
                await all_ready(env.clusters, 1, seconds=10 * LONGEST_PAUSE)
            for ledger in env.in_workload_clusters:
                ledger.refused.clear()  # whoever undoes roles takes the manager's rights away

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
@pytest.mark.embedded
@pytest.mark.parametrize("machines", sampled([35, 60], 0))
def test_the_upgrade_of_a_large_cluster_is_no_fight(machines: int) -> None:
    """From thirty machines on it fails for a limit that counts all writes."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply(workerNodeGroupConfigurations=[{"name": "md-0", "count": machines}])
            await env.until(lambda cluster: bool(cluster.status.ready), seconds=7200)
            await env.change(kubernetesVersion="1.36")
            generation = (await env.client.get(Cluster.resource, "garden", NAMESPACE)).metadata.generation
            await env.until(
                lambda now: bool(now.status.ready) and now.status.observed_generation >= generation, seconds=7200
            )
            assert [item.samples for item in env.manager.metrics.limited_writes.collect()] == [[]]

    virtual.run(main, epoch=EPOCH, seed=1)
