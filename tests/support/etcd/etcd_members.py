"""A gRPC server in this process that answers as a test says, and may be ended and started again at its address."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable

import grpc
import grpc.aio

from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.messages.services import PUT, RANGE, Answer, CallContext, generic_handlers

RangeContext = CallContext[rpc.RangeRequest, rpc.RangeResponse]
PutContext = CallContext[rpc.PutRequest, rpc.PutResponse]


class Member:
    """Answers reads with its name as the value, unless `failing` names the code and text to fail with."""

    def __init__(self, address: str, name: str = "a", credentials: grpc.ServerCredentials | None = None) -> None:
        self.address = address
        self.name = name
        self.credentials = credentials
        self.failing: tuple[grpc.StatusCode, str] | None = None
        self.size = 0
        """Bytes of a value, if it is to be larger than the name."""
        self.asked: list[str] = []
        self.others: list[Answer] = []
        self._server: grpc.aio.Server | None = None

    @property
    def port(self) -> int:
        """The port that was bound, of an address with port 0."""
        return self._port

    async def start(self) -> None:
        options = (("grpc.so_reuseport", 0),)
        self._server = server = grpc.aio.server(options=options)
        answers: Iterable[Answer] = (RANGE.answered_by(self._range), PUT.answered_by(self._put), *self.others)
        server.add_generic_rpc_handlers(generic_handlers(answers))
        if self.credentials is None:
            self._port = server.add_insecure_port(self.address)
        else:
            self._port = server.add_secure_port(self.address, self.credentials)
        await server.start()

    async def stop(self) -> None:
        """End it, and cut all connections."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)

    async def _range(self, request: rpc.RangeRequest, context: RangeContext) -> rpc.RangeResponse:
        self.asked.append("Range")
        if self.failing:
            await context.abort(*self.failing)
        value = self.name.encode() + b"x" * self.size
        return rpc.RangeResponse(kvs=[rpc.KeyValue(key=request.key, value=value)], count=1)

    async def _put(self, request: rpc.PutRequest, context: PutContext) -> rpc.PutResponse:
        self.asked.append("Put")
        if self.failing:
            await context.abort(*self.failing)
        return rpc.PutResponse(header=rpc.ResponseHeader(revision=7))


@contextlib.asynccontextmanager
async def running(*members: Member) -> AsyncIterator[None]:
    """Members that run."""
    try:
        for member in members:
            await member.start()
        yield
    finally:
        for member in members:
            await member.stop()
