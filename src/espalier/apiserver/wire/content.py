"""Content negotiation: responses are JSON; YAML and protobuf bodies are converted to JSON on arrival.

Messages that clients read are those of kube-apiserver: kubectl prefers protobuf, accepts JSON where its Accept header
lists it, and repeats the request after a 406.
"""

from __future__ import annotations

import msgspec

from espalier.api.meta import Tree
from espalier.api.text.violations import ManifestError
from espalier.api.trees import json_trees, yaml_text
from espalier.api.trees.yaml_trees import trees
from espalier.apiserver.wire import protobuf
from espalier.apiserver.wire.failures import NoSuchPath
from espalier.kube.errors import ApiError, BadRequest, Status
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import Response

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
"""curl's default content type."""

YAML_TYPES = frozenset({"application/yaml", "application/apply-patch+yaml"})
JSON_TYPES = frozenset(
    {
        JSON,
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        FORM,
    }
)
YAML = "application/yaml"
_OFFERED = frozenset({JSON, YAML, "application/*", "*/*"})


class NotAcceptable(ApiError):
    """406: the client does not accept JSON."""

    code, reason = 406, "NotAcceptable"


class TooLarge(ApiError):
    """413: the body is too large."""

    code, reason = 413, "RequestEntityTooLarge"


class TooLate(ApiError):
    """408: reading the body timed out."""

    code, reason = 408, "Timeout"


class UnsupportedMediaType(ApiError):
    """415: the content type of the body is not supported."""

    code, reason = 415, "UnsupportedMediaType"


def acceptable(accept: str, *, stream: bool = False) -> None:
    """Raise `NotAcceptable` unless an Accept header takes JSON in some form, or YAML (none at all takes anything).

    A `stream` of events has no form in YAML.
    """
    named = {media.partition(";")[0].strip() for media in accept.split(",")} & _OFFERED
    if accept and not (named - {YAML} if stream else named):
        offered = JSON if stream else f"{JSON}, {YAML}"
        raise NotAcceptable.of(f"only the following media types are accepted: {offered}")


def wants_yaml(accept: str) -> bool:
    """True if an Accept header names YAML before every other media type that is offered."""
    named = (media.partition(";")[0].strip() for media in accept.split(","))
    return next((media for media in named if media in _OFFERED), "") == YAML


def in_yaml(response: Response) -> Response:
    """A response of JSON as YAML; any other one unchanged."""
    if response.headers.get("content-type", "") != JSON:
        return response
    body = yaml_text.dump(json_trees.decode(response.body), sort_keys=True, allow_unicode=True)
    return Response(response.status, body.encode(), {**response.headers, "content-type": YAML})


READ = (JSON, "application/yaml", protobuf.MEDIA_TYPE)
"""Content types of objects, as kube-apiserver lists them."""


def check_object_type(content_type: str) -> None:
    """Raise `UnsupportedMediaType` for a content type that objects can't have."""
    if content_type and media_of(content_type) not in (*READ, FORM):
        raise _unknown_format()


def media_of(content_type: str) -> str:
    """The media type of a Content-Type header, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def _unknown_format() -> ApiError:
    return UnsupportedMediaType.of(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(READ)}"
    )


def json_of(body: bytes, content_type: str) -> bytes:
    """The body as JSON. Raises `UnsupportedMediaType`, or `BadRequest` when it can't be read.

    Apply patches are declared as YAML, but nearly all are JSON, which is valid YAML: these pass unchanged.
    """
    media = media_of(content_type)
    if media in YAML_TYPES:
        return _json_of_yaml(body)
    if media == protobuf.MEDIA_TYPE:
        try:
            return protobuf.json_of(body)
        except protobuf.Malformed as error:
            raise BadRequest.of(f"error decoding protobuf: {error}") from error
    if content_type and media not in JSON_TYPES:
        raise _unknown_format()
    return body


def _json_of_yaml(body: bytes) -> bytes:
    if body.lstrip()[:1] == b"{":
        try:
            json_trees.decode(body, msgspec.Raw)
        except json_trees.TooDeep as error:
            raise BadRequest.of(f"error decoding YAML: {error}") from error
        except msgspec.DecodeError:
            pass  # a flow mapping of YAML
        else:
            return body
    try:
        documents = trees(body, "the body of the request")
    except ManifestError as error:
        raise BadRequest.of(f"error decoding YAML: {error}") from error
    if len(documents) != 1:
        raise BadRequest.of(f"error decoding YAML: found {len(documents)} documents, expected one object")
    return encode_json(documents[0])


NOT_FOUND = Response(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON document as response."""
    return Response(status, encode_json(value), {"content-type": JSON, **(headers or {})})


def failure(error: ApiError) -> Response:
    """The response for an error: a Status, or a line of text when nothing is served at the path."""
    status = error.status
    if isinstance(error, NoSuchPath):
        return NOT_FOUND
    headers = {}
    if status.details is not None and status.details.retry_after_seconds:
        headers["retry-after"] = str(status.details.retry_after_seconds)
    return json_response(status_tree(status), status.code or 500, headers)


def status_tree(status: Status) -> Tree:
    """A Status for a response, without empty fields."""
    tree: Tree = msgspec.to_builtins(status)
    return {name: part for name, part in tree.items() if part or name == "metadata" or part == {}}
