"""Clusters that `espalier move` takes from one management cluster to another: nothing rolls, nothing is lost."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter

import pytest

from espalier.api import conditions as condition_list
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.cli.local.environment.management import record_infrastructure
from espalier.clusters.design.names import GATE_KEY, GATE_KEY_FIELD
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound, Unreachable
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.moving.mover import Refused
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.kinds import CATALOG
from tests.support.environments.cluster_lives import KUBERNETES
from tests.support.environments.control_plane import READING_VERBS
from tests.support.environments.managed_clusters import Write
from tests.support.environments.managed_environment import (
    CALM,
    GARDEN,
    NAMESPACE,
    ManagedEnvironment,
)
from tests.support.environments.mortal_commands import is_active, mortal
from tests.support.environments.two_management_clusters import OTHER, SECOND, between, mover, objects
from tests.support.histories.isolation_stories import NEXT, without_admission
from tests.support.providers.provider_lives import LIVES, ProviderLife
from tests.support.sampling import sampled
from tests.support.servers.clusterctl import node_versions
from tests.support.servers.dying import Dying
from tests.support.servers.faults import Interceptor

pytestmark = pytest.mark.embedded

CAPI = "cluster.x-k8s.io"


@pytest.mark.demand(L54="clusters are moved")
def test_a_moved_cluster_is_settled_and_keeps_machines() -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        workload = await source.workload()
        nodes, before = await node_versions(workload), await objects(source)
        written = target.written()
        await (await mover(source.client, target.client)).move([GARDEN])
        await asyncio.sleep(CALM)
        assert target.written() - written == {}
        assert await objects(source) == set()
        assert await objects(target) == before
        assert await node_versions(workload) == nodes
        assert source.clusters.get(GARDEN) is None
        moved = await target.client.get(Cluster.resource, GARDEN.name, NAMESPACE)
        assert MOVE_ANNOTATION not in moved.metadata.annotations
        assert moved.decode(Cluster).status.ready

    between(story)


@pytest.mark.parametrize("writes", [pytest.param(1, marks=pytest.mark.soak), 9])
def test_a_move_killed_after_some_writes_goes_on(writes: int) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        workload = await source.workload()
        nodes, before = await node_versions(workload), await objects(source)
        written, dying = target.written(), Dying(writes)
        for _ in range(400):
            dying.is_dead = False
            try:
                await (await mover(mortal(source, dying), mortal(target, dying))).move([GARDEN])
            except Unreachable:
                await asyncio.sleep(1)
                assert not (is_active(source) and is_active(target))
            else:
                break
        assert dying.writes > 3 * len(before)
        await asyncio.sleep(CALM)
        assert (target.written() - written, await objects(source)) == ({}, set())
        assert (await objects(target), await node_versions(workload)) == (before, nodes)

    between(story)


@pytest.mark.parametrize("writes", [40, *(pytest.param(item, marks=pytest.mark.soak) for item in (1, 7, 75))])
def test_a_move_taken_back_leaves_nothing_there(writes: int) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        workload = await source.workload()
        nodes, before, dying = await node_versions(workload), await objects(source), Dying(writes)
        present = await source.client.get(Cluster.resource, GARDEN.name, NAMESPACE)
        with pytest.raises(Unreachable):
            await (await mover(mortal(source, dying), mortal(target, dying))).move([GARDEN])
        await asyncio.sleep(60)
        await (await mover(source.client, target.client)).take_back([GARDEN])
        await asyncio.sleep(CALM)
        assert (await objects(source), await objects(target)) == (before, set())
        assert target.clusters.get(GARDEN) is None
        assert await node_versions(workload) == nodes
        after = await source.client.get(Cluster.resource, GARDEN.name, NAMESPACE)
        assert after.metadata.annotations == present.metadata.annotations
        written = source.written()
        await asyncio.sleep(CALM)
        assert source.written() == written

    between(story)


class FinalizerAgain(Interceptor):
    """Cluster API's controllers put their finalizers on paused objects, too, with each event: so between the move's
    last write to an object and its deletion.
    """

    def __init__(self) -> None:
        self.added = 0

    async def request(self, transport: Transport, request: Request) -> Response:
        if request.method == "DELETE" and CAPI in request.path:
            body = encode_json({"metadata": {"finalizers": [f"{CAPI}/again"]}})
            headers = {"content-type": PatchType.MERGE.value}
            answer = await transport.request(Request("PATCH", request.path, headers=headers, body=body))
            self.added += answer.status == 200
        return await transport.request(request)


def test_objects_held_again_still_leave_the_source() -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        nodes, before = await node_versions(await source.workload()), await objects(source)
        again = FinalizerAgain()
        await (await mover(mortal(source, again), target.client)).move([GARDEN])
        assert again.added > 10
        await asyncio.sleep(CALM)
        assert (await objects(source), await objects(target)) == (set(), before)
        assert await node_versions(await target.workload()) == nodes

    between(story)


def test_a_cluster_deleted_during_its_move_can_go() -> None:
    """Nobody acts on it until the move ends, so waiting for its deletion would never end."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        dying = Dying(40)
        with pytest.raises(Unreachable):
            await (await mover(mortal(source, dying), mortal(target, dying))).move([GARDEN])
        await source.client.delete(Cluster.resource, GARDEN.name, NAMESPACE)
        await asyncio.sleep(60)
        await refused(source, target, GARDEN, "is being deleted: take the move back with --back, which lets it go")
        await (await mover(source.client, target.client)).take_back([GARDEN])
        await source.until_gone()
        assert (await objects(source), await objects(target)) == (set(), set())

    between(story)


