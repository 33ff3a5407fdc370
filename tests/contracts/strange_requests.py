"""Requests that no well-behaved client makes, or only once: what an API server must have an answer for.

A table, without what the answers are: a golden file has those, to which every server is held
(`test_strange_requests.py`). `{ns}` stands for a namespace that has the objects of `WORLD`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

JSON, YAML, APPLY = "application/json", "application/yaml", "application/apply-patch+yaml"
MERGE, PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, PROTOBUF = "application/strategic-merge-patch+json", "application/vnd.kubernetes.protobuf"
GROUP = "strange.example.com"


class Ask(NamedTuple):
    """One request. A body that is no text is sent as JSON; `accept` empty sends no such header."""

    name: str
    method: str
    path: str
    body: Any = None
    type: str = JSON
    accept: str = JSON

    def sent(self, namespace: str) -> bytes | None:
        """The body as it is sent."""
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return text.replace("{ns}", namespace).encode()


def configured(data: object = None, **metadata: Any) -> dict[str, Any]:
    """A ConfigMap."""
    tree: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "strange", **metadata}}
    return tree if data is None else {**tree, "data": data}


def pod(name: str = "strange", **spec: Any) -> dict[str, Any]:
    """A Pod of one container, whose spec has other parts, too."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"automountServiceAccountToken": False, "containers": [{"name": "a", "image": "a:1"}], **spec},
    }


def container(**parts: Any) -> dict[str, Any]:
    """A Pod whose only container has these parts."""
    return pod(containers=[{"name": "a", "image": "a:1", **parts}])


def volume(**source: Any) -> dict[str, Any]:
    """A Pod with a volume of this source."""
    return pod(volumes=[{"name": "v", **source}])


def deployment(name: str = "strange", **spec: Any) -> dict[str, Any]:
    """A Deployment of pods labelled app=web."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }


def secret(type_: str | None = None, name: str = "strange", **parts: Any) -> dict[str, Any]:
    """A Secret."""
    tree = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **parts}
    return {**tree, "type": type_} if type_ else tree


def service(name: str = "strange", **spec: Any) -> dict[str, Any]:
    """A Service without an address."""
    spec = {"clusterIP": "None", "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def budget(**spec: Any) -> dict[str, Any]:
    """A PodDisruptionBudget."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "strange"},
        "spec": {"selector": {"matchLabels": {"app": "held"}}, **spec},
    }


def odd(name: str = "strange", spec: Any = None, **metadata: Any) -> dict[str, Any]:
    """An object of the CustomResourceDefinition below."""
    tree = {"apiVersion": f"{GROUP}/v1", "kind": "Oddity", "metadata": {"name": name, **metadata}}
    return {**tree, "spec": {"size": "small"} if spec is None else spec}


def definition(
    plural: str = "oddities", kind: str = "Oddity", spec: Any = None, /, name: str = "", **version: Any
) -> dict[str, Any]:
    """A CustomResourceDefinition whose `.spec` has this schema, and whose version has other parts, too."""
    spec = spec or {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "string", "enum": ["small", "large"]},
            "replicas": {"type": "integer", "minimum": 0, "default": 1},
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
            },
        },
    }
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    made = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {**paths, "labelSelectorPath": ".status.selector"}},
        **version,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name or f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [made],
        },
    }


CORE, APPS = "/api/v1/namespaces/{ns}", "/apis/apps/v1/namespaces/{ns}"
MAPS, PODS, SECRETS, SERVICES = f"{CORE}/configmaps", f"{CORE}/pods", f"{CORE}/secrets", f"{CORE}/services"
DEPLOYMENTS, ODDITIES = f"{APPS}/deployments", f"/apis/{GROUP}/v1/namespaces/{{ns}}/oddities"
BUDGETS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DRY = "?dryRun=All"


def _running(ready: str) -> dict[str, Any]:
    """What a kubelet reports."""
    return {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}


_held = {**pod("held"), "metadata": {"name": "held", "labels": {"app": "held"}}}
_held_twice = {**pod("held-twice"), "metadata": {"name": "held-twice", "labels": {"app": "held", "also": "held"}}}
_also = {**budget(selector={"matchLabels": {"also": "held"}}), "metadata": {"name": "also"}}
WORLD: tuple[Ask, ...] = (
    Ask("a ConfigMap", "POST", MAPS, configured({"a": "1", "b": "2"}, name="here", labels={"of": "world"})),
    Ask("another", "POST", MAPS, configured({"a": "1"}, name="there")),
    Ask("one that never changes", "POST", MAPS, {**configured({"a": "1"}, name="fixed"), "immutable": True}),
    Ask("a Secret", "POST", SECRETS, secret(name="here", stringData={"a": "1"})),
    Ask("a Service", "POST", SERVICES, service("here")),
    Ask("a Deployment", "POST", DEPLOYMENTS, deployment("web")),
    Ask("an Oddity", "POST", ODDITIES, odd("here")),
    Ask("a pod", "POST", PODS, pod("free")),
    Ask("a bound pod", "POST", PODS, pod("bound", nodeName="nowhere")),
    Ask("a pod with a budget", "POST", PODS, _held),
    Ask("a pod with two budgets", "POST", PODS, _held_twice),
    Ask("a third", "POST", PODS, {**pod("held-too"), "metadata": {"name": "held-too", "labels": {"app": "held"}}}),
    *(
        Ask("that it runs", "PATCH", f"{PODS}/{name}/status", _running("True"), MERGE)
        for name in ("held", "held-too", "held-twice")
    ),
    Ask("its budget", "POST", BUDGETS, budget(minAvailable=2)),
    Ask("another budget", "POST", BUDGETS, {**_also, "spec": {**_also["spec"], "minAvailable": 1}}),
    Ask(
        "a role binding",
        "POST",
        f"{ROLES}/rolebindings",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "here"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        },
    ),
)


def _get(name: str, path: str, **more: Any) -> Ask:
    return Ask(name, "GET", path, **more)


