"""The default audit policy: which rule a request fits first, and what is recorded of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from espalier.api.meta import Tree
from espalier.clusters.design.audit_policy import policy

RULES: list[Tree] = yaml.safe_load(policy())["rules"]
SYSTEM = "system:serviceaccount:kube-system:"


def fits(rule: Tree, request: dict[str, Any]) -> bool:
    """As kube-apiserver judges it."""
    if not _is_allowed(rule.get("users"), request["user"]):
        return False
    if "userGroups" in rule and not set(rule["userGroups"]) & set(request.get("groups", ())):
        return False
    if not _is_allowed(rule.get("verbs"), request["verb"]):
        return False
    path = request.get("path")
    if path is not None:
        patterns = rule.get("nonResourceURLs")
        of_resources = "resources" in rule or "namespaces" in rule
        return not of_resources if patterns is None else any(_is_like(pattern, path) for pattern in patterns)
    if "nonResourceURLs" in rule or not _is_allowed(rule.get("namespaces"), request.get("namespace", "")):
        return False
    return "resources" not in rule or any(_names(resource, request) for resource in rule["resources"])


def _is_allowed(given: list[str] | None, text: str) -> bool:
    return not given or text in given


def _is_like(pattern: str, path: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), path) is not None


def _names(resources: Tree, request: dict[str, Any]) -> bool:
    return (
        resources.get("group", "") == request.get("group", "")
        and _is_allowed(resources.get("resources"), request["resource"])
        and _is_allowed(resources.get("resourceNames"), request.get("name", ""))
    )


def level(user: str, verb: str, **request: Any) -> str:
    """The audit level of a request."""
    asked = {"user": user, "verb": verb, **request}
    return str(next(rule["level"] for rule in RULES if fits(rule, asked)))


RECORDED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "who may log in by AWS IAM": (
        "ann",
        "patch",
        {"resource": "configmaps", "namespace": "kube-system", "name": "aws-auth"},
        "RequestResponse",
    ),
    "another ConfigMap": ("ann", "patch", {"resource": "configmaps", "namespace": "a", "name": "b"}, "Metadata"),
    "a Secret that is made": ("ann", "create", {"resource": "secrets", "namespace": "a"}, "Metadata"),
    "a Secret that is read": ("ann", "get", {"resource": "secrets", "namespace": "a"}, "Metadata"),
    "a token that is checked": (
        "ann",
        "create",
        {"group": "authentication.k8s.io", "resource": "tokenreviews"},
        "Metadata",
    ),
    "a token that is made": ("ann", "create", {"resource": "serviceaccounts/token", "namespace": "a"}, "Request"),
    "a Pod that is made": ("ann", "create", {"resource": "pods", "namespace": "a"}, "RequestResponse"),
    "a Pod that is read": ("ann", "get", {"resource": "pods", "namespace": "a"}, "Request"),
    "a role": ("ann", "create", {"group": "rbac.authorization.k8s.io", "resource": "clusterroles"}, "RequestResponse"),
    "a resource of somebody's own": ("ann", "create", {"group": "example.com", "resource": "apples"}, "Metadata"),
    "a kubelet that says how it is": (
        "system:node:a",
        "patch",
        {"groups": ["system:nodes"], "resource": "nodes/status"},
        "Request",
    ),
    "a kubelet that changes a Pod": (
        "system:node:a",
        "delete",
        {"groups": ["system:nodes"], "resource": "pods", "namespace": "a"},
        "RequestResponse",
    ),
    "an emptied namespace": (
        f"{SYSTEM}namespace-controller",
        "deletecollection",
        {"resource": "pods", "namespace": "a"},
        "Request",
    ),
    "kube-proxy": ("system:kube-proxy", "watch", {"resource": "services"}, "None"),
    "a scheduler's lock": (
        "system:kube-scheduler",
        "update",
        {"resource": "endpoints", "namespace": "kube-system"},
        "None",
    ),
    "an event": ("ann", "create", {"resource": "events", "namespace": "a"}, "None"),
    "health": ("system:anonymous", "get", {"path": "/healthz/etcd"}, "None"),
    "readiness": ("system:anonymous", "get", {"path": "/readyz"}, "None"),
    "another path": ("ann", "get", {"path": "/metrics"}, "Metadata"),
}


@pytest.mark.parametrize("what", RECORDED)
def test_as_much_is_recorded_as_in_eks_anywhere(what: str) -> None:
    user, verb, request, wanted = RECORDED[what]
    assert level(user, verb, **request) == wanted


def test_nothing_is_recorded_twice() -> None:
    """But for tokens, as in EKS Anywhere."""
    twice = [rule for rule in RULES if rule["level"] != "None" and "RequestReceived" not in rule.get("omitStages", ())]
    assert [item["resources"] for item in twice] == [[{"group": "", "resources": ["serviceaccounts/token"]}]]
