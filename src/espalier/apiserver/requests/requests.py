"""Parses requests: verb, kind, namespace, name and subresource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from espalier.api.resource import Key
from espalier.apiserver.schema.registry import Registry, ServedKind
from espalier.apiserver.wire import content, failures, options
from espalier.kube.transports.wire import Request, User

_OBJECT_VERBS = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_CREATED_SUBRESOURCES = frozenset({"binding", "eviction", "token"})
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_WITHOUT_BODY = frozenset({"get", "list", "watch"})

APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A request for objects. `namespace` is empty for cluster-scoped kinds and for lists over all namespaces."""

    verb: str
    kind: ServedKind
    namespace: str
    name: str
    subresource: str
    request: Request
    user: User

    @property
    def query(self) -> Mapping[str, str]:
        """The options of the query."""
        return self.request.query

    @property
    def key(self) -> Key:
        """The key of the object."""
        return Key(self.namespace, self.name)

    @property
    def dry_run(self) -> bool:
        """True for a dry run."""
        return bool(self.query.get("dryRun"))

    @property
    def content_type(self) -> str:
        """The media type of the body, without parameters."""
        return self.request.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def user_agent(self) -> str:
        """The client's user agent, without version."""
        return self.request.headers.get("user-agent", "").partition("/")[0] or "unknown"

    @property
    def field_manager(self) -> str:
        """The field manager."""
        return self.query.get("fieldManager") or self.user_agent

    def flag(self, name: str) -> bool:
        """True if an option is on."""
        return options.flag(self.query, name)


def parse(registry: Registry, request: Request, user: User, *, watch: bool = False) -> RequestInfo:
    """Parse a request. Raises `NotFound` when nothing is served at its path, `MethodNotAllowed`, `BadRequest`."""
    parts = request.path.strip("/").split("/")
    if parts[0] == "api" and len(parts) == 2:
        raise failures.not_served()
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise failures.no_such_path()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    # In groups without built-in kinds, kube-apiserver answers a plain 404 instead of a Status.
    nowhere = failures.not_served if registry.is_built_in(group) else failures.no_such_path
    kind = registry.lookup(group, version, rest[0])
    if kind is None or len(rest) > 3 or (namespace and not kind.resource.namespaced):
        raise nowhere()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in kind.subresources:
        raise failures.not_found(kind.resource, name) if kind.custom else failures.not_served()
    verb = _verb(kind, request, name, subresource, watch)
    if kind.resource.namespaced and not namespace and (name or verb in ("create", "deletecollection")):
        raise failures.method_not_allowed() if not name and not kind.custom else nowhere()
    return RequestInfo(verb, kind, namespace, name, subresource, request, user)


def with_json_body(info: RequestInfo) -> RequestInfo:
    """The same request with its body as JSON. Raises `UnsupportedMediaType`, `BadRequest`."""
    request = info.request
    if not request.body or info.verb in _WITHOUT_BODY:
        return info
    body = content.json_of(request.body, request.headers.get("content-type", ""))
    return info if body is request.body else replace(info, request=structs.replace(request, body=body))


def _verb(kind: ServedKind, request: Request, name: str, subresource: str, watch: bool) -> str:
    if watch and request.method == "GET":
        verb: str | None = "watch"
    elif not name:
        verb = _COLLECTION_VERBS.get(request.method)
    elif subresource in _CREATED_SUBRESOURCES:
        verb = "create" if request.method == "POST" else None
    else:
        verb = _OBJECT_VERBS.get(request.method)
    served = kind.verbs if not subresource else ("create", "get", "patch", "update")
    if verb is None or verb not in served:
        if kind.custom and not name and request.method in ("PUT", "PATCH"):
            raise failures.bad_request("name must be provided")
        raise failures.method_not_allowed()
    return verb


Authorizer = Callable[["Attributes", User], bool]


@dataclass(frozen=True, slots=True)
class Attributes:
    """The verb for authorization."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


def attributes_of(info: RequestInfo) -> Attributes:
    """The verb of a request. A field selector for one name counts as a request for that object (as upstream)."""
    resource = info.kind.resource
    name = info.name or _selected_name(info.query.get("fieldSelector", ""))
    return Attributes(info.verb, resource.group, resource.plural, info.subresource, info.namespace, name)


def _selected_name(selector: str) -> str:
    for term in selector.split(","):
        field, equals, value = term.partition("=")
        if field.strip() == "metadata.name" and equals:
            return value.removeprefix("=").strip()
    return ""
