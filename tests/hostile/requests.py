"""Requests as somebody might send them to the embedded API server, who may do anything there."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from functools import cache
from typing import Any

from hypothesis import strategies as st

from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import ADMIN, Request

MEANT = (
    "resourceVersion should not be set",
    "failed to create typed patch object",
    "the patch of admission webhook",
    "strconv.ParseUint: parsing",
    "unknown patch type",
)
"""Failures that have code 500 in kube-apiserver too."""

GROUPS = {
    "api/v1": ("configmaps", "pods", "namespaces", "secrets", "nodes", "events", "services", "serviceaccounts"),
    "apis/apps/v1": ("deployments", "daemonsets", "replicasets"),
    "apis/rbac.authorization.k8s.io/v1": ("roles", "clusterroles", "rolebindings", "clusterrolebindings"),
    "apis/apiextensions.k8s.io/v1": ("customresourcedefinitions",),
    "apis/admissionregistration.k8s.io/v1": ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
    "apis/authorization.k8s.io/v1": ("selfsubjectaccessreviews", "subjectaccessreviews", "selfsubjectrulesreviews"),
    "apis/coordination.k8s.io/v1": ("leases",),
    "apis/policy/v1": ("poddisruptionbudgets",),
}
CLUSTER_WIDE = frozenset(
    {"namespaces", "nodes", "clusterroles", "clusterrolebindings", "customresourcedefinitions"}
    | {"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}
    | {"selfsubjectaccessreviews", "subjectaccessreviews", "selfsubjectrulesreviews"}
)
SUBRESOURCES = (*[""] * 12, "/status", "/scale", "/binding", "/eviction", "/log", "/finalize", "/token")
CONTENT = (
    "application/json",
    "application/apply-patch+yaml",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
)
QUERY = {
    "fieldManager": ("me", ""),
    "force": ("true",),
    "dryRun": ("All", "x"),
    "limit": ("1", "0", "-1", "9" * 30, "²"),
    "continue": ("", "abc", "e30"),
    "resourceVersion": ("0", "1", "9" * 30, "x", "²"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "labelSelector": ("a in (b)", "a>5", "a>²", "!a", "(", "a>" + "9" * 5000),
    "fieldSelector": ("metadata.name=a", "spec.nodeName=a", "x=y", "=", "metadata.name!=a"),
    "fieldValidation": ("Strict", "Ignore", "x"),
    "propagationPolicy": ("Orphan", "Foreground", "x"),
    "gracePeriodSeconds": ("0", "-1", "²", "9" * 30, "x"),
    "pretty": ("true",),
    "tailLines": ("1", "x", "-1"),
}
names = st.sampled_from([*["a"] * 12, "b", "default", "kube-system", "a.b", "A_", "%00", "things.example.com"])
word = st.sampled_from(
    [
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "uid",
        "resourceVersion",
        "managedFields",
        "generateName",
        "creationTimestamp",
        "deletionTimestamp",
        "spec",
        "status",
        "data",
        "stringData",
        "rules",
        "verbs",
        "apiGroups",
        "resources",
        "roleRef",
        "subjects",
        "aggregationRule",
        "template",
        "containers",
        "image",
        "replicas",
        "selector",
        "matchLabels",
        "webhooks",
        "clientConfig",
        "url",
        "group",
        "names",
        "plural",
        "scope",
        "versions",
        "schema",
        "openAPIV3Schema",
        "properties",
        "type",
        "items",
        "additionalProperties",
        "default",
        "additionalPrinterColumns",
        "jsonPath",
        "resourceAttributes",
        "nonResourceAttributes",
        "verb",
        "user",
        "groups",
        "target",
        "preconditions",
        "deleteOptions",
        "x-kubernetes-validations",
        "rule",
        "subresources",
        "selectableFields",
    ]
)
scalar = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", "a", "b", "default", "*", "v1", "object", "\x1b[31m", "é\u2028", "2026-01-01T00:00:00Z", "1e9", "self"]
    ),
)
value = st.recursive(
    scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(word, inner, max_size=4), max_leaves=12
)


def _kinds(draw: Any) -> tuple[str, str, dict[str, Any]]:
    prefix = draw(st.sampled_from(sorted(GROUPS)))
    plural = draw(st.sampled_from(GROUPS[prefix]))
    return prefix, plural, SOUND.get(plural, {})


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
SELECTING = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
SOUND: dict[str, dict[str, Any]] = {
    "configmaps": {"data": {"a": "b"}},
    "pods": {"spec": {"containers": [{"name": "a", "image": "b"}]}},
    "deployments": {
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": TEMPLATE,
        }
    },
    "daemonsets": SELECTING,
    "replicasets": SELECTING,
    "roles": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "rolebindings": {"roleRef": {"kind": "Role", "name": "a"}, "subjects": [{"kind": "User", "name": "a"}]},
    "subjectaccessreviews": {"spec": {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods"}}},
    "selfsubjectaccessreviews": {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    "customresourcedefinitions": {
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
                }
            ],
        }
    },
}


def _changed(draw: Any, tree: Any) -> Any:
    """A sound body, in which some places are something else."""
    if isinstance(tree, dict) and tree and draw(st.integers(0, 3)):
        chosen = draw(st.sampled_from(sorted(tree)))
        return {**tree, chosen: _changed(draw, tree[chosen])}
    if isinstance(tree, list) and tree and draw(st.integers(0, 3)):
        return [_changed(draw, tree[0]), *tree[1:]]
    if isinstance(tree, dict) and draw(st.booleans()):
        return {**tree, **draw(st.dictionaries(word, value, max_size=2))}
    return draw(value)


@st.composite
def request(draw: Any) -> tuple[Request, Request]:
    """A request, and the one that makes what it is about; half of the bodies are nearly right."""
    prefix, plural, sound = _kinds(draw)
    namespace = "" if plural in CLUSTER_WIDE else "namespaces/default/"
    if draw(st.integers(0, 15)) == 7:
        namespace = draw(st.sampled_from(["", "namespaces/default/", "namespaces/nowhere/"]))
    method = draw(st.sampled_from(["PATCH", "POST", "PUT", "GET", "PATCH", "POST", "PATCH", "DELETE", "HEAD"]))
    name = NAMES.get(plural, "a") if draw(st.booleans()) else draw(names)
    at_one = method != "POST" or not draw(st.integers(0, 7))
    path = f"/{prefix}/{namespace}{plural}{f'/{name}' if at_one else ''}"
    path += draw(st.sampled_from(SUBRESOURCES)) if at_one else ""
    query = {
        key: draw(st.sampled_from(QUERY[key])) for key in draw(st.lists(st.sampled_from(sorted(QUERY)), max_size=3))
    }
    media = draw(st.sampled_from(CONTENT))
    body = {"metadata": {"name": name}, **sound}
    if media == "application/json-patch+json":
        step = st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "remove", "replace", "copy", "move", "test"])},
            optional={
                "path": st.lists(word, max_size=3).map(lambda steps: "".join(f"/{step}" for step in steps)),
                "from": st.sampled_from(["/metadata", "/spec", "", "/x"]),
                "value": value,
            },
        )
        tree = draw(st.lists(step, max_size=4) | value)
    else:
        tree = _changed(draw, body) if draw(st.integers(0, 4)) else draw(value)
    headers = {"content-type": media, "user-agent": "fuzz", "accept": draw(st.sampled_from(ACCEPT))}
    return _creation(prefix, plural), Request(method, path, query, headers, encode_json(tree))


NAMES = {"customresourcedefinitions": "things.example.com"}
ACCEPT = (
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
)


@cache
def _served() -> tuple[asyncio.AbstractEventLoop, Server]:
    loop = asyncio.new_event_loop()
    server = Server(MemoryStore(), now=lambda: datetime(2026, 1, 1, tzinfo=UTC), random=random.Random(1))
    loop.run_until_complete(server.start())
    return loop, server


def _creation(prefix: str, plural: str) -> Request:
    """A request that makes the object that most requests are about."""
    namespace = "" if plural in CLUSTER_WIDE else "namespaces/default/"
    body = encode_json({"metadata": {"name": NAMES.get(plural, "a")}, **SOUND.get(plural, {})})
    return Request("POST", f"/{prefix}/{namespace}{plural}", {}, {"content-type": CONTENT[0]}, body)


def ask(given: tuple[Request, Request]) -> None:
    """Any answer will do, but that the server failed."""
    creation, asked = given
    loop, server = _served()
    loop.run_until_complete(server.serve(creation, ADMIN))
    if asked.method == "DELETE" and asked.path.startswith("/api/v1/namespaces/default") and asked.path.count("/") < 6:
        return  # it would take all others along
    answer = loop.run_until_complete(server.serve(asked, ADMIN))
    if answer.status == 500:
        assert any(sentence in answer.body.decode() for sentence in MEANT), answer.body.decode()
    for name, text in answer.headers.items():
        assert text.isprintable(), (name, text)
