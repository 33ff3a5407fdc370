"""The steps that look after what a provider has in the workload cluster: when they write there, and what they note."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.workload_steps import (
    begin_workload_objects,
    compare_workload_objects,
    install_workload_objects,
)
from espalier.clusters.design import names
from espalier.clusters.design.rendered import Manifest
from espalier.clusters.plan import workload_objects
from espalier.clusters.plan.workload_objects import Installed
from espalier.kube.transports.wire import Response
from espalier.providers.docker.provider import DOCKER
from espalier.runtime.controllers.outcome import Continue, Fault, Outcome, Wait
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.virtual import Simulation, run
from tests.support.objects.made_clusters import objects
from tests.support.objects.observed_clusters import datacenter, example
from tests.support.objects.reconciles import Environment, Server, Workload

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def config_map(name: str) -> Manifest:
    metadata = {"name": name, "namespace": "kube-system"}
    return Manifest(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": name}})


class Story:
    """A cluster of a provider that has these objects in the workload cluster."""

    def __init__(self, *wanted: str) -> None:
        self.manifests = [config_map(name) for name in wanted]
        self.workload = Workload()
        self.server = Server()
        self.env = Environment(self.server, self.workload, Expiry())
        self.installed = Installed()
        self.is_initialized = True
        self.has_kubeconfig = True

    def of(self, *there: str) -> Installed:
        """The note of these, once they are installed."""
        manifests = [config_map(name) for name in there]
        return Installed(workload_objects.digest(manifests), workload_objects.placed(manifests))

    def apply(self, *names_: str, manager: str = names.FIELD_MANAGER) -> None:
        """Put these into the workload cluster, as `manager` applied them."""
        for name in names_:
            fields = {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}
            tree = dict(config_map(name).body)
            tree["metadata"] = {**tree["metadata"], "uid": f"uid-{name}", "managedFields": [fields]}
            path = f"/api/v1/namespaces/kube-system/configmaps/{name}"
            self.workload.stored[path] = json.dumps(tree).encode()

    async def do(self, step: Callable[[ClusterContext], Awaitable[Outcome]]) -> Outcome:
        self.server.asked.clear()
        self.workload.asked.clear()
        provider = replace(DOCKER, workload=lambda _render_input: self.manifests)
        there = [tree for tree in objects() if self.has_kubeconfig or tree["kind"] != "Secret"]
        for tree in there:
            if tree["kind"] == "Cluster":
                note = {metadata_keys.WORKLOAD_OBJECTS_ANNOTATION: str(self.installed)} if str(self.installed) else {}
                tree["metadata"]["annotations"] = note
                tree["status"] = {"initialization": {"controlPlaneInitialized": self.is_initialized}}
            if tree["kind"] == "Secret":
                maker = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "garden"}
                tree["metadata"]["ownerReferences"] = [maker | {"uid": "uid-Cluster-garden"}]
        providers = {DOCKER.links.datacenter.kind: provider}
        return await step(self.env.begin(example()[0], datacenter(), *there, providers=providers))

    @property
    def notes(self) -> list[str]:
        results = [
            patch["metadata"]["annotations"] for patch in self.server.written if "annotations" in patch["metadata"]
        ]
        return [
            item[metadata_keys.WORKLOAD_OBJECTS_ANNOTATION]
            for item in results
            if metadata_keys.WORKLOAD_OBJECTS_ANNOTATION in item
        ]

    @property
    def writes(self) -> list[tuple[str, str]]:
        """Of the workload cluster: method and name."""
        return [(item.method, item.path.rpartition("/")[2]) for item in self.workload.asked if item.method != "GET"]


def tell(story: Callable[[], Awaitable[None]]) -> None:
    async def main(_simulation: Simulation) -> None:
        await story()

    run(main, epoch=EPOCH, seed=1)


def test_objects_are_noted_before_and_after() -> None:
    async def story() -> None:
        history = Story("a", "b")
        history.is_initialized = False
        assert await history.do(begin_workload_objects) == Continue()
        assert (history.writes, history.server.written) == ([], [])
        history.is_initialized = True
        assert await history.do(begin_workload_objects) == Continue()
        assert history.writes == [("PATCH", "a"), ("PATCH", "b")]
        done = history.of("a", "b")
        assert history.notes == [str(done._replace(digest=names.UNFINISHED)), str(done)]
        history.installed = done
        for step in (begin_workload_objects, install_workload_objects):
            assert await history.do(step) == Continue()
            assert (history.writes, history.server.written) == ([], [])

    tell(story)


def test_objects_wait_for_the_kubeconfig() -> None:
    """Nothing is announced as being installed that nobody could send."""

    async def story() -> None:
        history = Story("a")
        history.has_kubeconfig = False
        outcome = await history.do(begin_workload_objects)
        assert outcome == Wait(Reason.WAITING_FOR_KUBECONFIG, "waiting for Secret eksa-system/garden-kubeconfig")
        assert (history.writes, history.server.written) == ([], [])

    tell(story)


def test_other_versions_wait_for_the_control_plane() -> None:
    async def story() -> None:
        history = Story("a", "b")
        history.installed = history.of("a")
        assert await history.do(begin_workload_objects) == Continue()
        assert history.writes == []
        assert await history.do(install_workload_objects) == Continue()
        assert history.writes == [("PATCH", "a"), ("PATCH", "b")]

    tell(story)


def test_workload_object_not_rendered_is_deleted() -> None:
    async def story() -> None:
        history = Story("a")
        history.installed = history.of("a", "b", "c")
        history.apply("a", "b", "c")
        history.workload.answers["PATCH"] = refused(500, "InternalError")
        fault = await history.do(install_workload_objects)
        assert isinstance(fault, Fault)
        assert fault.reason == Reason.WORKLOAD_OBJECTS_INSTALLATION_IN_PROGRESS
        assert history.notes == [str(history.of("a", "b", "c")._replace(digest=names.UNFINISHED))]
        history.installed = history.of("a", "b", "c")._replace(digest=names.UNFINISHED)
        history.workload.answers.clear()
        assert await history.do(install_workload_objects) == Continue()
        assert history.writes == [("PATCH", "a"), ("DELETE", "c"), ("DELETE", "b")]
        assert history.notes == [str(history.of("a"))]

    tell(story)


def test_the_last_ones_go_with_their_note() -> None:
    async def story() -> None:
        history = Story()
        history.installed = history.of("a")
        history.apply("a")
        assert await history.do(install_workload_objects) == Continue()
        assert history.writes == [("DELETE", "a")]
        assert "uid-a" in history.workload.asked[-1].body.decode()
        assert history.notes[-1] is None

    tell(story)


def test_objects_of_others_stay_whatever_the_note() -> None:
    async def story() -> None:
        history = Story()
        history.installed = history.of("theirs", "gone")
        history.apply("theirs", manager="kubectl")
        assert await history.do(install_workload_objects) == Continue()
        assert history.writes == []

    tell(story)


def test_provider_without_objects_asks_nothing() -> None:
    async def story() -> None:
        history = Story()
        for step in (begin_workload_objects, install_workload_objects, compare_workload_objects):
            assert await history.do(step) == Continue()
            assert (history.workload.asked, history.server.asked) == ([], [])

    tell(story)


def test_refusal_needs_a_person_and_slowness_does_not() -> None:
    async def story() -> None:
        history = Story("a")
        history.workload.answers["PATCH"] = refused(403, "Forbidden")
        fault = await history.do(install_workload_objects)
        assert isinstance(fault, Fault)
        assert fault.reason == Reason.WORKLOAD_OBJECTS_REFUSED
        slow = Story("a")
        slow.workload.slow_writes = 5.0
        waits = await slow.do(install_workload_objects)
        assert isinstance(waits, Wait)
        assert waits.reason == Reason.WORKLOAD_OBJECTS_INSTALLATION_IN_PROGRESS
        away = Story("a")
        away.workload.away = True
        fault = await away.do(install_workload_objects)
        assert isinstance(fault, Fault)
        assert fault.reason == Reason.WORKLOAD_CLUSTER_UNREACHABLE

    tell(story)


def test_changes_by_hand_are_reverted() -> None:
    async def story() -> None:
        history = Story("a", "b")
        history.installed = history.of("a", "b")
        history.workload.store("/api/v1/namespaces/kube-system/configmaps/a", history.manifests[0].body)
        assert await history.do(compare_workload_objects) == Continue()
        assert history.writes == [("PATCH", "b")]

    tell(story)


def refused(code: int, reason: str) -> Response:
    status: Tree = {"kind": "Status", "status": "Failure", "reason": reason, "code": code}
    return Response(code, json.dumps(status).encode())
