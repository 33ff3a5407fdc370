"""Requests to a garden's API server from a client that does not know whether it is Gardener's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.meta import Tree
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, ServerFailure
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import Request, Response, Stream
from espalier.shoots.gardener_api.transport import GROUP_VERSION, GardenTransport

OURS: Tree = {
    "apiVersion": "core.gardener.cloud/v1alpha1",
    "kind": "ShootState",
    "metadata": {"name": "apple", "namespace": "garden-dev"},
    "gardenlet": {"secrets": [{"name": "ca", "data": {"ca.crt": "Y2E="}}]},
    "extensions": [{"kind": "Worker", "name": "apple", "state": {"a": 1}, "epoch": 1}],
}
PATH = "/namespaces/garden-dev/shootstates/apple"
MERGE = PatchType.MERGE


@dataclass
class Server:
    """Answers with what was sent last, and remembers requests other than the question whose API server it is."""

    is_gardener: bool = True
    asked: int = 0
    status: int = 200
    sent: list[tuple[str, str, Any]] = field(default_factory=list)
    stored: bytes = b""

    async def request(self, request: Request) -> Response:
        if request.path == GROUP_VERSION:
            self.asked += 1
            names = ["shoots", "shoots/status", *(["shoots/binding"] if self.is_gardener else [])]
            return Response(self.status, json.dumps({"resources": [{"name": name} for name in names]}).encode())
        self.sent.append((request.method, request.path, json.loads(request.body) if request.body else None))
        if request.method in ("PUT", "POST"):
            self.stored = request.body
        listed = b'{"kind":"ShootStateList","metadata":{},"items":[%s]}' % self.stored
        return Response(200, listed if request.path.endswith("s") else self.stored)

    async def stream(self, request: Request) -> Stream | Response:
        self.sent.append(("WATCH", request.path, None))
        return Events([b'{"type":"ADDED","object":%s}' % self.stored])

    async def close(self) -> None:
        return


@dataclass
class Events:
    events: list[bytes]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self.events:
            yield event

    async def close(self) -> None:
        return


def client_of(server: Server) -> Client:
    return Client(GardenTransport(server), retry=Retry(attempts=1))


async def test_gardener_gets_states_in_its_form() -> None:
    server = Server()
    client = client_of(server)
    written = await client.replace(ShootState.resource, OURS)
    assert server.sent[0][:2] == ("PUT", f"{GROUP_VERSION}{PATH}")
    assert set(server.sent[0][2]) == {"apiVersion", "kind", "metadata", "spec"}
    read = await client.get(ShootState.resource, "apple", "garden-dev")
    (listed,) = (await client.list(ShootState.resource, "garden-dev")).items
    assert written.tree == read.tree == listed.tree == OURS
    assert server.asked == 1


async def test_gardeners_events_have_our_form() -> None:
    server = Server()
    await client_of(server).replace(ShootState.resource, OURS)
    request = Request("GET", f"/apis/core.gardener.cloud/v1alpha1{PATH}", {"watch": "true"})
    stream = await GardenTransport(server).stream(request)
    assert not isinstance(stream, Response)
    assert [json.loads(event) async for event in stream] == [{"type": "ADDED", "object": OURS}]
    assert server.sent[-1][1] == f"{GROUP_VERSION}{PATH}"


async def test_a_garden_of_ours_gets_states_as_they_are() -> None:
    server = Server(is_gardener=False)
    await client_of(server).replace(ShootState.resource, OURS)
    assert server.sent == [("PUT", f"/apis/core.gardener.cloud/v1alpha1{PATH}", OURS)]


SHOOT = f"{GROUP_VERSION}/namespaces/garden-dev/shoots/apple"
FORCED = {"annotations": {"shoot.gardener.cloud/force-restore": "true"}}
WEST = {"seedName": "west"}


@pytest.mark.parametrize(
    ("patch", "sent"),
    [
        ({"spec": WEST}, [("/binding", {"spec": WEST})]),
        (
            {"metadata": {"resourceVersion": "7", "uid": "u"}, "spec": WEST},
            [("/binding", {"metadata": {"resourceVersion": "7", "uid": "u"}, "spec": WEST})],
        ),
        (
            {"metadata": {"resourceVersion": "7", **FORCED}, "spec": WEST},
            [("/binding", {"spec": WEST, "metadata": {"resourceVersion": "7"}}), ("", {"metadata": FORCED})],
        ),
        (
            {"spec": {**WEST, "purpose": "testing"}},
            [("", {"spec": {"purpose": "testing"}}), ("/binding", {"spec": WEST})],
        ),
        ({"spec": {"purpose": "testing"}}, [("", {"spec": {"purpose": "testing"}})]),
        ({"metadata": FORCED}, [("", {"metadata": FORCED})]),
    ],
    ids=["seed", "version", "annotation", "field", "no-seed", "no-spec"],
)
async def test_gardener_gets_a_seed_by_binding(patch: Tree, sent: list[tuple[str, Tree]]) -> None:
    server = Server(stored=json.dumps({"kind": "Shoot", "metadata": {"name": "apple"}}).encode())
    await client_of(server).patch(Shoot.resource, "apple", "garden-dev", patch=patch, type=MERGE)
    assert server.sent == [("PATCH", f"{SHOOT}{suffix}", body) for suffix, body in sent]


async def test_a_garden_of_ours_gets_a_seed_as_a_field() -> None:
    server = Server(is_gardener=False, stored=b'{"kind":"Shoot","metadata":{"name":"apple"}}')
    await client_of(server).patch(Shoot.resource, "apple", "garden-dev", patch={"spec": WEST}, type=MERGE)
    assert server.sent == [("PATCH", SHOOT, {"spec": WEST})]


async def _write(client: Client) -> None:
    await client.replace(ShootState.resource, OURS)


async def _assign(client: Client) -> None:
    await client.patch(Shoot.resource, "apple", "garden-dev", patch={"spec": WEST}, type=MERGE)


@pytest.mark.parametrize("act", [_write, _assign])
async def test_nothing_is_sent_while_gardener_is_away(act: Callable[[Client], Any]) -> None:
    server = Server(status=503, stored=b'{"kind":"Shoot","metadata":{"name":"apple"}}')
    client = client_of(server)
    with pytest.raises(ServerFailure):
        await act(client)
    assert server.sent == []
    server.status = 200
    await act(client)
    assert [path.startswith(GROUP_VERSION) for _, path, _ in server.sent] == [True]


@dataclass
class Bound(Server):
    """Refuses to bind a Shoot to the seed that it has, as Gardener does."""

    seed: str = "west"
    uid: str = "u"

    async def request(self, request: Request) -> Response:
        answer = await super().request(request)
        if request.method == "GET" and request.path == SHOOT:
            live = {"kind": "Shoot", "metadata": {"uid": self.uid}, "spec": {"seedName": self.seed}}
            return Response(200, json.dumps(live).encode())
        return Response(403, b'{"kind":"Status"}') if request.path.endswith("/binding") else answer


async def test_a_patch_of_a_bound_shoot_may_be_repeated() -> None:
    server = Bound(stored=b'{"kind":"Shoot","metadata":{"name":"apple"}}')
    patch = {"metadata": FORCED, "spec": WEST}
    await client_of(server).patch(Shoot.resource, "apple", "garden-dev", patch=patch, type=MERGE)
    assert server.sent[-1] == ("PATCH", SHOOT, {"metadata": FORCED})


async def test_a_refused_seed_leaves_the_rest_alone() -> None:
    server = Bound(stored=b'{"kind":"Shoot","metadata":{"name":"apple"}}', seed="east")
    patch = {"metadata": FORCED, "spec": WEST}
    with pytest.raises(Forbidden):
        await client_of(server).patch(Shoot.resource, "apple", "garden-dev", patch=patch, type=MERGE)
    assert [path for method, path, _ in server.sent if method == "PATCH"] == [f"{SHOOT}/binding"]


@pytest.mark.parametrize(("uid", "is_refused"), [("u", False), ("another", True)])
async def test_a_new_shoot_of_the_name_is_not_bound(uid: str, *, is_refused: bool) -> None:
    server = Bound(stored=b'{"kind":"Shoot","metadata":{"name":"apple"}}', uid=uid)
    patch = {"metadata": {"uid": "u"}, "spec": WEST}
    with pytest.raises(Forbidden) if is_refused else nullcontext():
        await client_of(server).patch(Shoot.resource, "apple", "garden-dev", patch=patch, type=MERGE)


async def test_without_the_kinds_requests_go_as_they_are() -> None:
    """Its own answer says which kind is missing; and it is asked again, as the kinds may come."""
    server = Server(status=404)
    client = client_of(server)
    for _ in range(2):
        await client.replace(ShootState.resource, OURS)
    assert [(method, path) for method, path, _ in server.sent] == [
        ("PUT", f"/apis/core.gardener.cloud/v1alpha1{PATH}")
    ] * 2
    assert server.asked == 2
