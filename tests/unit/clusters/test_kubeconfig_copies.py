"""Copies of kubeconfigs, step by step: what is asked of a user's namespace, what is said, and when nothing is asked."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

import pytest

from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.secrets import kubeconfig_copies
from espalier.clusters.act.secrets.kubeconfig_copies import CHECK_EVERY, TRY_EVERY, spread
from espalier.clusters.design import names
from espalier.kube.errors import Invalid
from espalier.kube.transports.wire import Response
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.virtual import Simulation, run
from tests.support.objects.made_clusters import objects
from tests.support.objects.observed_clusters import GARDEN, datacenter, example
from tests.support.objects.reconciles import NOT_FOUND, Environment, Server, Workload

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = spread(GARDEN)
"""The part of the time between two checks after which the first one comes."""
KUBECONFIG = b"apiVersion: v1\nkind: Config\n"
MAKER = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "name": "garden"}
OWNED = [MAKER | {"uid": "uid-KubeadmControlPlane-garden"}]


def status(code: int, reason: str) -> Response:
    return Response(code, json.dumps({"kind": "Status", "status": "Failure", "reason": reason, "code": code}).encode())


EXISTS = status(409, "AlreadyExists")
FORBIDDEN = status(403, "Forbidden")


def digest(content: bytes = KUBECONFIG, uid: str = "uid-0") -> str:
    return hashlib.sha256(uid.encode() + content).hexdigest()[:16]


class Story:
    """A Cluster whose kubeconfig is copied, in one manager."""

    def __init__(self, answers: Mapping[str, Response], copies: Expiry | None) -> None:
        self.server = Server(answers)
        self.copies = copies or Expiry()
        self.env = Environment(self.server, Workload(), copies)
        self.due: list[Key] = []
        if copies is not None:
            copies.subscribe(self.due.append)

    async def keep(
        self,
        *,
        noted: str = "",
        earlier: str = "",
        owners: list[Tree] = OWNED,
        content: bytes | None = KUBECONFIG,
        made: bool = True,
        namespace: str = GARDEN.namespace,
        labels: Mapping[str, str] | None = None,
    ) -> ClusterContext:
        """One reconcile: annotations and status of the Cluster, and the Secret of Cluster API."""
        cluster = example()[0]
        cluster["metadata"] |= {"annotations": {metadata_keys.KUBECONFIG_ANNOTATION: noted}, "namespace": namespace}
        condition = {"type": names.KUBECONFIG_COPIED, "status": "False", "reason": earlier, "message": "as before"}
        cluster["status"] = {"conditions": [condition] if earlier else []}
        there = objects()
        secret = next(tree for tree in there if tree["kind"] == "Secret")
        for tree in there:
            if tree is not secret:
                tree["metadata"].setdefault("labels", {}).update(names.labels(Key(namespace, "garden")))
        secret["metadata"] |= {"ownerReferences": owners}
        secret["metadata"]["labels"] |= labels or {}
        secret["data"] = {"value": base64.b64encode(content or b"").decode()}
        remaining = [item for item in there if (item is not secret or content is not None) and (made or item is secret)]
        p = self.env.begin(cluster, datacenter(), *remaining, key=Key(namespace, "garden"))
        await kubeconfig_copies.keep(p)
        return p

    def asked(self) -> list[str]:
        """The methods of requests since the last call, but for events."""
        methods = [request.method for request in self.server.asked if "/events" not in request.path]
        self.server.asked.clear()
        return methods


def story(
    tell: Callable[[Story], Awaitable[None]], answers: Mapping[str, Response] | None = None, *, enabled: bool = True
) -> None:
    async def main(_simulation: Simulation) -> None:
        await tell(Story(answers or {}, Expiry() if enabled else None))

    run(main, epoch=EPOCH, seed=1)


def reason_of(p: ClusterContext) -> str | None:
    return p.copied.reason if p.copied is not None else None


def test_a_copy_that_is_none_is_no_secret_of_the_users() -> None:
    async def tell(story: Story) -> None:
        with pytest.raises(Invalid):
            await story.keep()

    story(tell, {"POST": status(422, "Invalid")})


@pytest.mark.parametrize(
    ("answers", "reason", "asked"),
    [
        ({}, None, ["POST", "PATCH"]),
        ({"POST": EXISTS}, None, ["POST", "PUT", "PATCH"]),
        ({"POST": FORBIDDEN}, Reason.KUBECONFIG_COPY_NOT_ALLOWED, ["POST"]),
        ({"POST": EXISTS, "PUT": FORBIDDEN}, Reason.KUBECONFIG_COPY_NOT_ALLOWED, ["POST", "PUT"]),
        ({"POST": EXISTS, "PUT": status(422, "Invalid")}, Reason.KUBECONFIG_SECRET_TAKEN, ["POST", "PUT"]),
        ({"POST": EXISTS, "PUT": status(409, "Conflict")}, Reason.KUBECONFIG_SECRET_TAKEN, ["POST", "PUT"]),
        ({"POST": EXISTS, "PUT": NOT_FOUND}, Reason.KUBECONFIG_SECRET_TAKEN, ["POST", "PUT"]),
    ],
    ids=["made", "ours", "not created", "not replaced", "of another type", "made anew", "gone meanwhile"],
)
def test_copy_is_recorded_and_an_obstacle_is_reported(
    answers: Mapping[str, Response], reason: str | None, asked: list[str]
) -> None:
    async def tell(story: Story) -> None:
        p = await story.keep()
        assert reason_of(p) == reason
        noted = [patch["metadata"]["annotations"] for patch in story.server.written]
        assert noted == ([{metadata_keys.KUBECONFIG_ANNOTATION: digest()}] if reason is None else [])
        assert story.asked() == asked
        pause = TRY_EVERY if reason else CHECK_EVERY
        await asyncio.sleep(pause * FIRST - 1)
        assert story.due == []
        await story.keep(earlier=reason or "", noted="" if reason else digest())
        assert story.asked() == [], "in between nothing is asked"
        await asyncio.sleep(2)
        assert story.due == [GARDEN]

    story(tell, answers)


def test_started_manager_asks_only_after_an_obstacle() -> None:
    async def quiet(story: Story) -> None:
        p = await story.keep(noted=digest())
        assert (reason_of(p), story.asked()) == (None, [])
        await asyncio.sleep(CHECK_EVERY * FIRST + 1)
        assert story.due == [GARDEN]
        assert story.asked() == []
        await story.keep(noted=digest())
        assert story.asked() == ["POST"], "somebody may have deleted it"
        await asyncio.sleep(CHECK_EVERY - 1)
        assert story.due == [GARDEN], "the first one came earlier"
        await asyncio.sleep(2)
        assert story.due == [GARDEN, GARDEN]

    async def troubled(story: Story) -> None:
        p = await story.keep(noted=digest(), earlier=Reason.KUBECONFIG_COPY_NOT_ALLOWED)
        assert (reason_of(p), story.asked()) == (None, ["POST"])

    story(quiet)
    story(troubled)


@pytest.mark.parametrize(
    ("answer", "reason", "pause"),
    [(EXISTS, None, CHECK_EVERY), (FORBIDDEN, Reason.KUBECONFIG_COPY_NOT_ALLOWED, TRY_EVERY)],
)
def test_copy_is_created_again_but_never_overwritten(answer: Response, reason: str | None, pause: float) -> None:
    """The object there by now is the copy, or the user's own."""

    async def tell(story: Story) -> None:
        p = await story.keep(noted=digest(), earlier=Reason.KUBECONFIG_COPY_NOT_ALLOWED)
        assert (reason_of(p), story.asked()) == (reason, ["POST"])
        await asyncio.sleep(pause * FIRST - 1)
        assert story.due == []
        await asyncio.sleep(2)
        assert story.due == [GARDEN]

    story(tell, {"POST": answer})


