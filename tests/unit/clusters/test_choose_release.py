"""The release that a Cluster gets which names none: once, and never over what somebody names meanwhile."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.copies import Copies
from espalier.clusters.passing import Pass, Tools
from espalier.clusters.resting import Rests
from espalier.clusters.steps import Step, choose_release, take_release
from espalier.clusters.validity import problem
from espalier.clusters.writing import Writer
from espalier.kube.client import Client
from espalier.kube.wire import Request, Response, Stream
from espalier.runtime.clock import SystemClock
from espalier.runtime.errands import Errands
from espalier.runtime.events import Recorder
from espalier.runtime.outcome import Continue, Outcome, Wait
from espalier.runtime.remote import RemoteClients
from tests.unit.clusters.made import objects
from tests.unit.clusters.seen import GARDEN, example, observer


class Server:
    """Agrees to every write, and keeps those of Clusters."""

    def __init__(self) -> None:
        self.written: list[Tree] = []

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH":
            self.written.append(json.loads(request.body))
        return Response(200, request.body)

    async def stream(self, request: Request) -> Stream | Response:
        raise AssertionError(request.path)

    async def close(self) -> None: ...


def chosen(*trees: Tree, key: Key = GARDEN) -> tuple[Outcome, list[Tree], Pass]:
    """How the step ends among these objects, what it writes, and its pass."""

    async def step() -> tuple[Outcome, list[Tree], Pass]:
        server, seen = Server(), observer(*trees)
        client, scope = Client(server), seen.scope(key)
        assert scope is not None
        remotes = RemoteClients(lambda _: client)
        recorder = Recorder(client, component="test", clock=SystemClock(), entropy=random.Random(1))
        writer = Writer(client, {}, seen.reports)
        tools = Tools(seen, writer, remotes, recorder, SystemClock(), Errands(remotes), Rests(), Copies())
        p = Pass(tools, scope)
        return await Step(choose_release, take_release)(p), server.written, p

    return asyncio.run(step())


def without_release(**spec: Any) -> list[Tree]:
    trees = example(**spec)
    del trees[0]["spec"]["eksaVersion"]
    return trees


def test_a_new_cluster_gets_that_of_its_management_cluster_unless_somebody_was_faster() -> None:
    trees = without_release()
    outcome, written, _ = chosen(*trees)
    assert isinstance(outcome, Wait)
    assert outcome.reason == "ReleaseChosen"
    (patch,) = written
    assert patch["spec"] == {"eksaVersion": "v0.26.0"}
    seen = trees[0]["metadata"]
    assert patch["metadata"] == {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}


def test_a_cluster_that_has_machines_never_gets_one() -> None:
    """Somebody took its release away: which one it had is not known here, and another would roll its machines."""
    outcome, written, p = chosen(*without_release(), *objects())
    assert outcome == Continue()
    assert written == []
    found = problem(p.scope)
    assert found is not None
    assert found.reason == "EksaVersionInvalid"
    assert "name the release" in found.message
