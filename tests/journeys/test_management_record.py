"""The record of a local environment's management cluster: it stays while it manages clusters, and comes again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.cli.kit.connecting.home import Home
from espalier.clusters.preview.apply import LAST_APPLIED
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.transports.http import HttpTransport
from espalier.providers.kinds import CATALOG
from tests.support.environments.environment import LocalEnvironment, local_environment
from tests.support.environments.managing import unasked
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
FLAGS = ("--boot-seconds", "0.05")
RELEASE = ("get", "clusters", "garden", "-o", "jsonpath={.spec.eksaVersion}")


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEnvironment]:
    with local_environment(tmp_path_factory.mktemp("environment"), *FLAGS) as running:
        old = EXAMPLE.replace('kubernetesVersion: "1.35"', 'eksaVersion: v0.25.1\n  kubernetesVersion: "1.35"')
        assert "v0.25.1" in old
        do(running, lambda client: create(client, old))
        ready = running.apply(EXAMPLE, "upgrade", "--keep-release", "--timeout", "300s")  # changes nothing, and waits
        assert ready.code == 0, ready.err
        yield running


def do(env: LocalEnvironment, work: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        client = Client(HttpTransport(Kubeconfig.load([Home(env.home).kubeconfig]).context(), environment={}))
        try:
            await work(client)
        finally:
            await client.close()

    asyncio.run(main())


async def create(client: Client, text: str) -> None:
    for document in read_manifests(text.encode(), source="test"):
        tree = document.tree
        tree["metadata"]["namespace"] = "default"
        await client.create(CATALOG.resource_of(document.api_version, document.kind), tree)


@pytest.mark.soak
def test_change_keeps_the_release_unless_asked(env: LocalEnvironment) -> None:
    grown = EXAMPLE.replace("count: 2", "count: 3")
    assert grown != EXAMPLE
    result = env.apply(grown, "upgrade", "--no-wait")
    assert result.code == 2
    assert "cluster default/garden has release v0.25.1, and would be moved to release v0.26.0" in " ".join(
        result.err.split()
    )
    assert "`espalier plan -f FILE --move-release` says which" in " ".join(result.err.split())
    assert env.espalier(*RELEASE).out == "v0.25.1"
    count, release = "spec.workerNodeGroupConfigurations.md-0.count", "spec.eksaVersion"
    assert planned(env, grown) == planned(env, grown, "--keep-release") == {count: 3}
    assert planned(env, grown, "--move-release") == {count: 3, release: "v0.26.0"}
    same_release = env.apply(grown, "upgrade", "--keep-release", "--timeout", "300s")
    assert same_release.code == 0, same_release.err
    assert env.espalier(*RELEASE).out == "v0.25.1"
    assert planned(env, grown, "--keep-release") == {}
    assert planned(env, grown, "--move-release") == {release: "v0.26.0"}
    moved = env.apply(grown, "upgrade", "--move-release", "--timeout", "300s")
    assert moved.code == 0, moved.err
    assert env.espalier(*RELEASE).out == "v0.26.0"


def planned(env: LocalEnvironment, text: str, *flags: str) -> Tree:
    """The fields of the Cluster that a plan says are changed, with what they become."""
    result = env.espalier("plan", "-f", "-", "-o", "json", *flags, stdin=text)
    assert result.out, result.err
    (cluster,) = json.loads(result.out)["clusters"]
    assert cluster["refusals"] == []
    changes = [item for item in cluster["asked"] if item["kind"] == "Cluster"]
    return {field["field"]: field["new"] for change in changes for field in change["fields"]}


@pytest.mark.soak
def test_release_removed_by_kubectl_is_refused(env: LocalEnvironment) -> None:
    """kubectl sends null for a field that its last manifest had, and this one has not."""
    (cluster,) = (manifest.tree for manifest in read_manifests(EXAMPLE, source="test") if manifest.kind == "Cluster")
    release = env.espalier(*RELEASE).out
    last = {**cluster, "spec": {**cluster["spec"], "eksaVersion": release}}
    message = ""

    async def by_kubectl(client: Client) -> None:
        nonlocal message
        note = {"metadata": {"annotations": {LAST_APPLIED: json.dumps(last)}}}
        await client.patch(Cluster.resource, "garden", "default", patch=note, type=PatchType.MERGE)
        sent = {"spec": {"eksaVersion": None}}
        with pytest.raises(Forbidden) as refusal:
            await client.patch(Cluster.resource, "garden", "default", patch=sent, type=PatchType.MERGE)
        message = str(refusal.value)

    do(env, by_kubectl)
    result = env.espalier("plan", "-f", "-", "-o", "json", stdin=EXAMPLE)
    assert result.code == 2, result
    (planned_,) = json.loads(result.out)["clusters"]
    (refusal,) = planned_["refusals"]
    assert refusal["field"] == "spec.eksaVersion"
    assert refusal["message"] in message
    same_release = env.espalier("plan", "-f", "-", "--keep-release", stdin=EXAMPLE)
    assert same_release.code in (0, 1), same_release
    assert env.apply(EXAMPLE, "upgrade", "--keep-release", "--no-wait").code == 0
    assert env.espalier(*RELEASE).out == release

    async def forget(client: Client) -> None:
        note = {"metadata": {"annotations": {LAST_APPLIED: None}}}
        await client.patch(Cluster.resource, "garden", "default", patch=note, type=PatchType.MERGE)

    do(env, forget)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--move-release",), "--move-release plans `espalier upgrade cluster -f FILE`: give -f"),
        (("--keep-release", "--manager"), "--keep-release plans"),
        (("-f", "-", "--move-release", "--eksa-version", "v0.26.0"), "and omit --eksa-version"),
    ],
)
def test_the_flags_of_an_upgrade_need_its_manifest(env: LocalEnvironment, flags: Sequence[str], complaint: str) -> None:
    result = env.espalier("plan", *flags, stdin=EXAMPLE)
    assert result.code == 2
    assert complaint in " ".join(result.err.split())


@pytest.mark.parametrize("flag", sampled(["--move-release", "--keep-release"], 1))
def test_an_upgrade_of_what_is_not_there_is_no_plan(env: LocalEnvironment, flag: str) -> None:
    text = EXAMPLE.replace("name: garden", "name: orchard")
    for command in (("plan", "-f", "-", flag), ("upgrade", "cluster", "-f", "-", flag)):
        result = env.espalier(*command, stdin=text)
        assert result.code != 0
        assert "cluster default/orchard does not exist; create it with `espalier create cluster" in result.err


@pytest.mark.demand(L49="the record is not deleted while it manages clusters")
def test_record_is_not_deleted_while_it_manages(env: LocalEnvironment) -> None:
    result = env.espalier("delete", "cluster", "laptop", "--timeout", "5s")
    assert result.code == 1
    assert "which manages clusters: default/garden; delete those first" in " ".join(result.err.split())
    assert "cluster.anywhere.eks.amazonaws.com/laptop" in env.names("get", "clusters")


@pytest.mark.soak
def test_environment_without_its_record_makes_it_again(env: LocalEnvironment) -> None:
    async def lose(client: Client) -> None:
        async with unasked(client):
            await client.delete(Cluster.resource, "laptop", "default")
            patch = {"metadata": {"finalizers": None}}
            with suppress(NotFound):
                await client.patch(Cluster.resource, "laptop", "default", patch=patch, type=PatchType.MERGE)

    do(env, lose)
    env.down()
    env.up(*FLAGS)
    assert "cluster.anywhere.eks.amazonaws.com/laptop" in env.names("get", "clusters")
    assert env.apply(EXAMPLE.replace("count: 2", "count: 1"), "upgrade", "--timeout", "300s").code == 0
    assert env.espalier("delete", "cluster", "garden", "--timeout", "300s").code == 0
    assert env.espalier("delete", "cluster", "laptop", "--timeout", "300s").code == 0
    env.down()
    env.up(*FLAGS)
    assert "cluster.anywhere.eks.amazonaws.com/laptop" in env.names("get", "clusters")