def test_checks_of_many_copies_are_spread() -> None:
    fleet = [Key("team-a", f"garden-{number:05}") for number in range(10_000)]
    minutes = Counter(int(spread(key) * 60) for key in fleet)
    assert (len(minutes), max(minutes.values()) < 400) == (30, True)
    assert [spread(key) for key in fleet] == [spread(key) for key in fleet]


def test_renewed_kubeconfig_is_copied_at_once() -> None:
    async def tell(story: Story) -> None:
        await story.keep()
        assert story.asked() == ["POST", "PATCH"]
        await asyncio.sleep(CHECK_EVERY * FIRST / 2)
        p = await story.keep(noted=digest(), content=b"renewed")
        assert (reason_of(p), story.asked()) == (None, ["POST", "PATCH"])
        await story.keep(noted=digest(b"renewed"), content=b"renewed")
        assert story.asked() == []
        await asyncio.sleep(CHECK_EVERY * FIRST - 1)
        assert story.due == [], "what was due earlier is no longer there"
        await asyncio.sleep(2)
        assert story.due == [GARDEN]

    story(tell)


def test_a_cluster_made_again_gets_a_copy_of_its_own() -> None:
    """Its Secret went with the one before, whose annotations an export carried over."""

    async def tell(story: Story) -> None:
        await story.keep(noted=digest(uid="before"))
        assert story.asked() == ["POST", "PATCH"]

    story(tell)


