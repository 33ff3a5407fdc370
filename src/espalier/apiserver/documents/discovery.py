"""Discovery: served kinds, version and health.

Legacy discovery has one document per group and version; aggregated discovery (apidiscovery.k8s.io) has all in one and
is preferred by kubectl and client-go. Both are generated from the registry and cached until it changes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from espalier.api.meta import Tree
from espalier.api.text.versions import parsed
from espalier.apiserver.schema.registry import Registry, ServedKind
from espalier.apiserver.wire.content import JSON, NOT_FOUND
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import Request, Response

AGGREGATED_VERSIONS = ("v2", "v2beta1")
HEALTH = frozenset({"healthz", "livez", "readyz"})

_VERSION = re.compile(r"v(?P<major>\d+)(?:(?P<stage>alpha|beta)(?P<minor>\d+))?")
_STAGES = {None: 3, "beta": 2, "alpha": 1}


class Subresource(NamedTuple):
    """The verbs of a subresource, and its kind if it is not the parent's."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


_OWN = Subresource(("get", "patch", "update"))
SUBRESOURCES: Mapping[str, Subresource] = MappingProxyType(
    {
        "scale": Subresource(("get", "patch", "update"), "autoscaling", "v1", "Scale"),
        "token": Subresource(("create",), "authentication.k8s.io", "v1", "TokenRequest"),
        "binding": Subresource(("create",), "", "v1", "Binding"),
        "eviction": Subresource(("create",), "policy", "v1", "Eviction"),
        "finalize": Subresource(("update",)),
        "log": Subresource(("get",)),
    }
)
"""Special subresources; others (status) have their parent's kind."""


_GROUPS = (
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
)
"""Built-in groups in kube-apiserver's order, which decides to clients what a short name means: custom ones follow."""
_STORED_AS: Mapping[str, str] = MappingProxyType({"CustomResourceDefinition": "apiextensions.k8s.io/v1beta1"})
"""In kube-apiserver, by kind, where it is another version than the served one."""
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_CUSTOM_SUBRESOURCES = ("status", "scale")


