"""Policy that keeps the manager's account from changing its webhook configurations beyond their caBundle.

Its right to patch them is there for the caBundle. RBAC knows no fields, and who may change the rest of a webhook may
have the API server send him everything that anybody writes. A ValidatingAdmissionPolicy (Kubernetes 1.30 and later)
holds the rest as it was installed.
"""

from __future__ import annotations

from espalier.api.meta import Tree

GROUP = "admissionregistration.k8s.io"

_KEPT = (
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
"""Everything of a webhook but its caBundle."""

_KEPT_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


def policy(name: str, account: str) -> list[Tree]:
    """The policy, and the binding that has it in force, for the webhook configurations that this account changes."""
    same = " && ".join(f"new.{_optional(field)} == old.{_optional(field)}" for field in _KEPT)
    webhooks = (
        "object.webhooks.size() == oldObject.webhooks.size() && "
        f"object.webhooks.all(new, oldObject.webhooks.exists(old, new.name == old.name && {same}))"
    )
    metadata = " && ".join(f"object.metadata.?{field} == oldObject.metadata.?{field}" for field in _KEPT_METADATA)
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [GROUP],
                    "apiVersions": ["*"],
                    "operations": ["UPDATE"],
                    "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
                }
            ]
        },
        "matchConditions": [{"name": "the-manager", "expression": f"request.userInfo.username == '{account}'"}],
        "validations": [
            {"expression": webhooks, "message": "the manager changes nothing of webhooks but their caBundle"},
            {"expression": metadata, "message": "the manager changes no metadata of webhook configurations"},
        ],
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