def test_a_move_that_handed_over_is_not_taken_back() -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        while "handed-over" not in await at_source(source):
            dying = Dying(5)
            with pytest.raises(Unreachable):
                await (await mover(mortal(source, dying), mortal(target, dying))).move([GARDEN])
        with pytest.raises(Refused, match="handed over: let the move finish"):
            await (await mover(source.client, target.client)).take_back([GARDEN])
        assert not is_active(source)

    between(story)


async def at_source(env: ManagedEnvironment) -> str:
    cluster = await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)
    return cluster.metadata.annotations.get(MOVE_ANNOTATION, "")


def test_a_change_during_the_copy_is_not_handed_over() -> None:
    """The source's spec is edited after it was copied; the same command copies it again."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        dying = Dying(60)
        with pytest.raises(Unreachable):
            await (await mover(mortal(source, dying), mortal(target, dying))).move([GARDEN])
        await source.change(kubernetesVersion="1.36")
        await (await mover(source.client, target.client)).move([GARDEN])
        moved = await target.until_ready()
        assert moved.spec.kubernetes_version == "1.36"
        assert set(await target.versions()) == {KUBERNETES["1.36"]}

    between(story)


def test_a_killed_move_is_said_in_a_condition() -> None:
    """In each state of the source, until it ends; the copy does not have it."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        before = (await source.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).tree["status"]["conditions"]
        dying, conditions = Dying(9), set()
        for _ in range(400):
            dying.is_dead = False
            try:
                await (await mover(mortal(source, dying), mortal(target, dying))).move([GARDEN])
            except Unreachable:
                await asyncio.sleep(1)
                conditions.add(await moving(source))
                assert await moving(target) in ("", None)
            else:
                break
        assert conditions - {None} == {"ClusterBeingMoved", "ClusterHandedOver"}
        moved = (await target.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).tree["status"]["conditions"]
        assert [item["type"] for item in moved] == [item["type"] for item in before]

    between(story)


class HandingOver(Dying):
    """The command dies with the write that hands over."""

    async def request(self, transport: Transport, request: Request) -> Response:
        if b"handed-over" in (request.body or b""):
            self.after = 1
        return await super().request(transport, request)


def test_a_move_killed_in_its_hand_over_says_so() -> None:
    """By its next run, before anything else."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        for dying, reason in ((HandingOver(10**6), "ClusterBeingMoved"), (Dying(1), "ClusterHandedOver")):
            with pytest.raises(Unreachable):
                await (await mover(mortal(source, dying), mortal(target, dying))).move([GARDEN])
            assert "handed-over" in await at_source(source)
            assert await moving(source) == reason

    between(story)


async def moving(env: ManagedEnvironment) -> str | None:
    """The reason of condition Moving; empty without the condition, None without the Cluster."""
    try:
        cluster = await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)
    except NotFound:
        return None
    reported = condition_list.get(cluster.decode(Cluster).status.conditions, "Moving")
    return reported.reason if reported is not None else ""


def test_a_move_that_stops_says_why_in_a_condition() -> None:
    """The source is edited between the copy and the comparison."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        edits = []

        def edit(sentence: str) -> None:
            if "objects copied" in sentence:
                edits.append(asyncio.ensure_future(source.change(kubernetesVersion="1.36")))

        moving_ = await mover(source.client, target.client)
        moving_.say = edit
        with pytest.raises(Refused, match="changed during the move"):
            await moving_.move([GARDEN])
        await asyncio.gather(*edits)
        reported = (await source.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).decode(Cluster).status
        value = condition_list.get(reported.conditions, "Moving")
        assert value is not None
        assert (value.status, value.reason) == ("True", "MoveRefused")
        assert "spec.kubernetesVersion changed during the move" in value.message
        assert "with --back to take the move back" in value.message
        await moving_.take_back([GARDEN])
        assert await moving(source) == ""
        await source.until_ready()

    between(story)


