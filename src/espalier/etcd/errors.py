"""Errors of requests to etcd, one class for each that callers treat differently.

EtcdError
├── Unavailable          no member answered in time, or the one that did has no leader
│   ├── Learner          the member that was called does not vote yet
│   └── Closed           the client, or the watch, was closed on this side
├── Compacted            the revision asked for is gone
├── FutureRevision       the revision asked for is not there yet
├── Refused              the request can't be carried out as it is
│   ├── RequestTooLarge
│   ├── LeaseNotFound
│   └── LeaseExists
├── Denied               certificate, user or role do not allow it
├── Exhausted            etcd or this client has reached a limit
│   ├── NoSpace          the database is at its quota: compact, defragment, disarm the alarm
│   └── ResponseTooLarge more than this client was told to hold: ask with a limit
├── Corrupt              etcd found its data corrupt, or a snapshot's bytes are not those of its hash
└── NotEtcd              something else answered, or another version of etcd

Codes and texts are etcd's (`api/v3rpc/rpctypes/error.go` of its sources), over gRPC's.
"""

from __future__ import annotations

import grpc

Code = grpc.StatusCode
LONGEST_MESSAGE = 2000
"""Characters of a server's message that are kept."""


class EtcdError(Exception):
    """A request to etcd failed. `message` is the server's, or says why there is no response."""

    code = Code.UNKNOWN
    """gRPC's status code of the response."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Unavailable(EtcdError):
    """No response in time, or one from a member without a leader. It may work later, or at another member."""

    code = Code.UNAVAILABLE

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent
        """False if the request certainly had no effect; otherwise a write may have been applied, or may still be."""


class Learner(Unavailable):
    """The member is a learner: it executes nothing but reads of its own data, until it is promoted. Another member
    may execute the request; its code differs between versions of etcd, its text does not."""

    code = Code.FAILED_PRECONDITION

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class Closed(Unavailable):
    """The client, or the watch, was closed on this side: retrying is useless."""


class Compacted(EtcdError):
    """The requested revision was compacted."""

    code = Code.OUT_OF_RANGE

    def __init__(self, message: str, revision: int = 0) -> None:
        super().__init__(message)
        self.revision = revision
        """The revision up to which etcd is compacted: the oldest readable one. 0: etcd did not say (it tells only
        watches)."""


class FutureRevision(EtcdError):
    """The requested revision is later than the store's."""

    code = Code.OUT_OF_RANGE


class Refused(EtcdError):
    """The request can't be executed as it is."""

    code = Code.INVALID_ARGUMENT


class RequestTooLarge(Refused):
    """The request has more bytes, or a transaction more operations, than etcd accepts."""


class LeaseNotFound(Refused):
    """The lease expired, was revoked, or never existed."""

    code = Code.NOT_FOUND


class LeaseExists(Refused):
    """A lease with this ID exists."""

    code = Code.FAILED_PRECONDITION


class Denied(EtcdError):
    """Not allowed for this certificate, user or role."""

    code = Code.PERMISSION_DENIED


class Exhausted(EtcdError):
    """A limit was reached."""

    code = Code.RESOURCE_EXHAUSTED


class NoSpace(Exhausted):
    """The database is at its quota; only reads and deletions work until it is compacted, defragmented and disarmed."""


class ResponseTooLarge(Exhausted):
    """More bytes than this client accepts. A range can be requested in parts, with a limit."""


class Corrupt(EtcdError):
    """The data are corrupt."""

    code = Code.DATA_LOSS


class NotEtcd(EtcdError):
    """The response is not of this protocol."""

    code = Code.UNIMPLEMENTED


_BY_TEXT: dict[str, type[EtcdError]] = {
    "etcdserver: mvcc: required revision has been compacted": Compacted,
    "etcdserver: mvcc: required revision is a future revision": FutureRevision,
    "etcdserver: mvcc: database space exceeded": NoSpace,
    "etcdserver: request is too large": RequestTooLarge,
    "etcdserver: too many operations in txn request": RequestTooLarge,
    "etcdserver: requested lease not found": LeaseNotFound,
    "etcdserver: lease already exists": LeaseExists,
    "etcdserver: user name is empty": Denied,
    "etcdserver: rpc not supported for learner": Learner,
}
_BY_CODE: dict[Code, type[EtcdError]] = {
    Code.UNAVAILABLE: Unavailable,
    Code.DEADLINE_EXCEEDED: Unavailable,
    Code.CANCELLED: Unavailable,
    Code.ABORTED: Unavailable,
    Code.INTERNAL: Unavailable,  # HTTP/2 was cut within a message
    Code.INVALID_ARGUMENT: Refused,
    Code.NOT_FOUND: Refused,
    Code.ALREADY_EXISTS: Refused,
    Code.FAILED_PRECONDITION: Refused,
    Code.OUT_OF_RANGE: Refused,
    Code.PERMISSION_DENIED: Denied,
    Code.UNAUTHENTICATED: Denied,
    Code.RESOURCE_EXHAUSTED: Exhausted,
    Code.DATA_LOSS: Corrupt,
    Code.UNIMPLEMENTED: NotEtcd,
}


def error_of(code: Code, message: str) -> EtcdError:
    """The error of a response. `code` stays that of the response if several belong to one class."""
    kind = _BY_TEXT.get(message) or _BY_CODE.get(code, EtcdError)
    if code is Code.RESOURCE_EXHAUSTED and kind is Exhausted and "message larger than max" in message:
        # gRPC's texts: the server's about a request (or, about a response, "trying to send"), and this side's
        is_response = "CLIENT: " in message or "trying to send" in message
        kind = ResponseTooLarge if is_response else RequestTooLarge
    error = kind(message[:LONGEST_MESSAGE])
    error.code = code
    return error
