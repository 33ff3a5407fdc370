"""Requests and responses of the Kubernetes API as values, and the two interfaces that exchange them.

A `Transport` is what a client speaks through. An `Endpoint` is what an API server offers to a transport in the same
process. HTTP is one shell around each: nothing above this file knows whether a socket was involved.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol, runtime_checkable

import msgspec


class User(msgspec.Struct, frozen=True):
    """The authenticated user of a request."""

    name: str
    groups: tuple[str, ...] = ()


ADMIN = User("system:admin", ("system:masters", "system:authenticated"))


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, section 9.2.1)."""


def _send() -> None:
    """Does nothing: the request is sent."""


class Request(msgspec.Struct, frozen=True):
    """One API request. `path` has no query; header names are lower case; `timeout` in seconds, None for no limit.

    Transports call `before_send` each time just before they send it, when there is nothing left to wait for, on
    whichever thread they send from. An exception that it raises ends the request, unsent.
    """

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    timeout: float | None = 30.0
    before_send: Callable[[], None] = _send


class Response(msgspec.Struct, frozen=True):
    """One API response; header names are lower case. Any status: the client decides what it means."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class Stream(Protocol):
    """A running watch: one undecoded JSON document (a watch event) per item, until the server or `close` ends it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def close(self) -> None:
        """Stop the watch; idempotent."""


class Transport(Protocol):
    """Carries requests to one API server.

    Raises `espalier.kube.errors.Unreachable` when no response arrived (connection refused, TLS, timeout).
    """

    async def request(self, request: Request) -> Response:
        """Send one request and read the whole response."""

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch; a `Response` when the server refused it."""

    async def close(self) -> None:
        """Close connections; idempotent."""


@runtime_checkable
class Endpoint(Protocol):
    """An API server in this process, or a way to reach one."""

    async def serve(self, request: Request, user: User) -> Response:
        """Handle a request that is not a watch; returns when its effects are durable."""

    async def watch(self, request: Request, user: User) -> Stream | Response:
        """Start a watch; a `Response` when it is refused."""


def in_url(host: str) -> str:
    """A host in the format of URLs: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host
