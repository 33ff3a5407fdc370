"""Refusals of etcd, with its codes and texts (`api/v3rpc/rpctypes/error.go` of its sources)."""

from __future__ import annotations

from enum import Enum

from espalier.etcd.errors import Code, EtcdError, error_of


class Refusal(Enum):
    """A reason to refuse a request: its gRPC code and its message."""

    NO_KEY = (Code.INVALID_ARGUMENT, "etcdserver: key is not provided")
    KEY_NOT_FOUND = (Code.INVALID_ARGUMENT, "etcdserver: key not found")
    VALUE_PROVIDED = (Code.INVALID_ARGUMENT, "etcdserver: value is provided")
    LEASE_PROVIDED = (Code.INVALID_ARGUMENT, "etcdserver: lease is provided")
    TOO_MANY_OPERATIONS = (Code.INVALID_ARGUMENT, "etcdserver: too many operations in txn request")
    DUPLICATE_KEY = (Code.INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request")
    INVALID_SORT = (Code.INVALID_ARGUMENT, "etcdserver: invalid sort option")
    TOO_LARGE = (Code.INVALID_ARGUMENT, "etcdserver: request is too large")
    COMPACTED = (Code.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
    FUTURE_REVISION = (Code.OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")
    NO_SPACE = (Code.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")
    LEASE_NOT_FOUND = (Code.NOT_FOUND, "etcdserver: requested lease not found")
    LEASE_EXISTS = (Code.FAILED_PRECONDITION, "etcdserver: lease already exists")
    TTL_TOO_LARGE = (Code.OUT_OF_RANGE, "etcdserver: too large lease TTL")
    BAD_TRANSFEREE = (Code.FAILED_PRECONDITION, "etcdserver: bad leader transferee")
    STOPPED = (Code.UNAVAILABLE, "etcdserver: server stopped")

    def error(self) -> EtcdError:
        """The error for a client."""
        code, text = self.value
        return error_of(code, text)
