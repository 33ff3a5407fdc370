"""OpenAPI documents: for `kubectl explain`, for apply, diff and edit, and for field validation by the server.

kubectl looks for three things: a schema that carries its kind (explain), the query parameters `fieldValidation` and
`dryRun` on the patch operation of a kind (without them it validates by itself), and the content types of a patch
(with strategic merge among them it merges by the keys in the schema).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from espalier.api.meta import Tree
from espalier.apiserver.builtin import builtin
from espalier.apiserver.schema.openapi_meta import DELETE_OPTIONS, META_SCHEMAS, OBJECT_META, STATUS
from espalier.apiserver.schema.registry import Registry, ServedKind
from espalier.apiserver.wire import swagger_protobuf
from espalier.apiserver.wire.content import JSON, NOT_FOUND
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import Request, Response

GVK = "x-kubernetes-group-version-kind"
SCHEMAS = "#/components/schemas/"
PATCH_TYPES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
STRATEGIC = "application/strategic-merge-patch+json"

_HEAD: Mapping[str, Tree] = MappingProxyType(
    {
        "apiVersion": {"type": "string", "description": "Group and version of the schema that the object follows."},
        "kind": {"type": "string", "description": "The kind of the object, in CamelCase. It can't be changed."},
        "metadata": {
            "description": "Standard metadata: name, labels, annotations, owners.",
            "allOf": [{"$ref": SCHEMAS + OBJECT_META}],
        },
    }
)


class OpenApi:
    """Handles requests below `/openapi` from a registry. `version` is the Kubernetes version, as `v1.36.3`."""

    def __init__(self, registry: Registry, version: str) -> None:
        self._registry = registry
        self._version = version
        self._seen = -1
        self._documents: dict[str, bytes] = {}

    def respond(self, request: Request) -> Response | None:
        """The answer; None when the path is not below `/openapi`."""
        path = request.path.strip("/")
        if path == "openapi/v2":
            swagger = swagger_document(self._registry.kinds(), self._version)
            if _prefers_protobuf(request.headers.get("accept", "")):
                return self._answer(swagger_protobuf.encode(swagger), request, swagger_protobuf.MEDIA_TYPE)
            return self._answer(encode_json(swagger), request)
        if path == "openapi/v3":
            return self._answer(encode_json(self._index()), request)
        if path.startswith("openapi/v3/"):
            body = self._document(path.removeprefix("openapi/v3/"))
            return NOT_FOUND if body is None else self._answer(body, request)
        return NOT_FOUND if path == "openapi" or path.startswith("openapi/") else None

    def _answer(self, body: bytes, request: Request, media_type: str = JSON) -> Response:
        etag = f'"{_hash(body)}"'
        headers = {"content-type": media_type, "etag": etag, "vary": "Accept"}
        if "hash" in request.query and request.query["hash"] == _hash(body):
            headers["cache-control"] = "public, immutable"
        if request.headers.get("if-none-match") == etag:
            return Response(304, b"", headers)
        return Response(200, body, headers)

    def _index(self) -> Tree:
        """The index of documents by group and version. The hash in a URL changes with the document."""
        paths = {}
        for path in sorted({_path_of(kind) for kind in self._registry.kinds()}):
            body = self._document(path)
            if body is not None:
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(body)}"}
        return {"paths": paths}

    def _document(self, path: str) -> bytes | None:
        if self._seen != self._registry.changed:
            self._seen = self._registry.changed
            self._documents.clear()
        body = self._documents.get(path)
        if body is None:
            kinds = [kind for kind in self._registry.kinds() if _path_of(kind) == path]
            if not kinds:
                return None
            body = _shared_body(tuple(kinds), self._version) if not any(kind.custom for kind in kinds) else None
            body = self._documents[path] = body or encode_json(document(kinds, self._version))
        return body


def _prefers_protobuf(accept: str) -> bool:
    """True if protobuf is the first form of the document of version 2 that an Accept header names."""
    named = [media.partition(";")[0].strip() for media in accept.split(",")]
    known = (swagger_protobuf.ACCEPTED, swagger_protobuf.MEDIA_TYPE, JSON, "*/*", "application/*")
    first = next((media for media in named if media in known), JSON)
    return first in (swagger_protobuf.ACCEPTED, swagger_protobuf.MEDIA_TYPE)


@lru_cache(maxsize=256)
def _shared_body(kinds: tuple[ServedKind, ...], version: str) -> bytes:
    """The document of built-in kinds, which are the same objects for all servers of a process."""
    return encode_json(document(kinds, version))


def document(kinds: Sequence[ServedKind], version: str) -> Tree:
    """The OpenAPI 3.0 document of kinds."""
    paths: Tree = {}
    for kind in kinds:
        paths |= _paths(kind)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "components": {"schemas": schemas_of(kinds)},
    }


def schemas_of(kinds: Iterable[ServedKind]) -> dict[str, Tree]:
    """The schemas of kinds by name, and all that they refer to."""
    schemas: dict[str, Tree] = dict(META_SCHEMAS)
    for kind in kinds:
        name = schema_name(kind)
        if not kind.definition:
            schemas[name] = schema_of(kind)
            continue
        missing = {name}
        while missing:
            definition = missing.pop()
            schemas[definition] = _with_references(
                builtin.definitions(kind.minor or builtin.FIRST)[definition], missing
            )
            missing -= schemas.keys()
        schemas[name] = {**schemas[name], GVK: [_gvk(kind)]}
    return schemas


def _with_references(value: Any, names: set[str]) -> Any:
    """A definition with references into the document; adds the names to `names`."""
    if isinstance(value, list):
        return [_with_references(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {name: _with_references(part, names) for name, part in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str):  # JSONSchemaProps has a field of this name
        names.add(reference)
        changed["$ref"] = SCHEMAS + reference
        if len(changed) > 1:
            # In OpenAPI 3.0, keywords beside a reference are ignored.
            changed["allOf"] = [{"$ref": changed.pop("$ref")}]
    return changed


def schema_name(kind: ServedKind) -> str:
    """The name of a kind's schema: the group's domain reversed, as in Kubernetes."""
    domain = reversed(kind.resource.group.split("."))
    return kind.definition or ".".join((*domain, kind.resource.version, kind.resource.kind))


def schema_of(kind: ServedKind) -> Tree:
    """The schema of a custom kind, with its kind written on it and the metadata every object has."""
    schema: Tree = dict(kind.schema or {"x-kubernetes-preserve-unknown-fields": True})
    return {
        **schema,
        "type": "object",
        "properties": {**schema.get("properties", {}), **_HEAD},
        GVK: [_gvk(kind)],
    }


def _gvk(kind: ServedKind) -> Tree:
    return {"group": kind.resource.group, "version": kind.resource.version, "kind": kind.resource.kind}


def _path_of(kind: ServedKind) -> str:
    return f"apis/{kind.resource.api_version}" if kind.resource.group else f"api/{kind.resource.version}"


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest().upper()


def _query(*names: str) -> list[Tree]:
    return [{"name": name, "in": "query", "schema": {"type": _TYPES.get(name, "string")}} for name in names]


_TYPES = {
    "force": "boolean",
    "watch": "boolean",
    "allowWatchBookmarks": "boolean",
    "sendInitialEvents": "boolean",
    "limit": "integer",
    "timeoutSeconds": "integer",
    "gracePeriodSeconds": "integer",
}
_LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "propagationPolicy")


def _paths(kind: ServedKind) -> Tree:
    resource = kind.resource
    collection = resource.path("{namespace}" if resource.namespaced else None)
    scope = [_in_path("namespace")] if resource.namespaced else []
    patch_types = PATCH_TYPES if kind.custom else (*PATCH_TYPES, STRATEGIC)
    paths = {
        collection: {
            **_operations(
                kind,
                ("get", "list", "list", _query(*_LIST), ()),
                ("post", "create", "create", _query(*_WRITE), (JSON,)),
                ("delete", "deletecollection", "deletecollection", _query(*_LIST, *_DELETE), (JSON,)),
            ),
            "parameters": scope,
        },
        f"{collection}/{{name}}": {
            **_operations(
                kind,
                ("get", "get", "get", [], ()),
                ("put", "update", "put", _query(*_WRITE), (JSON,)),
                ("patch", "patch", "patch", _query(*_WRITE, "force"), patch_types),
                ("delete", "delete", "delete", _query(*_DELETE), (JSON,)),
            ),
            "parameters": [_in_path("name"), *scope],
        },
    }
    if resource.namespaced:
        paths[resource.path()] = _operations(kind, ("get", "list", "list", _query(*_LIST), ()))
    return {path: item for path, item in paths.items() if item.keys() - {"parameters"}}


def _operations(kind: ServedKind, *operations: tuple[str, str, str, list[Tree], Iterable[str]]) -> Tree:
    """The operations that a kind has, of those given as (method, verb, action, parameters, content types)."""
    reference = {"$ref": SCHEMAS + schema_name(kind)}
    done: Tree = {}
    for method, verb, action, parameters, media in operations:
        if verb not in kind.verbs:
            continue
        operation: Tree = {
            "parameters": parameters,
            "responses": {
                "200": {
                    "description": "OK",
                    "content": {JSON: {"schema": {"$ref": SCHEMAS + STATUS} if method == "delete" else reference}},
                }
            },
            "x-kubernetes-action": action,
            GVK: _gvk(kind),
        }
        schema: Tree = {"post": reference, "put": reference, "delete": {"$ref": SCHEMAS + DELETE_OPTIONS}}.get(
            method, {"type": "object"}
        )
        if media:
            operation["requestBody"] = {"content": {media_type: {"schema": schema} for media_type in media}}
        done[method] = operation
    return done


def _in_path(name: str) -> Tree:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def swagger_document(kinds: Iterable[ServedKind], version: str) -> Tree:
    """The OpenAPI 2.0 document of kinds: their schemas only, for clients that validate by themselves."""
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": {},
        "definitions": {name: _swagger_schema(schema) for name, schema in schemas_of(kinds).items()},
    }


# Keywords that OpenAPI 2.0 lacks. A schema without them allows more, never less.
_NOT_IN_SWAGGER = frozenset({"nullable", "anyOf", "oneOf", "not", "x-kubernetes-validations"})


def _swagger_schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_swagger_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {}
    for name, part in value.items():
        if name == "$ref":
            changed[name] = part.replace(SCHEMAS, "#/definitions/")
        elif name == "properties":
            changed[name] = {field: _swagger_schema(schema) for field, schema in part.items()}
        elif name == "allOf":
            # A reference with a description of its own; here the reference alone.
            changed |= _swagger_schema(part[0])
        elif name not in _NOT_IN_SWAGGER:
            changed[name] = _swagger_schema(part)
    return changed