PATHS = (
    _get("a path of nobody", "/nowhere"),
    _get("a version of the core that is not there", "/api/v2"),
    _get("objects of that version", "/api/v2/configmaps"),
    _get("a kind of the core that is not there", "/api/v1/nowheres"),
    _get("such a kind in a namespace", f"{CORE}/nowheres"),
    _get("an object of such a kind", f"{CORE}/nowheres/one"),
    _get("a group that is not there", "/apis/nowhere.example.com"),
    _get("its version", "/apis/nowhere.example.com/v1"),
    _get("its kind", "/apis/nowhere.example.com/v1/nowheres"),
    _get("a version of a group that is not there", "/apis/apps/v7/deployments"),
    _get("a custom kind that is not there", f"/apis/{GROUP}/v1/nowheres"),
    _get("a custom version that is not there", f"/apis/{GROUP}/v7/oddities"),
    _get("a subresource that is not there", f"{DEPLOYMENTS}/web/nowhere"),
    _get("a subresource that this kind lacks", f"{MAPS}/here/status"),
    _get("a custom subresource that is not there", f"{ODDITIES}/here/nowhere"),
    _get("something below a subresource", f"{DEPLOYMENTS}/web/status/more"),
    _get("an object without its namespace", "/api/v1/configmaps/here"),
    _get("a custom object without its namespace", f"/apis/{GROUP}/v1/oddities/here"),
    _get("a cluster-wide kind in a namespace", f"{CORE}/nodes"),
    _get("a slash too many at the end", f"{MAPS}/"),
    _get("a slash too many before the name", f"{CORE}//configmaps"),
    _get("a name in percent", f"{MAPS}/he%72e"),
    _get("a slash in a name", f"{MAPS}/a%2Fb"),
    _get("a name that nothing can have", f"{MAPS}/UPPER_case"),
    _get("an object that is not there", f"{MAPS}/absent"),
    _get("a custom object that is not there", f"{ODDITIES}/absent"),
    _get("a scale that is not there", f"{DEPLOYMENTS}/absent/scale"),
    _get("a namespace that is not there", "/api/v1/namespaces/absent-{ns}"),
    _get("a health check that is not there", "/healthz/nowhere"),
    _get("a form of schemas that is not there", "/openapi/v4"),
    _get("schemas of a group that is not there", "/openapi/v3/apis/nowhere.example.com/v1"),
    _get("eviction, read", f"{PODS}/free/eviction"),
    _get("binding, read", f"{PODS}/free/binding"),
    Ask("a new object at an object's path", "POST", f"{MAPS}/here", configured()),
    Ask("a new object of all namespaces", "POST", "/api/v1/configmaps", configured()),
    Ask("a new custom object of all namespaces", "POST", f"/apis/{GROUP}/v1/oddities", odd()),
    Ask("a collection replaced", "PUT", MAPS, configured()),
    Ask("a collection patched", "PATCH", MAPS, {}, MERGE),
    Ask("a custom collection replaced", "PUT", ODDITIES, odd()),
    Ask("all namespaces deleted", "DELETE", "/api/v1/namespaces"),
    Ask("objects of all namespaces deleted", "DELETE", "/api/v1/configmaps"),
    Ask("a status deleted", "DELETE", f"{DEPLOYMENTS}/web/status"),
    Ask("a scale deleted", "DELETE", f"{DEPLOYMENTS}/web/scale"),
    Ask("a scale created", "POST", f"{DEPLOYMENTS}/web/scale", {}),
    Ask("a review read", "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    Ask("a method of nobody", "BREW", f"{MAPS}/here"),
    Ask("options", "OPTIONS", MAPS),
    Ask("the version, written", "POST", "/version", {}),
    Ask("a path of nobody, written", "POST", "/nowhere", {}),
    Ask("discovery, deleted", "DELETE", "/apis/apps/v1"),
)

_owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "here", "uid": "1"}
BODIES = (
    Ask("no body", "POST", MAPS),
    Ask("a body of null", "POST", MAPS, "null"),
    Ask("a list for an object", "POST", MAPS, []),
    Ask("text for an object", "POST", MAPS, '"text"'),
    Ask("a number for an object", "POST", MAPS, "5"),
    Ask("half an object", "POST", MAPS, "{"),
    Ask("an empty object", "POST", MAPS, {}),
    Ask("bytes that are no text", "POST", MAPS, b"\xff\xfe\x00"),
    Ask("text after an object", "POST", MAPS + DRY, json.dumps(configured()) + " and more"),
    Ask("another kind", "POST", MAPS, {**configured(), "kind": "Secret"}),
    Ask("a kind that is not there", "POST", MAPS, {**configured(), "kind": "Nowhere"}),
    Ask("another version", "POST", MAPS, {**configured(), "apiVersion": "apps/v1"}),
    Ask("a version that is not there", "POST", MAPS, {**configured(), "apiVersion": "nowhere.example.com/v1"}),
    Ask("a version of three parts", "POST", MAPS, {**configured(), "apiVersion": "a/b/c"}),
    Ask("a kind that is a number", "POST", MAPS, {**configured(), "kind": 5}),
    Ask("neither kind nor version", "POST", MAPS + DRY, {"metadata": {"name": "strange"}}),
    Ask("another custom kind", "POST", ODDITIES, {**odd(), "kind": "Nowhere"}),
    Ask("another custom version", "POST", ODDITIES, {**odd(), "apiVersion": f"{GROUP}/v7"}),
    Ask("a built-in kind at a custom path", "POST", ODDITIES, configured()),
    Ask("a custom object without kind", "POST", ODDITIES, {"metadata": {"name": "strange"}}),
    Ask("half a custom object", "POST", ODDITIES, "{"),
    Ask("a custom object that is a list", "POST", ODDITIES, []),
    Ask("no metadata", "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap"}),
    Ask("metadata of null", "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": None}),
    Ask("metadata that are a list", "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}),
    Ask("a name that is a number", "POST", MAPS, configured(name=5)),
    Ask("an illegal name", "POST", MAPS, configured(name="Strange_one")),
    Ask("a name that is too long", "POST", MAPS, configured(name="a" * 254)),
    Ask("a name that goes up", "POST", MAPS, configured(name="..")),
    Ask("a base of names that is illegal", "POST", MAPS, configured(name="", generateName="Strange_")),
    Ask("another namespace", "POST", MAPS, configured(namespace="default")),
    Ask(
        "a namespace that is not there, in body and path", "POST", "/api/v1/namespaces/absent/configmaps", configured()
    ),
    Ask("an illegal label", "POST", MAPS, configured(labels={"a b": "c d"})),
    Ask("a label that is a number", "POST", MAPS, configured(labels={"a": 5})),
    Ask("a prefix of a label that is illegal", "POST", MAPS, configured(labels={"/a": "b", "B_/a": "b"})),
    Ask("a label that is too long", "POST", MAPS, configured(labels={"a" * 64: "b" * 64, "b" * 254 + "/a": ""})),
    Ask("an illegal annotation", "POST", MAPS, configured(annotations={"a b": "c d"})),
    Ask("annotations that are too large", "POST", MAPS, configured(annotations={"a": "b" * 262144})),
    Ask("an owner without uid", "POST", MAPS, configured(ownerReferences=[{**_owner, "uid": ""}])),
    Ask("an owner without anything", "POST", MAPS, configured(ownerReferences=[{}])),
    Ask(
        "two controllers",
        "POST",
        MAPS,
        configured(ownerReferences=[{**_owner, "uid": u, "controller": True} for u in "12"]),
    ),
    Ask("a finalizer without a prefix", "POST", MAPS, configured(finalizers=["plain"])),
    Ask("an illegal finalizer", "POST", MAPS, configured(finalizers=["a b"])),
    Ask("a resource version", "POST", MAPS, configured(resourceVersion="1")),
    Ask("a uid of one's own", "POST", MAPS + DRY, configured(uid="mine")),
    Ask("data that are numbers", "POST", MAPS, configured({"a": 5})),
    Ask("data that are a list", "POST", MAPS, configured([])),
    Ask("an illegal key", "POST", MAPS, configured({"a/b": ""})),
    Ask("a key that is a dot", "POST", MAPS, configured({".": "", "..": "", "..a": ""})),
    Ask("an absolute path as key", "POST", MAPS, configured({"/etc/passwd": ""})),
    Ask("a key that is too long", "POST", MAPS, configured({"a" * 254: ""})),
    Ask("a key twice", "POST", MAPS, {**configured({"a": ""}), "binaryData": {"a": ""}}),
    Ask("binary data that are no base64", "POST", MAPS, {**configured(), "binaryData": {"a": "%"}}),
    Ask("a map that is too large", "POST", MAPS, configured({"a": "b" * 1048577})),
    Ask("an unknown field, strictly", "POST", f"{MAPS}?fieldValidation=Strict", {**configured(), "date": {}}),
    Ask("a field twice, strictly", "POST", f"{MAPS}?fieldValidation=Strict", '{"metadata":{"name":"a","name":"b"}}'),
    Ask("a way to validate that is not there", "POST", f"{MAPS}?fieldValidation=Maybe", configured()),
    Ask(
        "an unknown custom field, strictly",
        "POST",
        f"{ODDITIES}?fieldValidation=Strict",
        odd(spec={"size": "small", "a": 1}),
    ),
    Ask("an object that is there", "POST", MAPS, configured(name="here")),
    Ask("a custom object that is there", "POST", ODDITIES, odd("here")),
    Ask("an object that is there and illegal", "POST", MAPS, configured({"/": ""}, name="here")),
)
TYPES = (
    Ask("a type that is not there", "POST", MAPS, "a", "text/plain"),
    Ask("a media type that is none", "POST", MAPS, configured(), ";;"),
    Ask("a character set", "POST", MAPS + DRY, configured(), "application/json; charset=utf-8"),
    Ask("YAML", "POST", MAPS + DRY, "metadata: {name: strange}", YAML),
    Ask("broken YAML", "POST", MAPS, "metadata: {name: strange", YAML),
    Ask("two documents of YAML", "POST", MAPS + DRY, "metadata: {name: strange}\n---\nmetadata: {name: other}\n", YAML),
    Ask("YAML of another kind", "POST", MAPS, "apiVersion: v1\nkind: Secret\nmetadata: {name: strange}", YAML),
    Ask("protobuf that is none", "POST", MAPS, b"k8s\x00\xff\xff\xff", PROTOBUF),
    Ask("protobuf without its first bytes", "POST", MAPS, b"\x0a\x00", PROTOBUF),
    Ask("protobuf for a custom object", "POST", ODDITIES, b"k8s\x00", PROTOBUF),
    Ask("a patch as a new object", "POST", MAPS, configured(), MERGE),
    Ask("an object as a patch", "PATCH", f"{MAPS}/here", {}, JSON),
    Ask("a patch without a type", "PATCH", f"{MAPS}/here", {}, ""),
    Ask("a strategic patch of a custom object", "PATCH", f"{ODDITIES}/here", {}, STRATEGIC),
    _get("an answer as a page", f"{MAPS}/here", accept="text/html"),
    _get("an answer as an image, or as nothing", MAPS, accept="image/png, text/plain"),
    _get(
        "an answer as a form that is not there", f"{MAPS}/here", accept="application/json;as=Nothing;v=v1;g=meta.k8s.io"
    ),
    _get(
        "an answer as a list's metadata",
        f"{MAPS}/here",
        accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ),
    _get("a list as an object's metadata", MAPS, accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    _get(
        "metadata of an object", f"{MAPS}/here", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    ),
    _get("a failure as a table", f"{MAPS}/absent", accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
)
QUERIES = (
    Ask("a dry run that is not there", "POST", f"{MAPS}?dryRun=Some", configured()),
    Ask("a dry run of a deletion that is not there", "DELETE", f"{MAPS}/absent?dryRun=Some"),
    Ask("a dry run of a patch that is not there", "PATCH", f"{MAPS}/here?dryRun=Some", {}, MERGE),
    Ask("a dry run of an update that is not there", "PUT", f"{MAPS}/here?dryRun=Some", configured(name="here")),
    Ask(
        "a dry run of an apply that is not there",
        "PATCH",
        f"{MAPS}/here?dryRun=Some&fieldManager=a",
        configured(name="here"),
        APPLY,
    ),
    Ask("a dry run of a custom object that is not there", "POST", f"{ODDITIES}?dryRun=Some", odd()),
    Ask("a dry run of a collection that is not there", "DELETE", f"{MAPS}?dryRun=Some"),
    Ask("a dry run that says nothing", "POST", f"{MAPS}?dryRun=", configured({"/": ""})),
    Ask("a manager whose name is too long", "POST", f"{MAPS}?fieldManager={'a' * 129}", configured()),
    Ask("a manager whose name can't be printed", "POST", f"{MAPS}?fieldManager=a%07b", configured()),
    Ask("force, but no apply", "PATCH", f"{MAPS}/here?force=true", {}, MERGE),
    Ask(
        "force that is neither yes nor no",
        "PATCH",
        f"{MAPS}/here?force=maybe&fieldManager=a",
        configured(name="here"),
        APPLY,
    ),
    _get("a limit that is no number", f"{MAPS}?limit=many"),
    _get("a limit below zero", f"{MAPS}?limit=-1&fieldSelector=metadata.name=here"),
    _get("a place to go on that is none", f"{MAPS}?continue=nowhere"),
    _get("a place to go on that is empty", f"{MAPS}?continue=&fieldSelector=metadata.name=here"),
    _get("a place to go on, and a version", f"{MAPS}?continue=nowhere&resourceVersion=5"),
    _get("a place to go on, and version 0", f"{MAPS}?continue=nowhere&resourceVersion=0"),
    _get("a version that is none", f"{MAPS}?resourceVersion=some"),
    _get("a version below zero", f"{MAPS}?resourceVersion=-1"),
    _get("a version of the far future", f"{MAPS}?resourceVersion=18446744073709551615"),
    _get("a version too large for a number", f"{MAPS}?resourceVersion=99999999999999999999"),
    _get("a match without a version", f"{MAPS}?resourceVersionMatch=Exact"),
    _get("a match that is not there", f"{MAPS}?resourceVersion=5&resourceVersionMatch=Nearly"),
    _get("a match of version 0", f"{MAPS}?resourceVersion=0&resourceVersionMatch=Exact"),
    _get("a match, and a place to go on", f"{MAPS}?resourceVersion=5&resourceVersionMatch=Exact&continue=a"),
    _get("initial events of a list", f"{MAPS}?sendInitialEvents=true"),
    _get(
        "a match of a watch", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=1&resourceVersionMatch=NotOlderThan"
    ),
    _get("initial events without a match", f"{MAPS}?watch=true&timeoutSeconds=1&sendInitialEvents=true"),
    _get("a watch from what is no version", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=some"),
    _get("a watch that goes on", f"{MAPS}?watch=true&timeoutSeconds=1&continue=abc"),
    _get("one object of a version that is none", f"{MAPS}/here?resourceVersion=some"),
    _get("one object of the far future", f"{MAPS}/here?resourceVersion=999999999"),
    _get("a page of the far future", f"{MAPS}?resourceVersion=999999999&limit=1"),
    _get("exactly the far future", f"{MAPS}?resourceVersion=999999999&resourceVersionMatch=Exact"),
    _get("a watch from the far future", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=999999999"),
    _get(
        "a watch that lists the far future",
        f"{MAPS}?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999999&allowWatchBookmarks=true",
    ),
    _get("a custom watch from the far future", f"{ODDITIES}?watch=true&timeoutSeconds=1&resourceVersion=999999999"),
    _get("a watch from long ago", f"{ODDITIES}?watch=true&timeoutSeconds=1&resourceVersion=1"),
    _get("an illegal label selector", f"{MAPS}?labelSelector=a%20in"),
    _get("a label selector with an illegal value", f"{MAPS}?labelSelector=a%3D%2Fb"),
    _get("an illegal field selector", f"{MAPS}?fieldSelector=a"),
    _get("a field that can't be selected by", f"{MAPS}?fieldSelector=data.a%3D1"),
    _get("a custom field that can't be selected by", f"{ODDITIES}?fieldSelector=spec.size%3Dsmall"),
    Ask("a collection deleted by an illegal selector", "DELETE", f"{MAPS}?labelSelector=a%20in"),
    _get("a timeout that is no number", f"{MAPS}?timeoutSeconds=soon"),
    _get("a watch that is neither yes nor no", f"{MAPS}?watch=maybe&timeoutSeconds=1&fieldSelector=metadata.name=here"),
    Ask("a propagation that is not there", "DELETE", f"{MAPS}/here?propagationPolicy=Nearly"),
    Ask("a grace that is no number", "DELETE", f"{MAPS}/here?gracePeriodSeconds=soon"),
    Ask("a grace below zero", "DELETE", f"{MAPS}/here?gracePeriodSeconds=-5&dryRun=All"),
    Ask("orphans that are neither yes nor no", "DELETE", f"{MAPS}/here?orphanDependents=maybe&dryRun=All"),
    _get("lines of a log that are no number", f"{PODS}/bound/log?tailLines=many"),
    _get("a log of a pod that is not there", f"{PODS}/absent/log"),
)


def _patch(name: str, patch: Any, path: str = f"{MAPS}/here", type_: str = PATCH) -> Ask:
    return Ask(name, "PATCH", path, patch, type_)


def _apply(name: str, config: Any, path: str = f"{MAPS}/strange?fieldManager=a") -> Ask:
    return Ask(name, "PATCH", path, config, APPLY)


PATCHES = (
    _patch("a merge patch that is a list", [], type_=MERGE),
    _patch("half a merge patch", "{", type_=MERGE),
    _patch("a merge patch of null", "null", type_=MERGE),
    _patch("no merge patch", None, type_=MERGE),
    _patch("a JSON patch that is a map", {}),
    _patch("a step of a JSON patch that is no map", [1]),
    _patch("a step that is not there", [{"op": "turn", "path": "/a"}]),
    _patch("a step without a path", [{"op": "add", "value": 1}]),
    _patch("a step without a value", [{"op": "add", "path": "/data/c"}]),
    _patch("a path without a slash", [{"op": "add", "path": "data", "value": {}}]),
    _patch("a test that fails", [{"op": "test", "path": "/data/a", "value": "5"}]),
    _patch("a test of what is not there", [{"op": "test", "path": "/data/z", "value": "5"}]),
    _patch("what is not there removed", [{"op": "remove", "path": "/data/z"}]),
    _patch("what is not there replaced", [{"op": "replace", "path": "/data/z", "value": ""}]),
    _patch("something added to nothing", [{"op": "add", "path": "/a/b/c", "value": ""}]),
    _patch("a place in a list that is none", [{"op": "add", "path": "/metadata/finalizers/5", "value": "a"}]),
    _patch("a JSON patch that breaks the type", [{"op": "add", "path": "/data/a", "value": 5}]),
    _patch("a JSON patch that breaks the object", [{"op": "replace", "path": "", "value": []}]),
    _patch("a patch of another kind", {"kind": "Secret"}, type_=MERGE),
    _patch("a patch of another version", {"apiVersion": "apps/v1"}, type_=MERGE),
    _patch("a patch of the name", {"metadata": {"name": "other"}}, type_=MERGE),
    _patch("a patch of the namespace", {"metadata": {"namespace": "other"}}, type_=MERGE),
    _patch("a patch of the uid", {"metadata": {"uid": "other"}}, type_=MERGE),
    _patch("a patch of an old version", {"metadata": {"resourceVersion": "1"}}, type_=MERGE),
    _patch("a patch of a version that is none", {"metadata": {"resourceVersion": "some"}}, type_=MERGE),
    _patch("a patch that takes the metadata", {"metadata": None}, type_=MERGE),
    _patch("a patch of what is not there", {}, f"{MAPS}/absent", MERGE),
    _patch("a strategic patch of nowhere", {"data": {"$patch": "turn"}}, type_=STRATEGIC),
    _patch("a strategic patch that is a list", [], type_=STRATEGIC),
    _patch(
        "a strategic patch without a key",
        {"spec": {"template": {"spec": {"containers": [{"image": "b"}]}}}},
        f"{DEPLOYMENTS}/web",
        STRATEGIC,
    ),
    _patch("a custom kind patched away", {"kind": "Nowhere"}, f"{ODDITIES}/here", MERGE),
    _patch("a custom patch against the schema", {"spec": {"size": "huge"}}, f"{ODDITIES}/here", MERGE),
    _patch("a custom test that fails", [{"op": "test", "path": "/spec/size", "value": "5"}], f"{ODDITIES}/here"),
    _apply("an apply of nobody", configured(), f"{MAPS}/strange"),
    _apply("an apply without a version", {"metadata": {"name": "strange"}}),
    _apply("an apply of an empty object", {}),
    _apply("an apply of a list", "- a"),
    _apply("an apply of broken YAML", "a: {"),
    _apply("an apply without a name", {"apiVersion": "v1", "kind": "ConfigMap"}),
    _apply("an apply of another name", configured(name="other")),
    _apply("an apply of another kind", {**configured(), "kind": "Secret"}),
    _apply("an apply of another version", {**configured(), "apiVersion": "v2"}),
    _apply("an apply of another namespace", configured(namespace="default")),
    _apply("an apply of managed fields", configured(managedFields=[{}])),
    _apply("an apply of an unknown field", {**configured(), "date": {}}),
    _apply("an apply of another type", configured({"a": 5})),
    _apply("an apply of a uid", configured(uid="some")),
    _apply("an apply of a resource version", configured(resourceVersion="5")),
    _apply("an apply of the fields of somebody", configured({"a": "5"}, name="here"), f"{MAPS}/here?fieldManager=a"),
    _apply(
        "an apply of two fields of somebody",
        configured({"a": "5", "b": "5"}, name="here"),
        f"{MAPS}/here?fieldManager=a",
    ),
    _apply(
        "an apply of a key twice",
        odd(spec={"size": "small", "parts": [{"id": "a"}, {"id": "a"}]}),
        f"{ODDITIES}/strange?fieldManager=a",
    ),
    _apply("an apply without a key", odd(spec={"size": "small", "parts": [{}]}), f"{ODDITIES}/strange?fieldManager=a"),
    _apply(
        "an apply of an unknown custom field", odd(spec={"size": "small", "a": 1}), f"{ODDITIES}/strange?fieldManager=a"
    ),
    _apply("an apply of another custom type", odd(spec={"size": 5}), f"{ODDITIES}/strange?fieldManager=a"),
    _apply("an apply of a status that is not there", odd("absent"), f"{ODDITIES}/absent/status?fieldManager=a"),
)

_scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "{ns}"}}
UPDATES = (
    Ask("an update of what is not there", "PUT", f"{MAPS}/absent", configured(name="absent")),
    Ask("an update of another name", "PUT", f"{MAPS}/here", configured(name="other")),
    Ask("an update without a name", "PUT", f"{MAPS}/here", {"apiVersion": "v1", "kind": "ConfigMap"}),
    Ask("an update of an old version", "PUT", f"{MAPS}/here", configured(name="here", resourceVersion="1")),
    Ask("an update of a version that is none", "PUT", f"{MAPS}/here", configured(name="here", resourceVersion="some")),
    Ask("an update of another uid", "PUT", f"{MAPS}/here", configured(name="here", uid="other")),
    Ask("an update of another namespace", "PUT", f"{MAPS}/here", configured(name="here", namespace="default")),
    Ask("a custom update without a version", "PUT", f"{ODDITIES}/here", odd("here")),
    Ask("a custom update of what is not there", "PUT", f"{ODDITIES}/absent", odd("absent", resourceVersion="1")),
    Ask("a custom update of an old version", "PUT", f"{ODDITIES}/here", odd("here", resourceVersion="1")),
    Ask("an update of what never changes", "PUT", f"{MAPS}/fixed", configured({"a": "2"}, name="fixed")),
    Ask("an update of a Secret's type", "PUT", f"{SECRETS}/here", secret("example.com/other", "here")),
    Ask(
        "an update of a selector",
        "PUT",
        f"{DEPLOYMENTS}/web",
        deployment("web", selector={"matchLabels": {"app": "other"}}),
    ),
    Ask(
        "an update of a role",
        "PUT",
        f"{ROLES}/rolebindings/here",
        {"metadata": {"name": "here"}, "roleRef": {"kind": "ClusterRole", "name": "edit"}},
    ),
    Ask("an update of a status with half an object", "PUT", f"{DEPLOYMENTS}/web/status", "{"),
    Ask("a scale of what is not there", "PUT", f"{DEPLOYMENTS}/absent/scale", {**_scale, "spec": {"replicas": 1}}),
    Ask("a scale of another kind", "PUT", f"{DEPLOYMENTS}/web/scale", deployment("web")),
    Ask("a scale below zero", "PUT", f"{DEPLOYMENTS}/web/scale", {**_scale, "spec": {"replicas": -1}}),
    Ask("a scale of text", "PUT", f"{DEPLOYMENTS}/web/scale", {**_scale, "spec": {"replicas": "many"}}),
    Ask(
        "a scale of an old version",
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        {**_scale, "metadata": {"name": "web", "namespace": "{ns}", "resourceVersion": "1"}, "spec": {"replicas": 1}},
    ),
    Ask(
        "a scale of another name",
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        {**_scale, "metadata": {"name": "other", "namespace": "{ns}"}, "spec": {"replicas": 1}},
    ),
    Ask("a scale of nothing", "PUT", f"{DEPLOYMENTS}/web/scale{DRY}", {**_scale}),
    Ask("a scale patched below zero", "PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": -1}}, MERGE),
    Ask(
        "a custom scale below zero",
        "PUT",
        f"{ODDITIES}/here/scale",
        {**_scale, "metadata": {"name": "here", "namespace": "{ns}"}, "spec": {"replicas": -1}},
    ),
    Ask("a custom scale of another kind", "PUT", f"{ODDITIES}/here/scale", odd("here")),
    Ask("a custom scale patched below zero", "PATCH", f"{ODDITIES}/here/scale", {"spec": {"replicas": -1}}, MERGE),
    _get("a scale", f"{DEPLOYMENTS}/web/scale"),
    _get("a custom scale", f"{ODDITIES}/here/scale"),
)
DELETIONS = (
    Ask("a deletion of what is not there", "DELETE", f"{MAPS}/absent"),
    Ask("half of its options", "DELETE", f"{MAPS}/here", "{"),
    Ask("options that are a list", "DELETE", f"{MAPS}/here", []),
    Ask("options of another kind", "DELETE", f"{MAPS}/here", configured()),
    Ask("options of another version", "DELETE", f"{MAPS}/here", {"apiVersion": "v7", "kind": "DeleteOptions"}),
    Ask("options of another type", "DELETE", f"{MAPS}/here", {"gracePeriodSeconds": "soon"}),
    Ask("options of an unknown propagation", "DELETE", f"{MAPS}/here", {"propagationPolicy": "Nearly"}),
    Ask(
        "options of two propagations",
        "DELETE",
        f"{MAPS}/here",
        {"propagationPolicy": "Orphan", "orphanDependents": True},
    ),
    Ask("options of an unknown dry run", "DELETE", f"{MAPS}/here", {"dryRun": ["Some"]}),
    Ask("options of another uid", "DELETE", f"{MAPS}/here", {"preconditions": {"uid": "other"}}),
    Ask(
        "options of another version of the object",
        "DELETE",
        f"{MAPS}/here",
        {"preconditions": {"resourceVersion": "1"}},
    ),
    Ask("a namespace that stays", "DELETE", "/api/v1/namespaces/default"),
    Ask("a custom object that is not there, deleted", "DELETE", f"{ODDITIES}/absent"),
)
_eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "held"}}
PODS_AND_NODES = (
    Ask(
        "an eviction of what is not there",
        "POST",
        f"{PODS}/absent/eviction",
        {**_eviction, "metadata": {"name": "absent"}},
    ),
    Ask("an eviction of another name", "POST", f"{PODS}/held/eviction", {**_eviction, "metadata": {"name": "other"}}),
    Ask("an eviction of another kind", "POST", f"{PODS}/held/eviction", configured()),
    Ask("half an eviction", "POST", f"{PODS}/held/eviction", "{"),
    Ask("an eviction before anybody counted", "POST", f"{PODS}/held/eviction", _eviction),
    Ask(
        "a budget that allows none",
        "PATCH",
        f"{BUDGETS}/strange/status",
        {
            "status": {
                "observedGeneration": 1,
                "disruptionsAllowed": 0,
                "currentHealthy": 1,
                "desiredHealthy": 2,
                "expectedPods": 1,
            }
        },
        MERGE,
    ),
    Ask("an eviction that it forbids", "POST", f"{PODS}/held/eviction", {**_eviction, "apiVersion": "policy/v1"}),
    Ask("an eviction that it forbids, only tried", "POST", f"{PODS}/held/eviction{DRY}", _eviction),
    Ask(
        "an eviction that two budgets meet",
        "POST",
        f"{PODS}/held-twice/eviction",
        {**_eviction, "metadata": {"name": "held-twice"}},
    ),
    Ask(
        "an eviction of another uid",
        "POST",
        f"{PODS}/free/eviction",
        {**_eviction, "metadata": {"name": "free"}, "deleteOptions": {"preconditions": {"uid": "other"}}},
    ),
    Ask(
        "a budget that allows one",
        "PATCH",
        f"{BUDGETS}/strange/status",
        {
            "status": {
                "observedGeneration": 1,
                "disruptionsAllowed": 1,
                "currentHealthy": 2,
                "desiredHealthy": 1,
                "expectedPods": 2,
            }
        },
        MERGE,
    ),
    Ask("an eviction that it allows, only tried", "POST", f"{PODS}/held/eviction{DRY}", _eviction),
    Ask("an eviction that it allows", "POST", f"{PODS}/held/eviction", _eviction),
    Ask(
        "one that it allowed once", "POST", f"{PODS}/held-too/eviction", {**_eviction, "metadata": {"name": "held-too"}}
    ),
    Ask("a pod that is no longer ready", "PATCH", f"{PODS}/held-too/status", _running("False"), MERGE),
    Ask(
        "an eviction that costs no health",
        "POST",
        f"{PODS}/held-too/eviction",
        {**_eviction, "metadata": {"name": "held-too"}},
    ),
    Ask(
        "a binding of what is not there",
        "POST",
        f"{PODS}/absent/binding",
        {"metadata": {"name": "absent"}, "target": {"kind": "Node", "name": "a"}},
    ),
    Ask(
        "a binding of what is bound",
        "POST",
        f"{PODS}/bound/binding",
        {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "a"}},
    ),
    Ask("a binding to nothing", "POST", f"{PODS}/free/binding", {"metadata": {"name": "free"}, "target": {}}),
    Ask("a pod without containers", "POST", PODS, pod(containers=[])),
    Ask("a pod without spec", "POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "strange"}}),
    Ask("a container without name and image", "POST", PODS, pod(containers=[{}])),
    Ask("a container whose name is a path", "POST", PODS, container(name="../../../etc")),
    Ask("a container whose name has a dot", "POST", PODS, container(name="a.b")),
    Ask("a container whose name is too long", "POST", PODS, container(name="a" * 64)),
    Ask("two containers of one name", "POST", PODS, pod(initContainers=[{"name": "a", "image": "a:1"}])),
    Ask("a variable without a name", "POST", PODS, container(env=[{"value": "a"}])),
    Ask("a variable whose name has an equals sign", "POST", PODS, container(env=[{"name": "a=b", "value": "a"}])),
    Ask(
        "a variable of two sources",
        "POST",
        PODS,
        container(env=[{"name": "a", "value": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    ),
    Ask("a variable of a source that is none", "POST", PODS, container(env=[{"name": "a", "valueFrom": {}}])),
    Ask(
        "a variable of a field that is none",
        "POST",
        PODS,
        container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.nowhere"}}}]),
    ),
    Ask(
        "a variable of a key that is none",
        "POST",
        PODS,
        container(env=[{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "a/b"}}}]),
    ),
    Ask(
        "variables with an illegal prefix",
        "POST",
        PODS,
        container(envFrom=[{"prefix": "a=", "configMapRef": {"name": "a"}}]),
    ),
    Ask("variables of nothing", "POST", PODS, container(envFrom=[{}])),
    Ask("a port that is none", "POST", PODS, container(ports=[{"containerPort": 70000}])),
    Ask("a name of a port that is illegal", "POST", PODS, container(ports=[{"name": "A_b", "containerPort": 80}])),
    Ask("an image with blanks", "POST", PODS, container(image=" a:1 ")),
    Ask("a way to pull that is not there", "POST", PODS, container(imagePullPolicy="Perhaps")),
    Ask("a mount of what is not there", "POST", PODS, container(volumeMounts=[{"name": "v", "mountPath": "/a"}])),
    Ask(
        "a mount nowhere",
        "POST",
        PODS,
        pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[{"name": "a", "image": "a:1", "volumeMounts": [{"name": "v"}]}],
        ),
    ),
    Ask(
        "two mounts at one place",
        "POST",
        PODS,
        pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[
                {
                    "name": "a",
                    "image": "a:1",
                    "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}],
                }
            ],
        ),
    ),
    Ask(
        "a mount of a path that goes up",
        "POST",
        PODS,
        pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[
                {"name": "a", "image": "a:1", "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../b"}]}
            ],
        ),
    ),
    Ask(
        "a mount of an absolute path",
        "POST",
        PODS,
        pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[
                {"name": "a", "image": "a:1", "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "/b"}]}
            ],
        ),
    ),
    Ask("a volume without a name", "POST", PODS, pod(volumes=[{"emptyDir": {}}])),
    Ask("a volume whose name is a path", "POST", PODS, pod(volumes=[{"name": "../v", "emptyDir": {}}])),
    Ask(
        "two volumes of one name",
        "POST",
        PODS,
        pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
    ),
    Ask("a volume of two sources", "POST", PODS, volume(emptyDir={}, hostPath={"path": "/a"})),
    Ask("a path of the host that goes up", "POST", PODS, volume(hostPath={"path": "/a/../../b"})),
    Ask("a path of the host that is none", "POST", PODS, volume(hostPath={"path": ""})),
    Ask("a path of the host of a kind that is none", "POST", PODS, volume(hostPath={"path": "/a", "type": "Thing"})),
    Ask(
        "an item whose path is absolute",
        "POST",
        PODS,
        volume(configMap={"name": "a", "items": [{"key": "a", "path": "/a"}]}),
    ),
    Ask(
        "an item whose path goes up",
        "POST",
        PODS,
        volume(configMap={"name": "a", "items": [{"key": "a", "path": "a/../../b"}]}),
    ),
    Ask(
        "an item whose path begins with two dots",
        "POST",
        PODS,
        volume(secret={"secretName": "a", "items": [{"key": "a", "path": "..a"}]}),
    ),
    Ask("an item without key and path", "POST", PODS, volume(secret={"secretName": "a", "items": [{}]})),
    Ask("a ConfigMap without a name", "POST", PODS, volume(configMap={})),
    Ask("a Secret without a name", "POST", PODS, volume(secret={})),
    Ask("a mode that is none", "POST", PODS, volume(configMap={"name": "a", "defaultMode": 5000})),
    Ask(
        "a projected path that goes up",
        "POST",
        PODS,
        volume(projected={"sources": [{"configMap": {"name": "a", "items": [{"key": "a", "path": "../a"}]}}]}),
    ),
    Ask("a projected token without a path", "POST", PODS, volume(projected={"sources": [{"serviceAccountToken": {}}]})),
    Ask(
        "a projected path twice",
        "POST",
        PODS,
        volume(projected={"sources": [{"configMap": {"name": n, "items": [{"key": "a", "path": "a"}]}} for n in "ab"]}),
    ),
    Ask(
        "a downward path that goes up",
        "POST",
        PODS,
        volume(downwardAPI={"items": [{"path": "../a", "fieldRef": {"fieldPath": "metadata.name"}}]}),
    ),
    Ask("a way to restart that is not there", "POST", PODS, pod(restartPolicy="Perhaps")),
    Ask("a way to resolve names that is not there", "POST", PODS, pod(dnsPolicy="Perhaps")),
    Ask("a pod for a node whose name is none", "POST", PODS, pod(nodeName="No_node")),
    Ask("a pod for an account whose name is none", "POST", PODS, pod(serviceAccountName="No_account")),
    Ask("a grace below zero of a pod", "POST", PODS, pod(terminationGracePeriodSeconds=-1)),
    Ask("a deadline of zero", "POST", PODS, pod(activeDeadlineSeconds=0)),
    Ask("a host's name that is none", "POST", PODS, pod(hostname="a.b")),
    Ask("a label of nodes that is none", "POST", PODS, pod(nodeSelector={"a b": "c"})),
    Ask("a toleration of nothing", "POST", PODS, pod(tolerations=[{"operator": "Exists", "value": "a"}])),
    Ask("a quantity that is none", "POST", PODS, container(resources={"requests": {"cpu": "much"}})),
    Ask(
        "a request beyond its limit",
        "POST",
        PODS,
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    ),
    Ask("a pod whose name is none", "POST", PODS, pod("No_pod")),
    Ask("a pod whose container changes", "PATCH", f"{PODS}/free", {"spec": {"nodeSelector": {"a": "b"}}}, MERGE),
    Ask(
        "a pod whose image goes",
        "PATCH",
        f"{PODS}/free",
        {"spec": {"containers": [{"name": "a", "image": ""}]}},
        STRATEGIC,
    ),
)
KINDS = (
    Ask("a Secret that is no base64", "POST", SECRETS, secret(data={"a": "%"})),
    Ask("a Secret of an illegal key", "POST", SECRETS, secret(data={"a/b": ""})),
    Ask("a Secret of illegal text keys", "POST", SECRETS, secret(stringData={"../b": ""})),
    Ask("a Secret of a number", "POST", SECRETS, secret(data={"a": 5})),
    Ask("a Secret for TLS without its parts", "POST", SECRETS, secret("kubernetes.io/tls")),
    Ask("a Secret of a registry without its part", "POST", SECRETS, secret("kubernetes.io/dockerconfigjson")),
    Ask(
        "a Secret of a registry that is no JSON",
        "POST",
        SECRETS,
        secret("kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": "{"}),
    ),
    Ask("a Secret of a login without its parts", "POST", SECRETS, secret("kubernetes.io/basic-auth")),
    Ask("a Secret of an account that is not said", "POST", SECRETS, secret("kubernetes.io/service-account-token")),
    Ask("a Service of a name with a digit first", "POST", SERVICES, service("1-strange")),
    Ask("a Service of a name with a dot", "POST", SERVICES, service("a.b")),
    Ask("a Service without ports", "POST", SERVICES, service(clusterIP="", ports=[])),
    Ask("a Service of a port that is none", "POST", SERVICES, service(ports=[{"port": 0}])),
    Ask("a Service of two ports without names", "POST", SERVICES, service(ports=[{"port": 1}, {"port": 2}])),
    Ask(
        "a Service of one port twice",
        "POST",
        SERVICES,
        service(ports=[{"name": "a", "port": 1}, {"name": "b", "port": 1}]),
    ),
    Ask("a Service of a type that is none", "POST", SERVICES, service(type="Perhaps")),
    Ask("a Service of a protocol that is none", "POST", SERVICES, service(ports=[{"port": 1, "protocol": "IPX"}])),
    Ask("a namespace whose name has a dot", "POST", "/api/v1/namespaces", {"metadata": {"name": "a.b"}}),
    Ask("a namespace that is there", "POST", "/api/v1/namespaces", {"metadata": {"name": "{ns}"}}),
    Ask("a node whose name is none", "POST", "/api/v1/nodes", {"metadata": {"name": "No_node"}}),
    Ask(
        "a taint that is none",
        "POST",
        "/api/v1/nodes",
        {"metadata": {"name": "strange"}, "spec": {"taints": [{"key": "a", "effect": "Perhaps"}]}},
    ),
    Ask("an account whose name is none", "POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "No_account"}}),
    Ask("a Deployment without spec", "POST", DEPLOYMENTS, {"metadata": {"name": "strange"}}),
    Ask("a Deployment without a selector", "POST", DEPLOYMENTS, deployment(selector={})),
    Ask(
        "a Deployment whose selector misses",
        "POST",
        DEPLOYMENTS,
        deployment(selector={"matchLabels": {"app": "other"}}),
    ),
    Ask(
        "a Deployment whose selector is illegal",
        "POST",
        DEPLOYMENTS,
        deployment(selector={"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Like"}]}),
    ),
    Ask("a Deployment below zero", "POST", DEPLOYMENTS, deployment(replicas=-1)),
    Ask("a Deployment of half pods", "POST", DEPLOYMENTS, deployment(replicas=1.5)),
    Ask(
        "a Deployment without containers",
        "POST",
        DEPLOYMENTS,
        deployment(template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}),
    ),
    Ask(
        "a Deployment whose container is a path",
        "POST",
        DEPLOYMENTS,
        deployment(
            template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "../a", "image": "a"}]}}
        ),
    ),
    Ask(
        "a Deployment of pods that end",
        "POST",
        DEPLOYMENTS,
        deployment(
            template={
                "metadata": {"labels": {"app": "web"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]},
            }
        ),
    ),
    Ask("a Deployment of a strategy that is none", "POST", DEPLOYMENTS, deployment(strategy={"type": "Perhaps"})),
    Ask(
        "a Deployment that may lose and win nothing",
        "POST",
        DEPLOYMENTS,
        deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
    ),
    Ask(
        "a DaemonSet whose selector misses",
        "POST",
        f"{APPS}/daemonsets",
        {
            **deployment(),
            "kind": "DaemonSet",
            "spec": {
                **{k: v for k, v in deployment()["spec"].items() if k != "replicas"},
                "selector": {"matchLabels": {"app": "other"}},
            },
        },
    ),
    Ask(
        "a role of no verbs",
        "POST",
        f"{ROLES}/roles",
        {"metadata": {"name": "strange"}, "rules": [{"apiGroups": [""], "resources": ["pods"]}]},
    ),
    Ask(
        "a role of no resources",
        "POST",
        f"{ROLES}/roles",
        {"metadata": {"name": "strange"}, "rules": [{"verbs": ["get"]}]},
    ),
    Ask(
        "a role of paths in a namespace",
        "POST",
        f"{ROLES}/roles",
        {"metadata": {"name": "strange"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]},
    ),
    Ask("a role whose name goes up", "POST", f"{ROLES}/roles", {"metadata": {"name": ".."}}),
    Ask("a role whose name has a slash", "POST", f"{ROLES}/roles", {"metadata": {"name": "a/b"}}),
    Ask("a binding of no role", "POST", f"{ROLES}/rolebindings", {"metadata": {"name": "strange"}}),
    Ask(
        "a binding of another kind of role",
        "POST",
        f"{ROLES}/rolebindings",
        {"metadata": {"name": "strange"}, "roleRef": {"kind": "Thing", "name": "a"}},
    ),
    Ask(
        "a binding of a subject that is none",
        "POST",
        f"{ROLES}/rolebindings",
        {
            "metadata": {"name": "strange"},
            "roleRef": {"kind": "Role", "name": "a"},
            "subjects": [{"kind": "Thing", "name": "a"}],
        },
    ),
    Ask("a budget of both limits", "POST", BUDGETS, budget(minAvailable=1, maxUnavailable=1)),
    Ask("a budget below zero", "POST", BUDGETS, budget(minAvailable=-1)),
    Ask("a budget of more than all", "POST", BUDGETS, budget(maxUnavailable="120%")),
    Ask("a budget of text", "POST", BUDGETS, budget(maxUnavailable="some")),
    Ask(
        "a budget of an illegal selector",
        "POST",
        BUDGETS,
        budget(selector={"matchExpressions": [{"key": "a", "operator": "Like"}]}),
    ),
    Ask(
        "a Lease of less than no time",
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        {"metadata": {"name": "strange"}, "spec": {"leaseDurationSeconds": 0}},
    ),
    Ask(
        "a Lease of a time that is none",
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        {"metadata": {"name": "strange"}, "spec": {"renewTime": "now"}},
    ),
    Ask("a review of another type", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": []}),
    Ask("a review of nothing", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {}}),
    Ask(
        "a review of nobody",
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
    Ask("a custom value that is none of those", "POST", ODDITIES, odd(spec={"size": "huge"})),
    Ask("a custom object that lacks", "POST", ODDITIES, odd(spec={})),
    Ask("a custom object of another type", "POST", ODDITIES, odd(spec={"size": 5, "replicas": "many", "parts": {}})),
    Ask("a custom object below its minimum", "POST", ODDITIES, odd(spec={"size": "small", "replicas": -1})),
    Ask(
        "a custom object with a key twice",
        "POST",
        ODDITIES,
        odd(spec={"size": "small", "parts": [{"id": "a"}, {"id": "a"}]}),
    ),
    Ask("a custom spec that is text", "POST", ODDITIES, odd(spec="text")),
    Ask("a custom name that is none", "POST", ODDITIES, odd("No_name")),
)
_object = {"type": "object"}
DEFINITIONS = (
    Ask("a definition of another name", "POST", CRDS, definition("trials", "Trial", name=f"others.{GROUP}")),
    Ask(
        "a definition of two stored versions",
        "POST",
        CRDS,
        {
            **definition("trials", "Trial"),
            "spec": {
                **definition("trials", "Trial")["spec"],
                "versions": [{**definition("trials", "Trial")["spec"]["versions"][0], "name": n} for n in ("v1", "v2")],
            },
        },
    ),
    Ask("a definition that stores nothing", "POST", CRDS, definition("trials", "Trial", storage=False)),
    Ask("a definition without a schema", "POST", CRDS, definition("trials", "Trial", schema={})),
    Ask(
        "a default that is no value",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {"type": "object", "properties": {"size": {"type": "string", "enum": ["a"], "default": "b"}}},
        ),
    ),
    Ask(
        "a default of another type",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "integer", "default": "b"}}}),
    ),
    Ask(
        "a default that lacks a field",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {
                "type": "object",
                "properties": {
                    "size": {
                        "type": "object",
                        "required": ["a"],
                        "properties": {"a": {"type": "string"}},
                        "default": {},
                    }
                },
            },
        ),
    ),
    Ask(
        "a default with an unknown field",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {
                "type": "object",
                "properties": {
                    "size": {"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}}
                },
            },
        ),
    ),
    Ask(
        "a default below its minimum",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {"type": "object", "properties": {"size": {"type": "integer", "minimum": 5, "default": 1}}},
        ),
    ),
    Ask(
        "a default against its pattern",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {"type": "object", "properties": {"size": {"type": "string", "pattern": "^a$", "default": "b"}}},
        ),
    ),
    Ask(
        "a default that breaks a rule",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 5"}]}
                },
            },
        ),
    ),
    Ask(
        "a default in a list of alternatives",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "oneOf": [{"properties": {"size": {"default": 1}}}]}),
    ),
    Ask(
        "a property without a type",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {}}}),
    ),
    Ask(
        "a type that is none",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "thing"}}}),
    ),
    Ask(
        "a pattern that is none",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "string", "pattern": "("}}}),
    ),
    Ask(
        "a list without items",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "array"}}}),
    ),
    Ask(
        "a list map without keys",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {
                "type": "object",
                "properties": {"size": {"type": "array", "items": _object, "x-kubernetes-list-type": "map"}},
            },
        ),
    ),
    Ask(
        "a rule that is none",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "x-kubernetes-validations": [{"rule": "self."}]}),
    ),
    Ask("a scale without its path", "POST", CRDS, definition("trials", "Trial", subresources={"scale": {}})),
    Ask(
        "a scope that is none",
        "POST",
        CRDS,
        {**definition("trials", "Trial"), "spec": {**definition("trials", "Trial")["spec"], "scope": "Everywhere"}},
    ),
    Ask(
        "a plural that is none",
        "POST",
        CRDS,
        {
            **definition("trials", "Trial"),
            "spec": {**definition("trials", "Trial")["spec"], "names": {"plural": "Trials", "kind": "Trial"}},
        },
    ),
)

TABLE: tuple[Ask, ...] = (
    *PATHS,
    *BODIES,
    *TYPES,
    *QUERIES,
    *PATCHES,
    *UPDATES,
    *DELETIONS,
    *PODS_AND_NODES,
    *KINDS,
    *DEFINITIONS,
)
"""All of them, in the order in which they are made: a few change what later ones find."""
