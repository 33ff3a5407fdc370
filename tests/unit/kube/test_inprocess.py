"""An API server in the same process is reached like one far away."""

from __future__ import annotations

import asyncio

import pytest

from espalier.kube.errors import Conflict, Expired, Unreachable, error_of
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request, Response, Stream, User
from tests.support.servers.scripted_server import Script

WRITE = Request("POST", "/api/v1/namespaces")


class Slow:
    """Applies a request only when let."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.applied = False

    async def serve(self, request: Request, user: User) -> Response:
        self.begun.set()
        await self.go.wait()
        self.applied = True
        return Response(201)

    async def watch(self, request: Request, user: User) -> Stream | Response:
        return Response(404)


async def test_requests_come_from_the_user() -> None:
    script = Script(Response(200))
    await InProcessTransport(script, User("jane")).request(WRITE)
    assert script.users == [User("jane")]


async def test_cancelled_caller_does_not_undo_what_was_sent() -> None:
    server = Slow()
    transport = InProcessTransport(server)
    caller = asyncio.create_task(transport.request(WRITE))
    await server.begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    server.go.set()
    await transport.close()
    assert server.applied


async def test_timeout_leaves_open_whether_it_was_applied() -> None:
    server = Slow()
    transport = InProcessTransport(server)
    with pytest.raises(Unreachable, match=r"within 0\.001 seconds") as caught:
        await transport.request(Request("POST", "/api", timeout=0.001))
    assert caught.value.sent
    server.go.set()
    await transport.close()
    assert server.applied


async def test_a_failure_that_is_raised_is_answered() -> None:
    script = Script(Conflict.of("stale"), Expired.of("too old"))
    transport = InProcessTransport(script)
    for send, error in ((transport.request, Conflict), (transport.stream, Expired)):
        answer = await send(WRITE)
        assert isinstance(answer, Response)
        assert type(error_of(answer.status, answer.body)) is error


async def test_nothing_is_sent_after_close() -> None:
    script = Script()
    transport = InProcessTransport(script)
    await transport.close()
    await transport.close()
    for send in (transport.request, transport.stream):
        with pytest.raises(Unreachable) as caught:
            await send(WRITE)
        assert not caught.value.sent
    assert script.requests == []
