"""Built-in kinds: their resources, and their schemas (from data/kubernetes-v1.json and what later versions change).

The data files have names, types and merge rules of fields as Kubernetes' OpenAPI documents give them, one definition a
line, without descriptions. They are generated, and compared with a real kube-apiserver, by
tests/support/servers/builtin_schemas.py; that of a later minor version has what differs from the first. Everything here
is immutable and shared by all servers of a process; schemas are read when first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec

from espalier.api import core
from espalier.api.kinds import Scale
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.version_matrix import KUBERNETES, numbers
from espalier.apiserver.builtin import builtin_rules as rules
from espalier.apiserver.schema.registry import VERBS, ServedKind
from espalier.kube.server_side_apply.structure import PRESERVE, Node, Resolve, fill

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

_PACKAGES = {
    "": "io.k8s.api.core",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}


FIRST = "1.36"
"""The minor version of Kubernetes whose definitions are complete; those of earlier ones are taken to be the same."""
_DATA = files("espalier.apiserver").joinpath("data")
LATER = tuple(
    minor
    for minor in KUBERNETES
    if numbers(minor) > numbers(FIRST) and _DATA.joinpath(f"kubernetes-v1-{minor}.json").is_file()
)
"""Later minor versions with definitions of their own, oldest first: those of the matrix that have a data file."""


_LATER_SUBRESOURCES: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"1.37": {"csinodes.storage.k8s.io": ("status",)}}
)
"""Subresources that kinds have from a minor version on."""


def schemas_of(version: str) -> str:
    """The minor version whose definitions a server of a version like `v1.37.2` has."""
    minor = numbers(version)[:2]
    return max((known for known in (FIRST, *LATER) if numbers(known) <= minor), key=numbers, default=FIRST)


@cache
def definitions(minor: str = FIRST) -> Mapping[str, Tree]:
    """All definitions by name. Shared: do not change them."""
    documents = _read("kubernetes-v1.json")
    for later in LATER:
        if numbers(later) <= numbers(minor):
            documents |= _read(f"kubernetes-v1-{later}.json")
    return documents


def _read(name: str) -> dict[str, Tree]:
    text = _DATA.joinpath(name).read_bytes()
    return msgspec.json.decode(text, type=dict[str, Tree])


def node(definition: str, minor: str = FIRST) -> Node:
    """The node of a definition."""
    return _resolver(minor)(definition)


@cache
def _resolver(minor: str) -> Resolve:
    nodes: dict[str, Node] = {}

    def resolve(name: str) -> Node:
        struct_node = nodes.get(name)
        if struct_node is None:
            # The node is registered before it is filled, because definitions may be recursive.
            struct_node = nodes[name] = Node()
            fill(struct_node, definitions(minor)[name], resolve, open_objects=True)
            struct_node.struct = name.rpartition(".")[2]
        return struct_node

    return resolve


@cache
def _known() -> frozenset[tuple[str, str]]:
    """(apiVersion, kind) of all known kinds of Kubernetes itself."""
    return frozenset((kind.resource.api_version, kind.resource.kind) for kind in KINDS)


def is_known(api_version: str, kind: str) -> bool:
    """True if there is such a built-in kind."""
    return (api_version, kind) in _known()


@cache
def schema(definition: str, minor: str = FIRST) -> Tree:
    """A definition with references resolved; recursive ones are left open."""
    return _expanded(definition, (), definitions(minor))


def _expanded(name: str, around: tuple[str, ...], known: Mapping[str, Tree]) -> Tree:
    if name in around:
        return {"type": "object", PRESERVE: True}
    expanded: Tree = _without_references(known[name], (*around, name), known)
    return expanded


def _without_references(value: Any, around: tuple[str, ...], known: Mapping[str, Tree]) -> Any:
    if isinstance(value, list):
        return [_without_references(item, around, known) for item in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        return {**_expanded(reference, around, known), **{key: part for key, part in value.items() if key != "$ref"}}
    return {key: _without_references(part, around, known) for key, part in value.items()}


@cache
def kinds(minor: str) -> tuple[ServedKind, ...]:
    """The built-in kinds as a minor version of Kubernetes defines them."""
    if minor == FIRST:
        return KINDS
    changed = []
    for kind in KINDS:
        structure = kind.make_node.args[0] if isinstance(kind.make_node, partial) else kind.definition
        make_node, make_schema = partial(node, structure, minor), partial(schema, kind.definition, minor)
        subresources = (*kind.subresources, *_later_subresources(kind.resource, minor))
        changed.append(
            replace(kind, minor=minor, make_node=make_node, make_schema=make_schema, subresources=subresources)
        )
    return tuple(changed)


def _later_subresources(resource: Resource, minor: str) -> tuple[str, ...]:
    return tuple(
        name
        for later, added in _LATER_SUBRESOURCES.items()
        if numbers(later) <= numbers(minor)
        for name in added.get(resource.group_resource, ())
    )


def definition_of(resource: Resource) -> str:
    """The name of the definition of a built-in kind."""
    package = _PACKAGES.get(resource.group) or f"io.k8s.api.{resource.group.partition('.')[0]}"
    return f"{package}.{resource.version}.{resource.kind}"


_STATUS, _SCALED = ("status",), ("scale", "status")
_REPLICAS = Scale(selector="")


def _kind(
    resource: Resource,
    *short_names: str,
    subresources: Iterable[str] = (),
    all_: bool = False,
    generation: bool = False,
    selectable: Iterable[str] = (),
    verbs: tuple[str, ...] = VERBS,
    categories: tuple[str, ...] = (),
    **more: Any,
) -> ServedKind:
    definition = definition_of(resource)
    subresources = tuple(subresources)
    return ServedKind(
        resource=resource,
        singular=resource.kind.lower(),
        list_kind=f"{resource.kind}List",
        short_names=short_names,
        categories=("all",) if all_ else categories,
        verbs=verbs,
        subresources=subresources,
        scale=_REPLICAS if "scale" in subresources else None,
        generation=generation,
        selectable={path: path for path in selectable},
        complete=rules.COMPLETE.get(resource),
        assign=rules.ASSIGN.get(resource),
        check=rules.CHECKS.get(resource),
        definition=definition,
        minor=FIRST,
        make_schema=partial(schema, definition),
        **{
            "table": resource.group_resource,
            "storage_version": resource.api_version,
            "make_node": partial(node, definition),
            **more,
        },
    )


def _resource(group: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced)


_EVENT_FIELDS = (
    *(f"involvedObject.{name}" for name in ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion")),
    "involvedObject.uid",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_EVENT_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_ASKED = ("create",)
_EXTENDING = ("api-extensions",)
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_REVIEWS = "authorization.k8s.io"
_NETWORKING, _STORAGE = "networking.k8s.io", "storage.k8s.io"

KINDS: tuple[ServedKind, ...] = (
    _kind(core.CONFIG_MAP, "cm"),
    _kind(core.ENDPOINTS, "ep"),
    _kind(core.CORE_EVENT, "ev", selectable=_EVENT_FIELDS),
    _kind(_resource("", "limitranges", "LimitRange"), "limits"),
    _kind(
        core.NAMESPACE,
        "ns",
        subresources=("finalize", "status"),
        selectable=("status.phase",),
        verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
    ),
    _kind(core.NODE, "no", subresources=_STATUS, selectable=("spec.unschedulable",)),
    _kind(_resource("", "persistentvolumeclaims", "PersistentVolumeClaim"), "pvc", subresources=_STATUS),
    _kind(_resource("", "persistentvolumes", "PersistentVolume", namespaced=False), "pv", subresources=_STATUS),
    _kind(
        core.POD,
        "po",
        subresources=("binding", "eviction", "log", "status"),
        all_=True,
        generation=True,
        selectable=_POD_FIELDS,
    ),
    _kind(_resource("", "podtemplates", "PodTemplate")),
    _kind(
        _resource("", "replicationcontrollers", "ReplicationController"),
        "rc",
        subresources=_SCALED,
        all_=True,
        generation=True,
        selectable=("status.replicas",),
    ),
    _kind(_resource("", "resourcequotas", "ResourceQuota"), "quota", subresources=_STATUS),
    _kind(core.SECRET, selectable=("type",)),
    _kind(core.SERVICE_ACCOUNT, "sa"),
    _kind(core.SERVICE, "svc", subresources=_STATUS, all_=True, selectable=("spec.clusterIP", "spec.type")),
    _kind(core.MUTATING_WEBHOOK_CONFIGURATION, categories=_EXTENDING, generation=True),
    _kind(core.VALIDATING_WEBHOOK_CONFIGURATION, categories=_EXTENDING, generation=True),
    _kind(
        core.CUSTOM_RESOURCE_DEFINITION,
        "crd",
        "crds",
        subresources=_STATUS,
        categories=_EXTENDING,
        generation=True,
    ),
    _kind(core.CONTROLLER_REVISION),
    _kind(core.DAEMON_SET, "ds", subresources=_STATUS, all_=True, generation=True),
    _kind(core.DEPLOYMENT, "deploy", subresources=_SCALED, all_=True, generation=True),
    _kind(core.REPLICA_SET, "rs", subresources=_SCALED, all_=True, generation=True, selectable=("status.replicas",)),
    _kind(core.STATEFUL_SET, "sts", subresources=_SCALED, all_=True, generation=True),
    _kind(
        _resource("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", namespaced=False), verbs=_ASKED
    ),
    _kind(core.TOKEN_REVIEW, verbs=_ASKED),
    _kind(_resource(_REVIEWS, "localsubjectaccessreviews", "LocalSubjectAccessReview"), verbs=_ASKED),
    _kind(core.SELF_SUBJECT_ACCESS_REVIEW, verbs=_ASKED),
    _kind(_resource(_REVIEWS, "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False), verbs=_ASKED),
    _kind(_resource(_REVIEWS, "subjectaccessreviews", "SubjectAccessReview", namespaced=False), verbs=_ASKED),
    _kind(_resource("batch", "cronjobs", "CronJob"), "cj", subresources=_STATUS, all_=True, generation=True),
    _kind(core.JOB, subresources=_STATUS, all_=True, generation=True, selectable=("status.successful",)),
    _kind(
        core.CERTIFICATE_SIGNING_REQUEST, "csr", subresources=("approval", "status"), selectable=("spec.signerName",)
    ),
    _kind(core.LEASE),
    _kind(core.ENDPOINT_SLICE, generation=True),
    _kind(
        core.EVENT,
        "ev",
        selectable=_EVENT_FIELDS,
        table="events",
        storage_version="v1",
        renamed=_EVENT_NAMES,
        make_node=partial(node, definition_of(core.CORE_EVENT)),
    ),
    _kind(_resource(_NETWORKING, "ingressclasses", "IngressClass", namespaced=False), generation=True),
    _kind(_resource(_NETWORKING, "ingresses", "Ingress"), "ing", subresources=_STATUS, generation=True),
    _kind(_resource(_NETWORKING, "networkpolicies", "NetworkPolicy"), "netpol", generation=True),
    _kind(_resource("node.k8s.io", "runtimeclasses", "RuntimeClass", namespaced=False)),
    _kind(core.POD_DISRUPTION_BUDGET, "pdb", subresources=_STATUS, generation=True),
    _kind(core.CLUSTER_ROLE_BINDING),
    _kind(core.CLUSTER_ROLE),
    _kind(core.ROLE_BINDING),
    _kind(core.ROLE),
    _kind(_resource("scheduling.k8s.io", "priorityclasses", "PriorityClass", namespaced=False), "pc", generation=True),
    _kind(_resource(_STORAGE, "csidrivers", "CSIDriver", namespaced=False)),
    _kind(_resource(_STORAGE, "csinodes", "CSINode", namespaced=False)),
    _kind(_resource(_STORAGE, "storageclasses", "StorageClass", namespaced=False), "sc"),
    _kind(_resource(_STORAGE, "volumeattachments", "VolumeAttachment", namespaced=False), subresources=_STATUS),
)
"""All built-in kinds. `CustomResourceDefinition`s add others."""
