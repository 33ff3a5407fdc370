"""Policies (ValidatingAdmissionPolicy, Kubernetes 1.30 and later) that keep the manager's account from what its rights
can't exclude.

Webhook configurations: its right to patch them is there for the caBundle. RBAC knows no fields, and who may change the
rest of a webhook may have the API server send him everything that anybody writes. The rest stays as it was installed.

Secrets: RBAC knows names and no beginnings of names, and those of clusters follow from tenants' input. The account
changes and deletes those alone that have the labels of a cluster and no keys of Cluster API.
"""

from __future__ import annotations

from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.clusterapi.names import CLUSTER_SECRET
from espalier.runtime.servers.certificates import SECRET_NAME

GROUP = "admissionregistration.k8s.io"

_UNCHANGED = (
    "rules",
    "failurePolicy",
    "matchPolicy",
    "namespaceSelector",
    "objectSelector",
    "sideEffects",
    "timeoutSeconds",
    "admissionReviewVersions",
    "reinvocationPolicy",
    "matchConditions",
    "clientConfig.?url",
    "clientConfig.?service",
)
"""All fields of a webhook except its caBundle."""

_UNCHANGED_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


def policies(name: str, account: str) -> list[Tree]:
    """Each policy, and its binding."""
    return [*_webhooks(name, account), *_secrets(f"{name}-secrets", account)]


def _secrets(name: str, account: str) -> list[Tree]:
    own = (
        f"has(oldObject.metadata.labels) && '{CLUSTER_NAME_LABEL}' in oldObject.metadata.labels && "
        f"oldObject.type != '{CLUSTER_SECRET}'"
    )
    rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["UPDATE", "DELETE"], "resources": ["secrets"]}
    validation = {
        "expression": f"oldObject.metadata.name == '{SECRET_NAME}' || {own}",
        "message": "the manager changes and deletes no Secrets but those that it made for clusters",
    }
    return _in_force(name, account, rule, [validation], f" && request.namespace == '{SYSTEM_NAMESPACE}'")


def _webhooks(name: str, account: str) -> list[Tree]:
    same = " && ".join(f"new.{_optional(field)} == old.{_optional(field)}" for field in _UNCHANGED)
    webhooks = (
        "object.webhooks.size() == oldObject.webhooks.size() && "
        f"object.webhooks.all(new, oldObject.webhooks.exists(old, new.name == old.name && {same}))"
    )
    metadata = " && ".join(f"object.metadata.?{field} == oldObject.metadata.?{field}" for field in _UNCHANGED_METADATA)
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
    }
    validations = [
        {"expression": webhooks, "message": "the manager changes nothing of webhooks but their caBundle"},
        {"expression": metadata, "message": "the manager changes no metadata of webhook configurations"},
    ]
    return _in_force(name, account, rule, validations)


def _in_force(name: str, account: str, rule: Tree, validations: list[Tree], where: str = "") -> list[Tree]:
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "the-manager", "expression": f"request.userInfo.username == '{account}'{where}"}],
        "validations": validations,
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        _tree("ValidatingAdmissionPolicy", name, spec),
        _tree("ValidatingAdmissionPolicyBinding", name, binding),
    ]


def _optional(field: str) -> str:
    return field if "?" in field else f"?{field}"


def _tree(kind: str, name: str, spec: Tree) -> Tree:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