def test_bad_moves_are_refused_before_any_write() -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        written = dict(source.server.requests), dict(target.server.requests)
        await refused(source, source, GARDEN, "the target is the source itself")
        await refused(source, target, Key(NAMESPACE, "nobody"), "Cluster default/nobody does not exist at the source")
        await refused(source, target, Key(NAMESPACE, "laptop"), "is the record of a management cluster")
        assert writes(source, written[0]) == writes(target, written[1]) == []
        await refused(source, target, OTHER, "Cluster default/other does not exist at the source")
        taken = {"metadata": {"name": "garden-ca", "namespace": SYSTEM_NAMESPACE}, "data": {"tls.key": "YQ=="}}
        await target.client.create(SECRET, taken)
        await refused(source, target, GARDEN, "Secret eksa-system/garden-ca exists at the target with other content")
        await source.client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
        spec = (await source.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).tree["spec"]
        body = {"metadata": {"name": "hedge", "namespace": "elsewhere"}, "spec": spec}
        await source.client.create(Cluster.resource, body)
        await asyncio.sleep(1)
        there = Key("elsewhere", "hedge")
        await refused(source, target, there, "namespace elsewhere does not exist at the target: create it there")
        await source.change(kubernetesVersion="1.36")
        await refused(source, target, GARDEN, "is being changed: wait until condition Ready is True")
        assert not await at_source(source)
        edited = {"metadata": {"annotations": {MOVE_ANNOTATION: "{"}}}
        await source.client.patch(Cluster.resource, GARDEN.name, NAMESPACE, patch=edited, type=PatchType.MERGE)
        await refused(source, target, GARDEN, "annotation anywhere.eks.amazonaws.com/move was edited")

    between(story)


async def refused(source: ManagedEnvironment, target: ManagedEnvironment, key: Key, why: str) -> None:
    with pytest.raises(Refused, match=why):
        await (await mover(source.client, target.client)).move([key])


def writes(env: ManagedEnvironment, before: dict[tuple[str, str, str, str], int]) -> list[object]:
    return [
        request
        for request, count in env.server.requests.items()
        if request[3] == "journey" and request[0] not in READING_VERBS and count != before.get(request, 0)
    ]


@pytest.mark.parametrize(
    ("release", "why"),
    [
        ("v0.25.9", "found v0.26.0; allowed: releases of v0.23 up to v0.25.9"),
        ("v0.29.0", "found v0.26.0; allowed: releases of v0.27 up to v0.29.0"),
    ],
    ids=["of an earlier release", "more than two minors ahead"],
)
def test_a_target_beyond_the_skew_is_refused(release: str, why: str) -> None:
    """Its manager would not act on the cluster."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        await without_admission(target.client)
        record = {"spec": {"eksaVersion": release}}
        await target.client.patch(Cluster.resource, "laptop", NAMESPACE, patch=record, type=PatchType.MERGE)
        await refused(source, target, GARDEN, why)
        assert not await at_source(source)

    between(story)


def test_a_later_manager_takes_a_cluster_as_it_is() -> None:
    """The target's manager renders later releases differently, and its management cluster is of such a one."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        workload = await source.workload()
        nodes, before = await node_versions(workload), await objects(source)
        await without_admission(target.client)
        record = {"spec": {"eksaVersion": "v0.28.0"}}
        await target.client.patch(Cluster.resource, "laptop", NAMESPACE, patch=record, type=PatchType.MERGE)
        await asyncio.sleep(CALM)
        written = target.written()
        await (await mover(source.client, target.client)).move([GARDEN])
        await asyncio.sleep(CALM)
        patch_offered = {("patch", "clusters", "status"): 1}
        assert target.written() - written == patch_offered
        assert (await objects(target), await node_versions(workload)) == (before, nodes)
        assert (await target.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).decode(Cluster).status.ready

    between(story, layers=NEXT)


def test_clusters_with_common_datacenter_move_together() -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        common = {"kind": "DockerDatacenterConfig", "name": GARDEN.name}
        await source.apply(name="second", datacenterRef=common)
        await source.until_ready(SECOND)
        await asyncio.sleep(CALM)
        written = target.written()
        await (await mover(source.client, target.client)).move([GARDEN, SECOND])
        await asyncio.sleep(CALM)
        assert target.written() - written == {}
        datacenter = await target.client.get(DockerDatacenterConfig.resource, GARDEN.name, NAMESPACE)
        assert {reference.name for reference in datacenter.metadata.owner_references} == {GARDEN.name, SECOND.name}
        assert (await objects(source), await objects(source, SECOND.name)) == (set(), set())

    between(story)


