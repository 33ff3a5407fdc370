"""Errors of requests to an API server, one class for each that callers treat differently.

KubeError
├── Unreachable          no response arrived
├── NotKubernetes        something else answered
│   └── AnswerTooLarge   more than anybody should have to hold
└── ApiError             the server answered with a Status
    ├── BadRequest       400
    ├── Unauthorized     401
    ├── Forbidden        403
    ├── NotFound         404
    ├── AlreadyExists    409, reason AlreadyExists
    ├── Conflict         409, any other reason
    ├── Expired          410: the resource version is too old; list again
    ├── Invalid          422: a field is wrong
    ├── TooManyRequests  429
    └── ServerFailure    5xx
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from espalier.api.meta import Part, Tree
from espalier.api.trees import json_trees

LONGEST_MESSAGE, LONGEST_REASON = 10_000, 200
"""The maximum length of a server's message in an error. Conditions, which repeat it, allow 32 KiB: the API server
rejects a status with a longer one."""


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of decoding JSON from others."""


class StatusCause(Part):
    """One violation: which field, which rule, and a sentence."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Part):
    """Details of the failed request."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] = msgspec.field(default_factory=list)
    retry_after_seconds: int = 0


class Status(Part, omit_defaults=False):
    """`meta/v1 Status`, the body of every failure. Encoded completely, because clients identify it by its kind."""

    api_version: str = "v1"
    kind: str = "Status"
    metadata: Tree = msgspec.field(default_factory=dict)
    status: str = "Failure"
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class KubeError(Exception):
    """Base of all failures of this package."""


class Unreachable(KubeError):
    """No response arrived from the API server.

    `sent` tells whether the request may have reached it: a write that failed with `sent=False` was surely not applied.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class NotIssued(Exception):
    """No certificate was issued. The message says by whom not, and what to do."""


class NotKubernetes(KubeError):
    """The response is not from a Kubernetes API server (a proxy's page, another service's port)."""


class AnswerTooLarge(NotKubernetes):
    """The response, or a watch event, exceeds this client's limit. The rest of it was not read."""


class ApiError(KubeError):
    """The API server answered with a failure; `status` is its body."""

    code: ClassVar[int] = 0
    reason: ClassVar[str] = ""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message or status.reason or f"status {status.code}")
        self.status = status

    @classmethod
    def of(cls, message: str, details: StatusDetails | None = None) -> ApiError:
        """A failure of this class, for the side that answers requests."""
        return cls(Status(message=message, reason=cls.reason, code=cls.code, details=details))

    def has_cause(self, reason: str) -> bool:
        """True if the server names this reason among its causes."""
        details = self.status.details
        return details is not None and any(cause.reason == reason for cause in details.causes)


class BadRequest(ApiError):
    """400."""

    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    """401."""

    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    """403."""

    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    """404."""

    code, reason = 404, "NotFound"

    @property
    def is_of_kind(self) -> bool:
        """True if the server does not serve the kind at all, rather than lacks one object of it.

        An API server names a missing object in the details. Whatever else answers 404, it knows of no object.
        """
        details = self.status.details
        return details is None or not details.name


def of_unknown_fields(error: ApiError) -> bool:
    """True if a write was refused for fields that the server does not know, as by a definition of an earlier release.

    To a patch, it answers 422 with the whole object in the message, which may be cut before the reason.
    """
    details = error.status.details
    if isinstance(error, Invalid) and details is not None:
        return any(cause.field == "patch" for cause in details.causes)
    return isinstance(error, BadRequest) and "strict decoding error: unknown field" in error.status.message


def of_the_future(error: ApiError) -> bool:
    """True if a server has not reached a resource version: it may have been restored from a backup."""
    return error.has_cause("ResourceVersionTooLarge") or ("Too large resource version" in error.status.message)


class AlreadyExists(ApiError):
    """409: an object of this name exists."""

    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """409: somebody else changed the object, or owns the field."""

    code, reason = 409, "Conflict"


class Expired(ApiError):
    """410: the resource version is too old; list again."""

    code, reason = 410, "Expired"


class Invalid(ApiError):
    """422: a field is wrong; `status.details.causes` names each."""

    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    """429: come again later."""

    code, reason = 429, "TooManyRequests"


class ServerFailure(ApiError):
    """5xx."""

    code, reason = 500, "InternalError"


_BY_CODE: dict[int, type[ApiError]] = {
    error.code: error
    for error in (BadRequest, Unauthorized, Forbidden, NotFound, Conflict, Expired, Invalid, TooManyRequests)
}


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def error_of(code: int, body: bytes) -> ApiError:
    """The typed error for a failed response; a body that is no Status becomes the message."""
    try:
        status = json_trees.decode(body, Status)
    except msgspec.MsgspecError:
        status = Status(message=body[:4000].decode("utf-8", "replace")[:1000])
    status.code = code
    status.message = _cut(status.message, LONGEST_MESSAGE)
    status.reason = _cut(status.reason, LONGEST_REASON)
    if code == AlreadyExists.code and status.reason == AlreadyExists.reason:
        return AlreadyExists(status)
    return _BY_CODE.get(code, ServerFailure if code >= 500 else ApiError)(status)
