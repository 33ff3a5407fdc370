"""The steps of the CNI: what they do to a workload cluster, and when they leave it alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.core import DAEMON_SET, SERVICE_ACCOUNT
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.act.cni_steps import compare_cni, install_cni, restore_cni
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.design import cni, names
from espalier.clusters.design.drift import rate_limit
from espalier.clusters.design.rendered import Manifest
from espalier.kube.transports.wire import Response
from espalier.runtime.controllers.outcome import Continue, Fault, Outcome, Wait
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.virtual import Simulation, run
from espalier.runtime.workload_clusters.remote_tasks import RESULT_TTL
from tests.support.objects.made_clusters import objects
from tests.support.objects.observed_clusters import GARDEN, datacenter, example, scope
from tests.support.objects.reconciles import Environment, Server, Workload

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
KINDNET: Tree = {"cniConfig": {"kindnetd": {}}}
CILIUM: Tree = {"cniConfig": {"cilium": {}}}
ALONE: Tree = {"cniConfig": {"cilium": {"skipUpgrade": True}}}
"""Asks for the CNI not to be touched after its installation."""

Step = Callable[[ClusterContext], Awaitable[Outcome]]


def status(code: int, reason: str) -> Response:
    return Response(code, json.dumps({"kind": "Status", "status": "Failure", "reason": reason, "code": code}).encode())


def network(config: Tree) -> Tree:
    blocks = {"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/12"]}}
    return {"clusterNetwork": {**blocks, **config}}


class Story:
    """A cluster with a CNI, and its workload cluster."""

    def __init__(self, config: Tree) -> None:
        self.spec = network(config)
        render_input = scope(*example(**self.spec), datacenter()).render_input
        assert render_input is not None
        self.manifests = cni.objects(render_input)
        self.mark = cni.content_hash(self.manifests)
        self.workload = Workload()
        self.server = Server()
        self.env = Environment(self.server, self.workload, Expiry())
        self.over: list[Key] = []
        self.env.rate_limits.subscribe(self.over.append)
        self.installed = self.mark
        self.generation = 1
        self.is_reachable = True
        for manifest in self.manifests:
            self.workload.store(path(manifest), manifest.body)

    def lose(self, *kinds: str) -> None:
        for manifest in self.manifests:
            if not kinds or manifest.resource.kind in kinds:
                self.workload.stored.pop(path(manifest), None)

    def begin(self, **spec: Any) -> ClusterContext:
        cluster = example(**self.spec | spec)[0]
        cluster["status"] = {"observedGeneration": self.generation}
        there = objects(**self.spec)
        for tree in there:
            if tree["kind"] == "Cluster":
                tree["metadata"]["annotations"] = (
                    {metadata_keys.CNI_ANNOTATION: self.installed} if self.installed else {}
                )
            if tree["kind"] == "Secret":
                maker = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "garden"}
                tree["metadata"]["ownerReferences"] = [maker | {"uid": "uid-Cluster-garden"}]
        there = [item for item in there if self.is_reachable or item["kind"] != "Secret"]
        return self.env.begin(cluster, datacenter(), *there)

    async def do(self, step: Step, **spec: Any) -> Outcome:
        return await step(self.begin(**spec))

    @property
    def applied_kinds(self) -> list[str]:
        """The kinds of the objects applied in the workload cluster since the last call."""
        results = [json.loads(item.body)["kind"] for item in self.workload.asked if item.method == "PATCH"]
        self.workload.asked.clear()
        return results

    @property
    def marks(self) -> list[str]:
        """The notes about the CNI since the last call."""
        results = [patch["metadata"]["annotations"].get(metadata_keys.CNI_ANNOTATION) for patch in self.server.written]
        self.server.asked.clear()
        return [item for item in results if item is not None]

    @property
    def kinds(self) -> list[str]:
        return [manifest.resource.kind for manifest in self.manifests]


def path(manifest: Manifest) -> str:
    metadata, resource = manifest.body["metadata"], manifest.resource
    group = f"apis/{resource.group}" if resource.group else "api"
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"/{group}/{resource.version}{namespace}/{resource.plural}/{metadata['name']}"


def story(tell: Callable[[Story], Awaitable[None]], config: Tree = KINDNET) -> None:
    async def main(_simulation: Simulation) -> None:
        await tell(Story(config))

    run(main, epoch=EPOCH, seed=1)


def test_a_cni_that_is_as_it_should_be_is_not_written() -> None:
    async def tell(first: Story) -> None:
        for step in (restore_cni, install_cni, compare_cni):
            assert await first.do(step) == Continue()
        assert first.applied_kinds == []
        assert first.server.written == [], "no gate is opened"

    story(tell)


@pytest.mark.parametrize("step", [restore_cni, install_cni, compare_cni])
def test_unmanaged_cni_is_not_compared(step: Step) -> None:
    async def tell(first: Story) -> None:
        for installed in (first.mark, "cilium-of-another-version"):
            first.installed = installed
            first.lose()
            assert await first.do(step) == Continue()
            assert first.workload.asked == []
            assert first.marks == []

    story(tell, ALONE)


def test_unmanaged_cni_is_installed_once() -> None:
    async def tell(first: Story) -> None:
        first.installed = ""
        first.lose()
        assert await first.do(install_cni) == Continue()
        assert first.applied_kinds == first.kinds
        assert first.marks == [first.mark]

    story(tell, ALONE)


@pytest.mark.parametrize("step", [restore_cni, compare_cni])
def test_missing_objects_are_restored_after_a_rest(step: Step) -> None:
    async def tell(first: Story) -> None:
        first.lose(DAEMON_SET.kind)
        assert await first.do(step) == Continue()
        assert first.applied_kinds == [DAEMON_SET.kind]
        first.lose(DAEMON_SET.kind)  # somebody takes it away again, at once
        outcome = await first.do(step)
        assert first.applied_kinds == []
        if step is compare_cni:
            assert isinstance(outcome, Wait)
            assert (outcome.reason, outcome.after) == (Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS, RESULT_TTL)
            assert "DaemonSet kube-system/kindnet" in outcome.message
        else:
            assert outcome == Continue(), "nodes are waited for, and that comes again"
        assert first.over == []
        await asyncio.sleep(rate_limit.SECONDS + 1)
        assert first.over == [GARDEN]
        assert await first.do(step) == Continue()
        assert first.applied_kinds == [DAEMON_SET.kind]
        assert await first.do(step) == Continue()
        await asyncio.sleep(rate_limit.SECONDS + 1)
        assert first.over == [GARDEN], "nothing was to be restored meanwhile"

    story(tell)


def test_resting_cni_holds_nothing_up() -> None:
    async def tell(first: Story) -> None:
        for expected in ([SERVICE_ACCOUNT.kind], []):
            first.lose(SERVICE_ACCOUNT.kind)
            assert await first.do(compare_cni) == Continue()
            assert first.applied_kinds == expected

    story(tell)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status(403, "Forbidden"), Reason.DEFAULT_CNI_REFUSED),
        (status(422, "Invalid"), Reason.DEFAULT_CNI_REFUSED),
        (status(400, "BadRequest"), Reason.DEFAULT_CNI_REFUSED),
        (status(409, "Conflict"), Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS),
    ],
)
@pytest.mark.parametrize("step", [restore_cni, compare_cni, install_cni])
def test_refusal_is_a_fault_without_a_cni(step: Step, answer: Response, reason: str) -> None:
    async def tell(first: Story) -> None:
        first.workload.answers["PATCH"] = answer
        first.installed = "" if step is install_cni else first.mark
        first.lose()
        outcome = await first.do(step)
        assert isinstance(outcome, Fault)
        assert outcome.reason == reason
        assert ("the CNI is missing" in outcome.message) is (step is not install_cni)
        assert first.marks == []

    story(tell)


@pytest.mark.parametrize("step", [restore_cni, compare_cni])
def test_a_refusal_of_what_is_no_loss_holds_nothing_up(step: Step) -> None:
    async def tell(first: Story) -> None:
        first.workload.answers["PATCH"] = status(403, "Forbidden")
        first.lose(SERVICE_ACCOUNT.kind)
        assert await first.do(step) == Continue()

    story(tell)


@pytest.mark.parametrize("step", [restore_cni, compare_cni])
def test_silent_workload_cluster_holds_nothing_up(step: Step) -> None:
    async def tell(first: Story) -> None:
        first.lose()
        first.workload.answers["GET"] = status(409, "Conflict")
        assert await first.do(step) == Continue()
        assert first.applied_kinds == []
        assert first.server.written == []

    story(tell)


def test_cluster_of_eks_anywhere_is_asked_for_its_cni() -> None:
    async def tell(first: Story) -> None:
        first.installed, first.generation = "", 0
        first.lose()
        assert await first.do(restore_cni) == Continue()
        assert await first.do(compare_cni) == Continue()
        assert first.workload.asked == []
        first.generation = 1
        assert await first.do(restore_cni) == Continue()
        assert first.applied_kinds == first.kinds
        assert first.marks == [first.mark]

    story(tell)


def test_cni_lost_in_a_creation_is_restored() -> None:
    async def tell(first: Story) -> None:
        first.generation = 0
        first.lose(DAEMON_SET.kind)
        assert await first.do(restore_cni) == Continue()
        assert first.applied_kinds == [DAEMON_SET.kind]

    story(tell)


def test_object_being_deleted_is_awaited() -> None:
    """Nothing can be written over it: until then the cluster has no CNI."""

    async def tell(first: Story) -> None:
        going = next(manifest for manifest in first.manifests if manifest.resource == DAEMON_SET)
        metadata = going.body["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        for others in ((), (SERVICE_ACCOUNT.kind,)):
            first.workload.store(path(going), going.body | {"metadata": metadata})
            first.lose(*others or ("nothing",))
            outcome = await first.do(compare_cni)
            assert first.applied_kinds == list(others)
            assert isinstance(outcome, Wait)
            assert "DaemonSet kube-system/kindnet" in outcome.message
            assert first.env.rate_limits.is_limited(GARDEN) is bool(others), "it was corrected"
            await asyncio.sleep(RESULT_TTL + 1)

    story(tell)


def test_unreachable_workload_cluster_is_named() -> None:
    async def tell(first: Story) -> None:
        first.workload.away = True
        first.installed = ""
        outcome = await first.do(install_cni)
        assert isinstance(outcome, Fault)
        assert outcome.reason == Reason.WORKLOAD_CLUSTER_UNREACHABLE

    story(tell)


def test_annotation_names_the_running_cni() -> None:
    manifests = Story(KINDNET).manifests
    assert cni.content_hash([]) == ""
    account = next(manifest for manifest in manifests if manifest.resource == SERVICE_ACCOUNT)
    renamed = Manifest(account.resource, account.body | {"metadata": account.body["metadata"] | {"name": "other"}})
    assert cni.content_hash([renamed, *manifests]).startswith("kindnet-")
    assert cni.content_hash([renamed]).startswith("cni-")


def test_other_cni_waits_unless_the_first_is_lost() -> None:
    async def tell(first: Story) -> None:
        first.installed = "kindnet-of-before"
        first.lose(SERVICE_ACCOUNT.kind)
        assert await first.do(restore_cni) == Continue()
        assert first.applied_kinds == []
        first.lose()
        await asyncio.sleep(RESULT_TTL + 1)
        assert await first.do(restore_cni) == Continue()
        assert first.applied_kinds == first.kinds

    story(tell)


def test_a_change_is_noted_before_it_begins_and_once() -> None:
    unfinished = f"kindnet-{names.UNFINISHED}"

    async def tell(first: Story) -> None:
        first.workload.answers["PATCH"] = status(403, "Forbidden")
        for installed, marks in (("", []), ("kindnet-of-before", [unfinished]), (unfinished, [])):
            first.installed = installed
            assert isinstance(await first.do(install_cni), Fault)
            assert first.marks == marks
        first.workload.answers.clear()
        assert await first.do(install_cni) == Continue()
        assert first.marks == [first.mark]

    story(tell)


def test_missing_kubeconfig_compares_nothing() -> None:
    async def tell(first: Story) -> None:
        first.is_reachable = False
        first.installed = ""
        outcome = await first.do(install_cni)
        assert isinstance(outcome, Wait)
        assert outcome.reason == "WaitingForKubeconfig"
        assert "garden-kubeconfig" in outcome.message
        first.installed = first.mark
        for step in (restore_cni, compare_cni):
            assert await first.do(step) == Continue()
        assert first.workload.asked == []

    story(tell)


@pytest.mark.parametrize("step", [restore_cni, compare_cni, install_cni])
def test_slow_workload_cluster_is_not_awaited(step: Step) -> None:
    """The reconcile comes again; only the comparison at the end of a change has to have its answer."""

    async def tell(first: Story) -> None:
        first.workload.slow = 60.0
        first.installed = "kindnet-of-before" if step is install_cni else first.mark
        outcome = await first.do(step)
        if step is restore_cni:
            assert outcome == Continue()
        else:
            assert isinstance(outcome, Wait)
            assert outcome.reason == Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS
        assert first.applied_kinds == []

    story(tell)


def test_running_restore_is_awaited_before_comparing() -> None:
    async def tell(first: Story) -> None:
        first.lose(DAEMON_SET.kind)
        first.workload.slow_writes = 60.0
        outcome = await first.do(compare_cni)
        assert isinstance(outcome, Wait)
        assert (outcome.reason, outcome.after) == (Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS, None)
        assert not first.env.rate_limits.is_limited(GARDEN), "nothing was corrected yet"

    story(tell)


def lost(cluster_context: ClusterContext) -> Sequence[str] | None:
    return cluster_context.scope.lost_cni


def test_missing_cni_objects_are_reported() -> None:
    async def tell(first: Story) -> None:
        first.lose(DAEMON_SET.kind)
        p = first.begin()
        assert lost(p) is None
        await compare_cni(p)
        assert lost(p) == ()
        first.lose(DAEMON_SET.kind)
        p = first.begin()
        await compare_cni(p)
        assert lost(p) == ("DaemonSet kube-system/kindnet of the workload cluster",)

    story(tell)
