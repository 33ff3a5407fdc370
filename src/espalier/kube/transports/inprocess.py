"""The transport to an API server in this process: no socket, no copy, and the same at every run."""

from __future__ import annotations

import asyncio

from espalier.kube.errors import ApiError, Unreachable
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import ADMIN, Endpoint, Request, Response, Stream, User


class InProcessTransport:
    """Carries requests of one user to an `Endpoint`.

    A request that was sent runs to its end, whatever becomes of its sender: as over a network, a caller that is
    cancelled or runs into its timeout does not know whether the request was applied.
    """

    def __init__(self, endpoint: Endpoint, user: User = ADMIN) -> None:
        self._endpoint = endpoint
        self._user = user
        self._running: set[asyncio.Task[Response]] = set()
        self._closed = False

    async def request(self, request: Request) -> Response:
        """Send one request. Raises `Unreachable` after `request.timeout` seconds, and after `close`."""
        self._check_open()
        request.before_send()
        task = asyncio.ensure_future(self._endpoint.serve(request, self._user))
        self._running.add(task)
        task.add_done_callback(self._ended)
        done, _ = await asyncio.wait((task,), timeout=request.timeout)
        if not done:
            raise Unreachable(f"the API server of this process did not answer within {request.timeout:g} seconds")
        try:
            return task.result()
        except ApiError as error:
            return failure(error)

    def _ended(self, task: asyncio.Task[Response]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may wait for it any more

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        self._check_open()
        request.before_send()
        try:
            return await self._endpoint.watch(request, self._user)
        except ApiError as error:
            return failure(error)

    async def close(self) -> None:
        """Refuse further requests and wait for those that run."""
        self._closed = True
        if self._running:
            await asyncio.wait(self._running)

    def _check_open(self) -> None:
        if self._closed:
            raise Unreachable("the connection to the API server of this process is closed", sent=False)


def failure(error: ApiError) -> Response:
    """The response of a remote API server, so that clients treat both alike."""
    return Response(error.status.code, encode_json(error.status))
