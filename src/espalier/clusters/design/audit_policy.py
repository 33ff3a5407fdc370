"""The default audit policy of API servers: who changed what, without secret content and without noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from espalier.api.core import KUBE_SYSTEM
from espalier.api.meta import Tree
from espalier.api.trees import yaml_text

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages:
- RequestReceived
rules:
# What nodes and controllers do all the time.
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi*", "/metrics"]
- level: None
  userGroups: ["system:nodes"]
  verbs: ["get", "list", "watch"]
- level: None
  users: ["system:kube-proxy", "system:kube-scheduler", "system:kube-controller-manager", "system:apiserver"]
  verbs: ["get", "list", "watch"]
- level: None
  resources:
  - group: coordination.k8s.io
    resources: ["leases"]
  - group: ""
    resources: ["events"]
  - group: events.k8s.io
    resources: ["events"]
# Never the content of what is secret.
- level: Metadata
  resources:
  - group: ""
    resources: ["secrets", "configmaps", "serviceaccounts/token"]
  - group: authentication.k8s.io
    resources: ["tokenreviews"]
# Who gets which rights, in full.
- level: RequestResponse
  verbs: ["create", "update", "patch", "delete", "deletecollection"]
  resources:
  - group: rbac.authorization.k8s.io
  - group: admissionregistration.k8s.io
# Of every other change, what was asked for.
- level: Request
  verbs: ["create", "update", "patch", "delete", "deletecollection"]
- level: Metadata
"""
"""The policy of the base. Layer `provider-settings` replaces it by `policy`."""

_MANAGER, _API_SERVER = "system:kube-controller-manager", "system:apiserver"
_OF_SYSTEM = f"system:serviceaccount:{KUBE_SYSTEM}:"
_PROBLEM_DETECTOR = "node-problem-detector"
_CHANGES_OF_STATUS: Tree = {
    "verbs": ["update", "patch"],
    "resources": [{"group": "", "resources": ["nodes/status", "pods/status"]}],
}

_GROUPS = (
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "extensions",
    "metrics.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
)
"""Kubernetes' own groups, as in its policy for clusters on GCE (`cluster/gce/gci/configure-helper.sh`)."""


@cache
def policy() -> str:
    """EKS Anywhere's policy, in YAML: writes of users are logged with request and response, reads with the request,
    and Secrets, ConfigMaps and tokens without content.
    """
    content = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [*_rules()]}
    return yaml_text.dump(content)


def _rules() -> Sequence[Tree]:
    """The rules; the first one that matches a request applies."""
    of_nodes = _core("nodes", "nodes/status")
    return [
        _recorded("RequestResponse", ["update", "patch", "delete"], _who_may_log_in(), namespaces=[KUBE_SYSTEM]),
        _ignored(["system:kube-proxy"], ["watch"], _core("endpoints", "services", "services/status")),
        _ignored(["kubelet"], ["get"], of_nodes),
        _ignored([], ["get"], of_nodes),
        _ignored(
            [_MANAGER, "system:kube-scheduler", f"{_OF_SYSTEM}endpoint-controller"],
            ["get", "update"],
            _core("endpoints"),
            namespaces=[KUBE_SYSTEM],
        ),
        _ignored([_API_SERVER], ["get"], _core("namespaces", "namespaces/status", "namespaces/finalize")),
        _ignored([_MANAGER], ["get", "list"], [{"group": "metrics.k8s.io"}]),
        {"level": "None", "nonResourceURLs": ["/healthz*", "/version", "/swagger*", "/livez*", "/readyz*"]},
        {"level": "None", "resources": _core("events")},
        _recorded("Request", users=["kubelet", f"system:{_PROBLEM_DETECTOR}", f"{_OF_SYSTEM}{_PROBLEM_DETECTOR}"])
        | _CHANGES_OF_STATUS,
        _recorded("Request", userGroups=["system:nodes"]) | _CHANGES_OF_STATUS,
        _recorded("Request", ["deletecollection"], users=[f"{_OF_SYSTEM}namespace-controller"]),
        _recorded(
            "Metadata", resources=[*_core("secrets", "configmaps"), _named("authentication.k8s.io", "tokenreviews")]
        ),
        {"level": "Request", "resources": _core("serviceaccounts/token")},
        _recorded("Request", ["get", "list", "watch"], [{"group": group} for group in _GROUPS]),
        _recorded("RequestResponse", resources=[{"group": group} for group in _GROUPS]),
        _recorded("Metadata"),
    ]


def _who_may_log_in() -> list[Tree]:
    return [_named("", "configmaps") | {"resourceNames": ["aws-auth"]}]


def _core(*resources: str) -> list[Tree]:
    return [_named("", *resources)]


def _named(group: str, *resources: str) -> Tree:
    return {"group": group, "resources": [*resources]}


def _ignored(
    users: Sequence[str], verbs: Sequence[str], resources: list[Tree], *, namespaces: Sequence[str] = ()
) -> Tree:
    rule: Tree = {"users": [*users], "verbs": [*verbs], "resources": resources, "namespaces": [*namespaces]}
    return {"level": "None"} | {name: value for name, value in rule.items() if value}


def _recorded(level: str, verbs: Sequence[str] = (), resources: Sequence[Tree] = (), **more: Sequence[str]) -> Tree:
    """A rule that logs matching requests once: not on their arrival."""
    rule: Tree = {"verbs": [*verbs], "resources": [*resources]} | {name: [*value] for name, value in more.items()}
    return (
        {"level": level} | {name: value for name, value in rule.items() if value} | {"omitStages": ["RequestReceived"]}
    )