def test_a_common_datacenter_moves_with_each_cluster() -> None:
    """They are moved one after the other, and one of them back and forth."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        await source.apply(name="second", datacenterRef={"kind": "DockerDatacenterConfig", "name": GARDEN.name})
        await source.apply(name="third")  # stays, and with it the finalizer of the record that manages it
        await source.until_ready(SECOND)
        await asyncio.sleep(CALM)
        here, there = source.client, target.client
        for start, end, key, at in (
            (here, there, GARDEN, target),
            (here, there, SECOND, target),
            (there, here, SECOND, source),
            (here, there, SECOND, target),
        ):
            written = target.written(), source.written()
            await (await mover(start, end)).move([key])
            await asyncio.sleep(CALM)
            writes = (target.written() - written[0]) + (source.written() - written[1])
            assert set(writes) <= {("create", "secrets", "")}  # each hour it is tried, as a copy can't be read
            await at.until_ready(key)
        datacenter = await there.get(DockerDatacenterConfig.resource, GARDEN.name, NAMESPACE)
        assert {reference.name for reference in datacenter.metadata.owner_references} == {GARDEN.name, SECOND.name}

    between(story)


PROVIDERS_WITH_CREDENTIALS = sampled([live for live in LIVES if "secret" in live.before.__qualname__], 1)


@pytest.mark.parametrize("life", PROVIDERS_WITH_CREDENTIALS, ids=lambda item: item.datacenter)
@pytest.mark.parametrize("has_key", [pytest.param(False, marks=pytest.mark.soak), True])
def test_credentials_move_with_clusters_that_use_them(life: ProviderLife, *, has_key: bool) -> None:
    """The target may have its own key for digests of credentials."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        if has_key:
            key_of_target = {"name": GATE_KEY.name, "namespace": GATE_KEY.namespace}
            data = {GATE_KEY_FIELD: b64encode(b"another key of thirty-two bytes!").decode()}
            await target.client.create(SECRET, {"metadata": key_of_target, "data": data})
        await life.before(source)
        trees = life.manifest(NAMESPACE)
        for tree in reversed(trees):
            await source.client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree)
        key = Key(NAMESPACE, trees[0]["metadata"]["name"])
        await source.until_ready(key)
        await asyncio.sleep(CALM)
        workload, before = await source.workload(key), await objects(source, key.name)
        nodes, written = await node_versions(workload), target.written()
        await (await mover(source.client, target.client)).move([key])
        await asyncio.sleep(CALM)
        assert of_clusters(target.written() - written) == []
        assert (await objects(source, key.name), await objects(target, key.name)) == (set(), before)
        assert await node_versions(workload) == nodes
        moved = await target.client.get(Cluster.resource, key.name, NAMESPACE)
        assert moved.decode(Cluster).status.ready

    between(story)


def of_clusters(written: Counter[Write]) -> list[Write]:
    """Writes to other objects than those whose provider checks them."""
    return [item for item in written if not item[1].endswith("configs")]


def test_a_move_taken_back_keeps_what_another_has() -> None:
    """Two clusters have a datacenter in common; the first was moved, and the second is taken back."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        await source.apply(name="second", datacenterRef={"kind": "DockerDatacenterConfig", "name": GARDEN.name})
        await source.until_ready(SECOND)
        await asyncio.sleep(CALM)
        await (await mover(source.client, target.client)).move([GARDEN])
        dying = Dying(30)
        with pytest.raises(Unreachable):
            await (await mover(mortal(source, dying), mortal(target, dying))).move([SECOND])
        await (await mover(source.client, target.client)).take_back([SECOND])
        await asyncio.sleep(CALM)
        for env in (source, target):
            await env.client.get(DockerDatacenterConfig.resource, GARDEN.name, NAMESPACE)
        assert (await target.until_ready(GARDEN)).status.ready
        assert (await source.until_ready(SECOND)).status.ready
        assert await objects(target, SECOND.name) == set()

    between(story)


async def version_of(env: ManagedEnvironment) -> str:
    return (await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).resource_version


def test_machines_of_another_process_are_refused() -> None:
    """The API server of the cluster would have no data at the target."""

    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        for env, identity in ((source, "these"), (target, "others")):
            await record_infrastructure(env.client, identity)
        before, version = await objects(source), await version_of(source)
        with pytest.raises(Refused, match="the target does not reach the machines of the source"):
            await (await mover(source.client, target.client)).move([GARDEN])
        with pytest.raises(Refused, match="the target does not reach the machines of the source"):
            await (await mover(source.client, target.client)).check([GARDEN])
        assert (await objects(source), await objects(target)) == (before, set())
        assert await version_of(source) == version
        await record_infrastructure(target.client, "these")
        await (await mover(source.client, target.client)).move([GARDEN])
        assert await objects(target) == before

    between(story)