def version_rank(version: str) -> tuple[int, ...]:
    """A sort key of versions, the most trusted first: v2, v1, v1beta2, v1beta1, v1alpha1, then names of other forms."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (0, *(ord(letter) for letter in version))
    return (-_STAGES[match["stage"]], -int(match["major"]), -int(match["minor"] or 0))


class Discovery:
    """Answers discovery requests from a registry. `version` is the Kubernetes version, as `v1.36.3`."""

    def __init__(self, registry: Registry, version: str) -> None:
        self._registry = registry
        self._version = version
        self._seen = -1
        self._documents: dict[str, bytes] = {}

    def respond(self, request: Request) -> Response | None:
        """The response; None for other paths. An unknown group is a plain 404."""
        path = request.path.strip("/")
        first, *rest = path.split("/")
        if first in HEALTH and len(rest) <= 1:
            return _healthy(first, rest, "verbose" in request.query)
        if path == "version":
            return self._document(path, lambda: version_document(self._version))
        if path == "":
            return self._document(path, self._paths)
        if path in ("api", "apis"):
            aggregated = aggregated_version(request.headers.get("accept", ""))
            if aggregated is not None:
                return self._aggregated(path, aggregated, request)
            if path == "apis":
                return self._document(path, self._groups)
            return Response(
                200, encode_json(self._core_versions(request.headers.get("host", ""))), {"content-type": JSON}
            )
        if (first == "api" and len(rest) == 1) or (first == "apis" and len(rest) == 2):
            return self._resources(path, "" if first == "api" else rest[0], rest[-1])
        if first == "apis" and len(rest) == 1:
            return self._group(path, rest[0])
        return None

    def _document(self, key: str, make: Callable[[], Tree]) -> Response:
        if self._seen != self._registry.changed:
            self._seen = self._registry.changed
            self._documents.clear()
        body = self._documents.get(key)
        if body is None:
            body = self._documents[key] = encode_json(make())
        return Response(200, body, {"content-type": JSON})

    def _aggregated(self, path: str, version: str, request: Request) -> Response:
        core = path == "api"
        groups = [group for group in self._by_group().values() if (group[0].resource.group == "") == core]
        response = self._document(f"{path};{version}", lambda: aggregated_document(groups, version))
        etag = f'"{hashlib.sha256(response.body).hexdigest().upper()}"'
        media = f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        headers = {"content-type": media, "etag": etag, "vary": "Accept", "cache-control": "public"}
        if request.headers.get("if-none-match") == etag:
            return Response(304, b"", headers)
        return Response(200, response.body, headers)

    def _paths(self) -> Tree:
        roots = {"/api", "/apis", "/openapi/v2", "/openapi/v3", "/version", *(f"/{path}" for path in HEALTH)}
        for kind in self._registry.kinds():
            group, version = kind.resource.group, kind.resource.version
            roots |= {f"/apis/{group}", f"/apis/{group}/{version}"} if group else {f"/api/{version}"}
        return {"paths": sorted(roots)}

    def _core_versions(self, host: str) -> Tree:
        versions = _versions(kind for kind in self._registry.kinds() if not kind.resource.group)
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}] if host else []
        return {"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": addresses}

    def _groups(self) -> Tree:
        groups = [_api_group(name, kinds) for name, kinds in self._by_group().items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, path: str, name: str) -> Response:
        kinds = self._by_group().get(name)
        if kinds is None:
            return NOT_FOUND
        return self._document(path, lambda: {"kind": "APIGroup", "apiVersion": "v1", **_api_group(name, kinds)})

    def _resources(self, path: str, group: str, version: str) -> Response | None:
        kinds = [
            kind for kind in self._registry.kinds() if (kind.resource.group, kind.resource.version) == (group, version)
        ]
        if not kinds:
            return NOT_FOUND if group else None
        return self._document(path, lambda: resource_list(kinds))

    def _by_group(self) -> dict[str, list[ServedKind]]:
        groups: dict[str, list[ServedKind]] = {}
        for kind in self._registry.kinds():
            groups.setdefault(kind.resource.group, []).append(kind)
        return dict(sorted(groups.items(), key=lambda group: _group_rank(group[0])))


def _group_rank(group: str) -> tuple[int, str]:
    return (_GROUPS.index(group), "") if group in _GROUPS else (len(_GROUPS) if group else -1, group)


def aggregated_version(accept: str) -> str | None:
    """The version of aggregated discovery that an Accept header prefers; None for the old documents."""
    for media in accept.split(","):
        kind, *parameters = (part.strip() for part in media.split(";"))
        wanted = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if kind != JSON:
            continue
        if not wanted:
            return None
        if wanted.get("as") == "APIGroupDiscoveryList" and wanted.get("g") == "apidiscovery.k8s.io":
            version = wanted.get("v")
            if version in AGGREGATED_VERSIONS:
                return version
    return None


def version_document(version: str) -> Tree:
    """The response of `/version`."""
    parsed_version = parsed(version)
    major = str(parsed_version.major) if parsed_version else ""
    minor = str(parsed_version.minor) if parsed_version else ""
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(parsed_version.minor - 1) if parsed_version else "",
        "gitVersion": version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def resource_list(kinds: Sequence[ServedKind]) -> Tree:
    """The `APIResourceList` of the kinds of one group and version."""
    resources: list[Tree] = []
    for kind in sorted(kinds, key=lambda kind: kind.resource.plural):
        resource: Tree = {
            "name": kind.resource.plural,
            "singularName": kind.singular,
            "namespaced": kind.resource.namespaced,
            "kind": kind.resource.kind,
            "verbs": _verbs(kind),
        }
        if kind.short_names:
            resource["shortNames"] = list(kind.short_names)
        if kind.categories:
            resource["categories"] = list(kind.categories)
        if "get" in kind.verbs:
            resource["storageVersionHash"] = storage_version_hash(kind)
        resources.append(resource)
        resources += [_subresource(kind, name) for name in _subresources(kind)]
    document: Tree = {"kind": "APIResourceList"}
    if kinds[0].resource.group:  # kube-apiserver leaves it out for the core
        document["apiVersion"] = "v1"
    return {**document, "groupVersion": kinds[0].resource.api_version, "resources": resources}


def storage_version_hash(kind: ServedKind) -> str:
    """A hash of the version in which a kind is stored: it changes when stored objects have to be migrated."""
    group, _, version = _STORED_AS.get(kind.resource.kind, kind.storage_version).rpartition("/")
    text = f"{group}/{version}/{kind.resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _verbs(kind: ServedKind) -> list[str]:
    return [verb for verb in _CUSTOM_VERBS if verb in kind.verbs] if kind.custom else sorted(kind.verbs)


def _subresources(kind: ServedKind) -> list[str]:
    if kind.custom:
        return [name for name in _CUSTOM_SUBRESOURCES if name in kind.subresources]
    return sorted(kind.subresources)


def aggregated_document(groups: Iterable[Sequence[ServedKind]], version: str) -> Tree:
    """The `APIGroupDiscoveryList` of groups, each given by its kinds."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": kinds[0].resource.group} if kinds[0].resource.group else {},
                "versions": [
                    {
                        "version": served_version,
                        "resources": [_aggregated_resource(kind) for kind in _of_version(kinds, served_version)],
                        "freshness": "Current",
                    }
                    for served_version in _versions(kinds)
                ],
            }
            for kinds in groups
        ],
    }


