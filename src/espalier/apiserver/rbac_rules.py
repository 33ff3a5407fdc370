"""Validation of roles and bindings beyond schemas, as in kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.meta import Tree
from espalier.apiserver import failures
from espalier.kube.errors import StatusCause

Causes = Iterator[StatusCause]

_CLUSTER_ROLE, _ROLES = "ClusterRole", ("Role", "ClusterRole")
_SUBJECTS = ("ServiceAccount", "User", "Group")


def check_role(new: Tree, old: Tree | None) -> Causes:
    """Violations of the rules of a Role."""
    for index, rule in enumerate(new.get("rules") or ()):
        paths = rule.get("nonResourceURLs")
        if paths:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield failures.invalid(f"rules[{index}].nonResourceURLs", paths, detail)
            continue
        yield from _rule(rule, f"rules[{index}]")


def check_cluster_role(new: Tree, old: Tree | None) -> Causes:
    """Violations of the rules of a ClusterRole."""
    for index, rule in enumerate(new.get("rules") or ()):
        yield from _rule(rule, f"rules[{index}]")


def _rule(rule: Tree, field: str) -> Causes:
    if not rule.get("verbs"):
        yield failures.required(f"{field}.verbs", "verbs must contain at least one value")
    if rule.get("nonResourceURLs"):
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield failures.invalid(f"{field}.nonResourceURLs", rule["nonResourceURLs"], detail)
        return
    if not rule.get("apiGroups"):
        yield failures.required(f"{field}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield failures.required(f"{field}.resources", "resource rules must supply at least one resource")


def check_binding(new: Tree, old: Tree | None) -> Causes:
    """Violations of a RoleBinding or ClusterRoleBinding."""
    role = new.get("roleRef") or {}
    allowed = _ROLES if new["metadata"].get("namespace") else (_CLUSTER_ROLE,)
    if role.get("kind") not in allowed:
        yield failures.unsupported("roleRef.kind", role.get("kind") or "", allowed)
    if not role.get("name"):
        yield failures.required("roleRef.name")
    for index, subject in enumerate(new.get("subjects") or ()):
        if subject.get("kind") not in _SUBJECTS:
            yield failures.unsupported(f"subjects[{index}].kind", subject.get("kind") or "", _SUBJECTS)
        if not subject.get("name"):
            yield failures.required(f"subjects[{index}].name")
    if old is not None and old.get("roleRef") != role:
        shown = {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": role.get("name", "")}
        yield failures.invalid("roleRef", shown, "cannot change roleRef")