def test_nothing_is_remembered_of_a_deleted_cluster() -> None:
    async def tell(story: Story) -> None:
        await story.keep()
        story.copies.forget(GARDEN)
        await asyncio.sleep(2 * CHECK_EVERY)
        assert story.due == []
        await story.keep()
        await asyncio.sleep(CHECK_EVERY + 1)
        assert story.copies.has_expired(GARDEN, digest())
        story.copies.forget(GARDEN)
        story.copies.forget(GARDEN)  # of which nothing is known
        assert not story.copies.has_expired(GARDEN, digest())

    story(tell)


@pytest.mark.parametrize("trouble", ["", Reason.KUBECONFIG_COPY_NOT_ALLOWED])
def test_kubeconfig_without_copies_is_not_reported(trouble: str) -> None:
    async def disabled(story: Story) -> None:
        assert reason_of(await story.keep(earlier=trouble)) is None
        assert story.asked() == []

    async def beside(story: Story) -> None:
        assert reason_of(await story.keep(earlier=trouble, namespace="eksa-system")) is None
        assert story.asked() == []

    story(disabled, enabled=False)
    story(beside)


@pytest.mark.parametrize(
    ("owners", "content", "made", "reason"),
    [
        ([], KUBECONFIG, True, Reason.KUBECONFIG_NOT_OF_THIS_CLUSTER),
        ([MAKER | {"uid": "of another"}], KUBECONFIG, True, Reason.KUBECONFIG_NOT_OF_THIS_CLUSTER),
        (OWNED, None, True, None),
        ([], KUBECONFIG, False, None),
        (OWNED, KUBECONFIG, False, None),
    ],
    ids=["nobody's", "of another", "there is none", "there is no cluster yet", "its cluster is gone"],
)
def test_only_the_kubeconfig_of_the_cluster_is_copied(
    owners: list[Tree], content: bytes | None, made: bool, reason: str | None
) -> None:
    async def tell(story: Story) -> None:
        p = await story.keep(owners=owners, content=content, made=made)
        assert (reason_of(p), story.asked()) == (reason, [])

    story(tell)


@pytest.mark.parametrize(
    ("labels", "copied"),
    [
        (names.labels(GARDEN), True),
        (names.labels(Key("team-b", "garden")), False),
        ({CLUSTER_NAME_LABEL: "garden"}, False),
    ],
    ids=["ours", "of another namespace", "half of them"],
)
def test_labelled_kubeconfig_is_that_of_the_cluster(labels: Mapping[str, str], copied: bool) -> None:
    async def tell(story: Story) -> None:
        p = await story.keep(owners=[], labels=labels)
        assert reason_of(p) == (None if copied else Reason.KUBECONFIG_NOT_OF_THIS_CLUSTER)
        assert story.asked() == (["POST", "PATCH"] if copied else [])

    story(tell)
