"""An endpoint that answers as told and remembers what it was asked."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import msgspec

from espalier.kube.client import Client
from espalier.kube.errors import ApiError
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import Endpoint, Request, Response, Stream, User

AT_ONCE = Retry(attempts=3, first=0.0)


def json_response(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, msgspec.json.encode(body), headers or {})


def failure(error: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    return json_response(error.status, error.status.code, headers)


class Documents:
    """A stream of prepared documents."""

    def __init__(self, documents: Iterable[bytes]) -> None:
        self._documents = list(documents)
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for document in self._documents:
            yield document

    async def close(self) -> None:
        self.closed = True


class Script:
    """Answers requests in order with what it was given; a callable is asked with the request."""

    def __init__(self, *answers: Response | Callable[[Request], Response] | Documents | Exception) -> None:
        self._answers = deque(answers)
        self.requests: list[Request] = []
        self.users: list[User] = []

    def _next(self, request: Request, user: User) -> Response | Documents:
        self.requests.append(request)
        self.users.append(user)
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    async def serve(self, request: Request, user: User) -> Response:
        answer = self._next(request, user)
        assert isinstance(answer, Response)
        return answer

    async def watch(self, request: Request, user: User) -> Stream | Response:
        return self._next(request, user)

    @property
    def exhausted(self) -> bool:
        return not self._answers


def client_of(script: Endpoint, **options: object) -> Client:
    return Client(InProcessTransport(script), retry=AT_ONCE, **options)  # type: ignore[arg-type]
