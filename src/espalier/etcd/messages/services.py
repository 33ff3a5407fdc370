"""The methods of etcd's services: called by the client, answered by a server, from one table.

Names and kinds are those of etcd's API v3 (https://etcd.io/docs/v3.6/dev-guide/api_reference_v3/).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from espalier.etcd.messages import rpc_pb2 as rpc

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
CallContext = grpc.aio.ServicerContext[Request, Response]


@dataclass(frozen=True)
class Method(Generic[Request, Response]):
    """A method by its service, its name and its messages."""

    service: str
    name: str
    request: type[Request]
    response: type[Response]

    @property
    def path(self) -> str:
        """The path of the method's HTTP/2 requests."""
        return f"/{self.service}/{self.name}"

    def _answer(self, handler: Callable[..., grpc.RpcMethodHandler[Any, Any]], behavior: Callable[..., Any]) -> Answer:
        deserializer, serializer = self.request.FromString, self.response.SerializeToString
        return Answer(self.service, self.name, handler(behavior, deserializer, serializer))


class Unary(Method[Request, Response]):
    """One request, one response."""

    def of(self, channel: grpc.aio.Channel) -> grpc.aio.UnaryUnaryMultiCallable[Request, Response]:
        """The method, to be called through a channel."""
        return channel.unary_unary(
            self.path, request_serializer=self.request.SerializeToString, response_deserializer=self.response.FromString
        )

    def answered_by(self, behavior: Callable[[Request, CallContext[Request, Response]], Awaitable[Response]]) -> Answer:
        """The method, answered by a coroutine function."""
        return self._answer(grpc.unary_unary_rpc_method_handler, behavior)


class ServerStream(Method[Request, Response]):
    """One request, a stream of responses."""

    def of(self, channel: grpc.aio.Channel) -> grpc.aio.UnaryStreamMultiCallable[Request, Response]:
        """The method, to be called through a channel."""
        return channel.unary_stream(
            self.path, request_serializer=self.request.SerializeToString, response_deserializer=self.response.FromString
        )

    def answered_by(
        self, behavior: Callable[[Request, CallContext[Request, Response]], AsyncIterator[Response]]
    ) -> Answer:
        """The method, answered by an asynchronous generator function."""
        return self._answer(grpc.unary_stream_rpc_method_handler, behavior)


class BothStream(Method[Request, Response]):
    """A stream of requests, a stream of responses."""

    def of(self, channel: grpc.aio.Channel) -> grpc.aio.StreamStreamMultiCallable[Request, Response]:
        """The method, to be called through a channel."""
        return channel.stream_stream(
            self.path, request_serializer=self.request.SerializeToString, response_deserializer=self.response.FromString
        )

    def answered_by(
        self, behavior: Callable[[AsyncIterable[Request], CallContext[Request, Response]], AsyncIterator[Response]]
    ) -> Answer:
        """The method, answered by an asynchronous generator function."""
        return self._answer(grpc.stream_stream_rpc_method_handler, behavior)


@dataclass(frozen=True)
class Answer:
    """A method and what answers it in a server."""

    service: str
    name: str
    handler: grpc.RpcMethodHandler[Any, Any]


def generic_handlers(answers: Iterable[Answer]) -> tuple[grpc.GenericRpcHandler, ...]:
    """Handlers for `grpc.aio.Server.add_generic_rpc_handlers`; other methods are answered `UNIMPLEMENTED`."""
    services: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = defaultdict(dict)
    for answer in answers:
        services[answer.service][answer.name] = answer.handler
    return tuple(grpc.method_handlers_generic_handler(name, handlers) for name, handlers in services.items())


KV = "etcdserverpb.KV"
RANGE = Unary(KV, "Range", rpc.RangeRequest, rpc.RangeResponse)
PUT = Unary(KV, "Put", rpc.PutRequest, rpc.PutResponse)
DELETE_RANGE = Unary(KV, "DeleteRange", rpc.DeleteRangeRequest, rpc.DeleteRangeResponse)
TXN = Unary(KV, "Txn", rpc.TxnRequest, rpc.TxnResponse)
COMPACT = Unary(KV, "Compact", rpc.CompactionRequest, rpc.CompactionResponse)

WATCH = BothStream("etcdserverpb.Watch", "Watch", rpc.WatchRequest, rpc.WatchResponse)

LEASE = "etcdserverpb.Lease"
LEASE_GRANT = Unary(LEASE, "LeaseGrant", rpc.LeaseGrantRequest, rpc.LeaseGrantResponse)
LEASE_REVOKE = Unary(LEASE, "LeaseRevoke", rpc.LeaseRevokeRequest, rpc.LeaseRevokeResponse)
LEASE_KEEP_ALIVE = BothStream(LEASE, "LeaseKeepAlive", rpc.LeaseKeepAliveRequest, rpc.LeaseKeepAliveResponse)
LEASE_TIME_TO_LIVE = Unary(LEASE, "LeaseTimeToLive", rpc.LeaseTimeToLiveRequest, rpc.LeaseTimeToLiveResponse)
LEASE_LEASES = Unary(LEASE, "LeaseLeases", rpc.LeaseLeasesRequest, rpc.LeaseLeasesResponse)

MAINTENANCE = "etcdserverpb.Maintenance"
ALARM = Unary(MAINTENANCE, "Alarm", rpc.AlarmRequest, rpc.AlarmResponse)
STATUS = Unary(MAINTENANCE, "Status", rpc.StatusRequest, rpc.StatusResponse)
DEFRAGMENT = Unary(MAINTENANCE, "Defragment", rpc.DefragmentRequest, rpc.DefragmentResponse)
HASH = Unary(MAINTENANCE, "Hash", rpc.HashRequest, rpc.HashResponse)
HASH_KV = Unary(MAINTENANCE, "HashKV", rpc.HashKVRequest, rpc.HashKVResponse)
SNAPSHOT = ServerStream(MAINTENANCE, "Snapshot", rpc.SnapshotRequest, rpc.SnapshotResponse)
MOVE_LEADER = Unary(MAINTENANCE, "MoveLeader", rpc.MoveLeaderRequest, rpc.MoveLeaderResponse)

CLUSTER = "etcdserverpb.Cluster"
MEMBER_LIST = Unary(CLUSTER, "MemberList", rpc.MemberListRequest, rpc.MemberListResponse)
MEMBER_ADD = Unary(CLUSTER, "MemberAdd", rpc.MemberAddRequest, rpc.MemberAddResponse)
MEMBER_REMOVE = Unary(CLUSTER, "MemberRemove", rpc.MemberRemoveRequest, rpc.MemberRemoveResponse)
MEMBER_UPDATE = Unary(CLUSTER, "MemberUpdate", rpc.MemberUpdateRequest, rpc.MemberUpdateResponse)
MEMBER_PROMOTE = Unary(CLUSTER, "MemberPromote", rpc.MemberPromoteRequest, rpc.MemberPromoteResponse)
