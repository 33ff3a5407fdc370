"""Rules about what is passed on to kube-apiserver: one that can't read it never starts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from espalier.api import yaml_trees
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa import sentences
from espalier.api.eksa.control_plane import FLAG, FLAGS
from espalier.api.violations import ManifestError, Violation, shown
from espalier.clusters.rules import messages

_FLAG = re.compile(FLAG)
_BUILT = frozenset(
    {
        *("advertise-address", "secure-port", "client-ca-file", "tls-cert-file", "tls-private-key-file"),
        *("etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "service-cluster-ip-range"),
        *("kubelet-client-certificate", "kubelet-client-key", "proxy-client-cert-file", "proxy-client-key-file"),
        *("requestheader-client-ca-file", "requestheader-allowed-names", "requestheader-username-headers"),
        *("requestheader-group-headers", "requestheader-extra-headers-prefix"),
        *("service-account-key-file", "service-account-signing-key-file", "audit-policy-file", "audit-log-path"),
    }
)
"""Flags that kubeadm and this program set, to what they themselves put there."""

_AUDIT_VERSION, _AUDIT_KIND = "audit.k8s.io/v1", "Policy"
_AUDIT_LEVELS = ("None", "Metadata", "Request", "RequestResponse")


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Flags that are none or that are not for users, and an audit policy that is none."""
    control_plane = spec.control_plane_configuration
    if control_plane is None:
        return
    field = "spec.controlPlaneConfiguration.apiServerExtraArgs"
    for flag, value in control_plane.api_server_extra_args.items():
        if not _FLAG.fullmatch(flag):
            yield Violation(field, flag or "nothing", FLAGS, sentences.NO_FLAG)
        elif flag in _BUILT:
            yield Violation(f"{field}.{flag}", value, "nothing", messages.BUILT_FLAG)
    if control_plane.audit_policy_content:
        yield from _audit("spec.controlPlaneConfiguration.auditPolicyContent", control_plane.audit_policy_content)


def _audit(field: str, text: str) -> Iterator[Violation]:
    try:
        policies = yaml_trees.trees(text, "")
    except ManifestError as error:
        yield from (Violation(field, "", "", f"{one.violation.message} (line {one.line})") for one in error.problems)
        return
    policy = policies[0] if policies else None
    if not isinstance(policy, dict):
        yield Violation(field, shown(policy), f"an object of kind {_AUDIT_KIND}", messages.NO_POLICY)
        return
    for name, wanted in (("apiVersion", _AUDIT_VERSION), ("kind", _AUDIT_KIND)):
        if policy.get(name) != wanted:
            yield Violation(field, f"{name} {shown(policy.get(name))}", wanted, messages.NO_POLICY)
    rules = policy.get("rules")
    if not isinstance(rules, list) or not rules:
        yield Violation(field, f"rules {shown(rules)}", "a list of rules", messages.NO_RULES)
        return
    for index, rule in enumerate(rules):
        level = rule.get("level") if isinstance(rule, dict) else rule
        if level not in _AUDIT_LEVELS:
            allowed = ", ".join(_AUDIT_LEVELS)
            yield Violation(field, f"rules[{index}].level {shown(level)}", allowed, messages.NO_LEVEL)
