"""Errors in kube-apiserver's words, which clients and users rely on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from espalier.api.resource import Resource
from espalier.api.text.printable import json_text
from espalier.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServerFailure,
    Status,
    StatusCause,
    StatusDetails,
)
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import User


class MethodNotAllowed(ApiError):
    """405: the resource does not support the method."""

    code, reason = 405, "MethodNotAllowed"


class Timeout(ApiError):
    """504: the server has not seen a resource version that the client has."""

    code, reason = 504, "Timeout"


class Full(ServerFailure):
    """507: the store is full."""

    code, reason = 507, "InsufficientStorage"


def _details(resource: Resource, name: str, causes: Iterable[StatusCause] = ()) -> StatusDetails:
    return StatusDetails(name=name, group=resource.group, kind=resource.plural, causes=list(causes))


def not_found(resource: Resource, name: str) -> ApiError:
    """The object does not exist."""
    return NotFound.of(f'{resource.group_resource} "{name}" not found', _details(resource, name))


class NoSuchPath(NotFound):
    """404 as plain text: nothing is served at this path."""


def no_such_path() -> ApiError:
    """Nothing is served under this path."""
    return NoSuchPath(Status(message="404 page not found", reason="NotFound", code=404))


def not_served() -> ApiError:
    """Nothing is served under this path of an existing group."""
    return NotFound(
        Status(
            message="the server could not find the requested resource",
            reason="NotFound",
            details=StatusDetails(),
            code=404,
        )
    )


def method_not_allowed() -> ApiError:
    """The path does not support this method."""
    return MethodNotAllowed.of("the server does not allow this method on the requested resource", StatusDetails())


def already_exists(resource: Resource, name: str) -> ApiError:
    """An object of this name exists."""
    return AlreadyExists.of(f'{resource.group_resource} "{name}" already exists', _details(resource, name))


def conflict(resource: Resource, name: str, sentence: str, subresource: str = "") -> ApiError:
    """A precondition of a write failed."""
    details = _details(resource, name)
    target = resource.group_resource
    if subresource:
        details.kind, target = (
            f"{resource.plural}/{subresource}",
            target.replace(resource.plural, f"{resource.plural}/{subresource}", 1),
        )
    return Conflict.of(f'Operation cannot be fulfilled on {target} "{name}": {sentence}', details)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(user: User, verb: str, resource: Resource, subresource: str, namespace: str, name: str) -> ApiError:
    """The user may not do this."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    target = f'{resource.group_resource.replace(resource.plural, plural, 1)} "{name}"' if name else None
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    sentence = f'User "{user.name}" cannot {verb} resource "{plural}" in API group "{resource.group}" {scope}'
    subject = target or resource.group_resource.replace(resource.plural, plural, 1)
    return Forbidden.of(f"{subject} is forbidden: {sentence}", _details(resource, name))


def refused(resource: Resource, name: str, sentence: str, causes: Iterable[StatusCause] = ()) -> ApiError:
    """Admission denied the write."""
    return Forbidden.of(
        f'{resource.group_resource} "{name}" is forbidden: {sentence}', _details(resource, name, causes)
    )


def expired(message: str = "The resourceVersion for the provided watch is too old.") -> ApiError:
    """The requested revision is compacted."""
    return Expired.of(message)


def too_large(revision: int, current: int) -> ApiError:
    """The requested revision is newer than this server's."""
    cause = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
    return Timeout.of(
        f"Timeout: Too large resource version: {revision}, current: {current}",
        StatusDetails(causes=[cause], retry_after_seconds=1),
    )


def rejected() -> ApiError:
    """A patch can't be applied to the object. As upstream, without the failed operation."""
    return Invalid.of("the server rejected our request due to an error in our request", StatusDetails())


def internal_error(message: str) -> ApiError:
    """500 without a specific reason, as in kube-apiserver."""
    return ServerFailure(Status(message=message, code=500))


def bad_request(message: str) -> ApiError:
    """The request is malformed."""
    return BadRequest.of(message)


def mistyped(resource: Resource, message: str) -> ApiError:
    """A field of an object has a wrong type; `message` is that of Go's decoder."""
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {message}'
    )


def invalid_object(kind: str, group: str, name: str, causes: Sequence[StatusCause]) -> ApiError:
    """Fields of an object are invalid: one cause each."""
    described = f"{kind}.{group}" if group else kind
    sentences = [f"{cause.field}: {cause.message}" for cause in causes]
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    return Invalid.of(
        f'{described} "{name}" is invalid: {text}',
        StatusDetails(name=name, group=group, kind=kind, causes=list(causes)),
    )


def cause(reason: str, field: str, message: str) -> StatusCause:
    """A cause with this message."""
    return StatusCause(reason=reason, message=message, field=field)


def shown(value: object) -> str:
    """A value in a message. Unlike those of kube-apiserver it steers no terminal, and is cut when it is long."""
    text = json_text(encode_json(value).decode())
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}… ({len(text)} characters)"


_LONGEST_SHOWN = 4096


def invalid(field: str, value: object, detail: str) -> StatusCause:
    """The value is invalid."""
    return cause("FieldValueInvalid", field, f"Invalid value: {shown(value)}: {detail}")


def required(field: str, detail: str = "") -> StatusCause:
    """A value is missing."""
    return cause("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def unsupported(field: str, value: object, allowed: Iterable[object]) -> StatusCause:
    """The value is not supported."""
    listed = ", ".join(shown(option) for option in allowed)
    return cause("FieldValueNotSupported", field, f"Unsupported value: {shown(value)}: supported values: {listed}")


def duplicate(field: str, value: object) -> StatusCause:
    """A duplicate value in a list."""
    return cause("FieldValueDuplicate", field, f"Duplicate value: {shown(value)}")


def too_long(field: str, limit: int) -> StatusCause:
    """The value is too long."""
    return cause("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def value_not_found(field: str, value: object) -> StatusCause:
    """The value names a missing object."""
    return cause("FieldValueNotFound", field, f"Not found: {shown(value)}")


def forbidden_field(field: str, detail: str) -> StatusCause:
    """The field must not be set or changed."""
    return cause("FieldValueForbidden", field, f"Forbidden: {detail}")


def immutable(field: str, value: object) -> StatusCause:
    """The field is immutable."""
    return invalid(field, value, "field is immutable")
