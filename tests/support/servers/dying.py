"""A command that dies at one of its writes."""

from __future__ import annotations

from espalier.kube.errors import Unreachable
from espalier.kube.transports.wire import Request, Response, Transport
from tests.support.servers.faults import Interceptor


class Dying(Interceptor):
    """The command dies after so many writes, the last of which is not answered."""

    def __init__(self, after: int) -> None:
        self.is_dead = False
        self.writes = 0
        self.after = after

    async def request(self, transport: Transport, request: Request) -> Response:
        if self.is_dead:
            raise Unreachable("dead", sent=False)
        if request.method == "GET":
            return await transport.request(request)
        self.writes += 1
        self.is_dead = self.writes % self.after == 0
        response = await transport.request(request)
        if self.is_dead:
            raise Unreachable("died")
        return response
