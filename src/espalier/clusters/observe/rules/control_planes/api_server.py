"""Rules about configuration of kube-apiserver: with an invalid one it does not start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.control_plane import FLAG, FLAGS
from espalier.api.eksa.vocabulary import sentences
from espalier.api.meta import Tree
from espalier.api.text.violations import ManifestError, Violation, shown
from espalier.api.trees import yaml_trees
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.rules.control_planes import api_server_flags

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
"""Flags that kubeadm and this program set."""

_GATE = " *[A-Za-z0-9]+ *= *(true|false|True|False|TRUE|FALSE|0|1|t|f|T|F)"
_NUMBER, _DURATION = "a number", "a duration like 1h0m0s"
_NUMBERS = frozenset(
    {
        *("v", "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize", "max-requests-inflight"),
        *("max-mutating-requests-inflight", "min-request-timeout", "default-watch-cache-size"),
    }
)
_DURATIONS = frozenset({"event-ttl", "request-timeout", "shutdown-delay-duration", "etcd-compaction-interval"})
_VALUES: Mapping[str, tuple[re.Pattern[str], str]] = {
    **dict.fromkeys(_NUMBERS, (re.compile(r"\+?[0-9][0-9a-fA-FxXoO_]*"), _NUMBER)),
    **dict.fromkeys(_DURATIONS, (re.compile(r"0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+"), _DURATION)),
    "profiling": (re.compile("1|t|T|true|TRUE|True|0|f|F|false|FALSE|False"), "true or false"),
    "feature-gates": (re.compile(f"({_GATE})?( *, *({_GATE})?)*"), "NAME=true,NAME=false"),
    "allow-privileged": (re.compile("true"), "true: the pod network needs it"),
    "enable-bootstrap-token-auth": (re.compile("true"), "true: machines join with bootstrap tokens"),
}
"""The valid values of flags whose format is the same in all versions."""

_AUDIT_VERSION, _AUDIT_KIND = "audit.k8s.io/v1", "Policy"
_AUDIT_LEVELS = ("None", "Metadata", "Request", "RequestResponse")
_AUDIT_STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class _Resources(msgspec.Struct, rename="camel"):
    group: str | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None


class _Rule(msgspec.Struct):
    """A rule of an audit policy, decoded as in kube-apiserver: unknown fields are ignored."""

    users: list[str] | None = None
    user_groups: list[str] | None = msgspec.field(default=None, name="userGroups")
    verbs: list[str] | None = None
    resources: list[_Resources] | None = None
    namespaces: list[str] | None = None
    urls: list[str] | None = msgspec.field(default=None, name="nonResourceURLs")
    stages: list[str] | None = msgspec.field(default=None, name="omitStages")
    omit_managed_fields: bool | None = msgspec.field(default=None, name="omitManagedFields")


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Unknown or reserved flags, invalid values, and an invalid audit policy."""
    control_plane = spec.control_plane_configuration
    if control_plane is None:
        return
    field = "spec.controlPlaneConfiguration.apiServerExtraArgs"
    for flag, value in control_plane.api_server_extra_args.items():
        if not _FLAG.fullmatch(flag):
            yield Violation(field, flag or "nothing", FLAGS, sentences.NO_FLAG)
        elif flag in _BUILT:
            yield Violation(f"{field}.{flag}", value, "nothing", messages.BUILT_FLAG)
        elif flag in _VALUES and not _VALUES[flag][0].fullmatch(value):
            yield Violation(f"{field}.{flag}", value or "nothing", _VALUES[flag][1], messages.FLAG_VALUE)
    if control_plane.audit_policy_content:
        yield from _audit("spec.controlPlaneConfiguration.auditPolicyContent", control_plane.audit_policy_content)


def warnings(spec: eksa.ClusterSpec) -> Iterator[str]:
    """Flags that no supported kube-apiserver lists. EKS Anywhere accepts them, so they are only warned about."""
    control_plane = spec.control_plane_configuration
    for flag in control_plane.api_server_extra_args if control_plane is not None else ():
        if flag not in api_server_flags.KNOWN and _FLAG.fullmatch(flag):
            yield f"spec.controlPlaneConfiguration.apiServerExtraArgs.{flag}: {messages.UNKNOWN_FLAG}"


def _audit(field: str, text: str) -> Iterator[Violation]:
    try:
        policies = yaml_trees.trees(text, "")
    except ManifestError as error:
        yield from (
            Violation(field, "", "", f"{problem.violation.message} (line {problem.line})") for problem in error.problems
        )
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
        elif isinstance(rule, dict):
            yield from _rule(field, f"rules[{index}]", rule)
    yield from _rule(field, "", {"omitStages": policy.get("omitStages")})


def _rule(field: str, at: str, tree: Tree) -> Iterator[Violation]:
    """The checks of a rule that kube-apiserver makes at its start."""
    place = f"{at}." if at else ""
    try:
        rule = msgspec.convert(tree, _Rule)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at ")
        yield Violation(field, f"{at}{path.strip('`').removeprefix('$') or ''}", what, messages.NO_POLICY)
        return
    for stage in rule.stages or ():
        if stage not in _AUDIT_STAGES:
            allowed = ", ".join(_AUDIT_STAGES)
            yield Violation(field, f"{place}omitStages {shown(stage)}", allowed, messages.NO_POLICY)
    for url in rule.urls or ():
        if url != "*" and (not url.startswith("/") or "*" in url[:-1]):
            allowed = "paths that start with /, with * only at the end"
            yield Violation(field, f"{place}nonResourceURLs {shown(url)}", allowed, messages.NO_POLICY)
    if rule.urls and (rule.resources or rule.namespaces):
        allowed = "nonResourceURLs, or resources and namespaces"
        yield Violation(field, f"{at} with both", allowed, messages.NO_POLICY)
    for resources in rule.resources or ():
        if resources.group and not _SUBDOMAIN.fullmatch(resources.group):
            allowed = "the name of an API group, without its version"
            yield Violation(field, f"{place}resources.group {shown(resources.group)}", allowed, messages.NO_POLICY)
        if resources.resource_names and not resources.resources:
            allowed = "resources beside resourceNames"
            yield Violation(field, f"{place}resources with resourceNames alone", allowed, messages.NO_POLICY)
