"""One request, the objects that requests are made of, and the paths at which these are."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

JSON, YAML, APPLY = "application/json", "application/yaml", "application/apply-patch+yaml"
MERGE, PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, PROTOBUF = "application/strategic-merge-patch+json", "application/vnd.kubernetes.protobuf"
GROUP = "strange.example.com"


class Ask(NamedTuple):
    """One request. A body that is no text is sent as JSON; `accept` empty sends no such header.

    Of an `event`, the first line of the answer is waited for, however long that takes, and is all of it.
    """

    name: str
    method: str
    path: str
    body: Any = None
    type: str = JSON
    accept: str = JSON
    event: bool = False

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


def get(name: str, path: str, **more: Any) -> Ask:
    return Ask(name, "GET", path, **more)


def running(ready: str) -> dict[str, Any]:
    """The conditions that a kubelet reports."""
    return {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}