def _of_version(kinds: Iterable[ServedKind], version: str) -> list[ServedKind]:
    chosen = (kind for kind in kinds if kind.resource.version == version)
    return sorted(chosen, key=lambda kind: kind.resource.plural)


def _aggregated_resource(kind: ServedKind) -> Tree:
    resource: Tree = {
        "resource": kind.resource.plural,
        "responseKind": _response_kind(kind),
        "scope": "Namespaced" if kind.resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    if kind.subresources:
        resource["subresources"] = [
            {
                "subresource": name,
                "responseKind": _response_kind(kind, SUBRESOURCES.get(name, _OWN)),
                "verbs": list(SUBRESOURCES.get(name, _OWN).verbs),
            }
            for name in _subresources(kind)
        ]
    return resource


def _response_kind(kind: ServedKind, subresource: Subresource = _OWN) -> Tree:
    if subresource.kind and subresource.group:
        return {"group": subresource.group, "version": subresource.version, "kind": subresource.kind}
    if not kind.custom:  # kube-apiserver leaves out what is that of the document
        return {"group": "", "version": "", "kind": subresource.kind or kind.resource.kind}
    return {"group": kind.resource.group, "version": kind.resource.version, "kind": kind.resource.kind}


def _subresource(kind: ServedKind, name: str) -> Tree:
    special = SUBRESOURCES.get(name, _OWN)
    resource: Tree = {
        "name": f"{kind.resource.plural}/{name}",
        "singularName": "",
        "namespaced": kind.resource.namespaced,
        "kind": special.kind or kind.resource.kind,
        "verbs": list(special.verbs),
    }
    if special.group:
        resource |= {"group": special.group, "version": special.version}
    return resource


def _api_group(name: str, kinds: Iterable[ServedKind]) -> Tree:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in _versions(kinds)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _versions(kinds: Iterable[ServedKind]) -> list[str]:
    return sorted({kind.resource.version for kind in kinds}, key=version_rank)


def _healthy(probe: str, checks: Sequence[str], verbose: bool) -> Response:
    """The health response: a server that responds is healthy. The only check is `ping`."""
    if checks and checks[0] != "ping":
        return NOT_FOUND
    body = f"[+]ping ok\n{probe} check passed\n" if verbose else "ok"
    return Response(200, body.encode(), {"content-type": "text/plain; charset=utf-8"})
