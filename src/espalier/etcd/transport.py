"""The client's transport: gRPC to real members, or calls to an etcd in this process.

As with the API server (decision 0003), whatever is above speaks to either alike: resuming watches, joining fragments
and checking snapshots run unchanged on virtual time, where there are no sockets and threads.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from google.protobuf.message import Message

from espalier.etcd.messages.services import BothStream, ServerStream, Unary

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Sent_contra = TypeVar("Sent_contra", bound=Message, contravariant=True)
Received_co = TypeVar("Received_co", bound=Message, covariant=True)


class Stream(Protocol[Sent_contra, Received_co]):
    """An open stream. Several tasks may send, one after the other, while one receives."""

    async def send(self, request: Sent_contra) -> None:
        """Send a further request. Raises `EtcdError`. When this is cancelled, the stream ends."""

    async def receive(self) -> Received_co | None:
        """The next response; None when the server ended the stream. Raises `EtcdError`.

        When this is cancelled, the stream ends.
        """

    async def close(self) -> None:
        """End the stream if it has not ended, and wait for its tasks. Idempotent."""


class Transport(Protocol):
    """Access to one etcd cluster. Errors are those of `error_of(code, text)`."""

    async def call(
        self, method: Unary[Request, Response], request: Request, *, timeout: float, repeatable: bool
    ) -> Response:
        """The response of one member, within `timeout` seconds. Raises `EtcdError`.

        A `repeatable` request (a read) is sent to another member when one fails; another one is sent at most once.
        """

    async def open(
        self, method: ServerStream[Request, Response] | BothStream[Request, Response], request: Request, timeout: float
    ) -> Stream[Request, Response]:
        """Open a stream to one member and send its first request. Raises `EtcdError`.

        When no member begins to answer within `timeout` seconds, it is `Unavailable`.
        """

    async def close(self) -> None:
        """Close all connections; idempotent. Calls in progress fail with `Unavailable`."""
