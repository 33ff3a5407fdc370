"""Defaults and validation of built-in kinds beyond their schemas, for the kinds that are used here.

They follow the Kubernetes API reference; fields that are not named here are not defaulted or validated.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from espalier.api import core
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.apiserver.builtin import pod_rules, signing_requests, workload_rules
from espalier.apiserver.builtin.pod_status import qos_class
from espalier.apiserver.builtin.webhook_rules import problems_of
from espalier.apiserver.schema import names
from espalier.apiserver.schema.registry import Check, Complete
from espalier.apiserver.wire import failures, go_json
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


NAME_LABEL = "kubernetes.io/metadata.name"
NAMESPACE_FINALIZER = "kubernetes"
MAX_DATA = 1024 * 1024
"""The maximum bytes of all values of a ConfigMap or Secret."""

_SECRET_PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kubernetes.io/tls": ("tls.crt", "tls.key"),
        "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
        "kubernetes.io/dockercfg": (".dockercfg",),
        "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    }
)

_POD: Tree = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_ROLLING: Tree = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
_SPEC_DEFAULTS: Mapping[Resource, Tree] = MappingProxyType(
    {
        core.POD: {**_POD, "enableServiceLinks": True},
        core.DEPLOYMENT: {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": _ROLLING,
        },
        core.DAEMON_SET: {
            "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        },
        core.REPLICA_SET: {"replicas": 1},
        core.STATEFUL_SET: {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        },
        core.SERVICE: {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"},
    }
)
_TOLERATED_FOR_MINUTES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of nodes that a Pod which says nothing of them tolerates for five minutes."""
_WITH_PODS = (core.DEPLOYMENT, core.DAEMON_SET, core.REPLICA_SET, core.STATEFUL_SET)
_WEBHOOK_DEFAULTS: Tree = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}


def _fill(tree: Tree, defaults: Tree) -> None:
    """Set defaults; nested objects only get them when missing as a whole."""
    for name, value in defaults.items():
        if tree.get(name) is None:
            tree[name] = _copied(value)


def _copied(value: object) -> object:
    return {name: _copied(part) for name, part in value.items()} if isinstance(value, dict) else value


def _spec(resource: Resource) -> Complete:
    def complete(new: Tree, old: Tree | None) -> None:
        spec = new.setdefault("spec", {})
        if not isinstance(spec, dict):
            return
        _fill(spec, _SPEC_DEFAULTS[resource])
        if resource in _WITH_PODS:
            template = spec.get("template")
            if isinstance(template, dict) and isinstance(template.get("spec"), dict):
                _pod_spec(template["spec"])
        if resource == core.POD:
            _pod_spec(spec)
            for condition in (new.get("status") or {}).get("conditions") or ():
                for name in ("lastProbeTime", "lastTransitionTime"):
                    condition.setdefault(name, None)
        elif resource == core.SERVICE:
            for port in spec.get("ports") or ():
                if isinstance(port, dict):
                    _fill(port, {"protocol": "TCP", "targetPort": port.get("port")})

    return complete


def _assign_status(status: Tree) -> Complete:
    def assign(new: Tree, old: Tree | None) -> None:
        if old is None:
            new["status"] = _copied(status)

    return assign


def _assign_pod(new: Tree, old: Tree | None) -> None:
    """The status of a new Pod, and what admission plugins that are on by default put into its spec."""
    if old is not None:
        return
    new["status"] = {"phase": "Pending", "qosClass": qos_class(new)}
    spec = new["spec"]
    _fill(spec, {"serviceAccountName": "default", "tolerations": []})
    spec["serviceAccount"] = spec["serviceAccountName"]
    if not spec.get("priorityClassName"):
        _fill(spec, {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"})
    tolerated = {toleration.get("key") for toleration in spec["tolerations"]}
    for key in _TOLERATED_FOR_MINUTES:
        if not tolerated & {key, None, ""}:
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            spec["tolerations"] = [*spec["tolerations"], toleration]


def _assign_service(new: Tree, old: Tree | None) -> None:
    """Families of addresses for a Service without an address; others get none from this server."""
    if old is None:
        new["status"] = {"loadBalancer": {}}
    spec = new["spec"]
    if spec.get("clusterIP") != "None":
        return
    before = (old or {}).get("spec") or {}
    families = ["IPv4"] if spec.get("selector") else ["IPv4", "IPv6"]
    _fill(spec, {"clusterIPs": ["None"], "ipFamilies": before.get("ipFamilies") or families})
    policy = "SingleStack" if len(spec["ipFamilies"]) == 1 else "RequireDualStack"
    _fill(spec, {"ipFamilyPolicy": before.get("ipFamilyPolicy") or policy})


def _assign_namespace(new: Tree, old: Tree | None) -> None:
    metadata = new["metadata"]
    metadata.setdefault("labels", {})[NAME_LABEL] = metadata.get("name", "")
    if old is None:
        new["spec"] = {"finalizers": [NAMESPACE_FINALIZER]}
        new["status"] = {"phase": "Active"}


def _assign_revision(new: Tree, old: Tree | None) -> None:
    _fill(new, {"revision": 0})


def _check_controller_revision(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    if new.get("data") is None:
        yield failures.required("data", "data is mandatory")
    revision = new.get("revision") or 0
    if revision < 0:
        yield failures.invalid("revision", revision, workload_rules.NOT_NEGATIVE)
    if old is not None and old.get("data") != new.get("data"):
        yield failures.immutable("data", new.get("data"))


def _pod_spec(spec: Tree) -> None:
    _fill(spec, _POD)
    for containers in ("containers", "initContainers"):
        for container in spec.get(containers) or ():
            if isinstance(container, dict):
                _fill(container, {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"})
                image = str(container.get("image", ""))
                tag = image.rpartition("/")[2].partition(":")[2]
                _fill(
                    container,
                    {"resources": {}, "imagePullPolicy": "Always" if tag in ("", "latest") else "IfNotPresent"},
                )


def _namespace(new: Tree, old: Tree | None) -> None:
    metadata = new["metadata"]
    if metadata.get("name") and not metadata.get("generateName"):
        metadata.setdefault("labels", {})[NAME_LABEL] = metadata["name"]


def _secret(new: Tree, old: Tree | None) -> None:
    plain = new.pop("stringData", None)
    if isinstance(plain, dict):
        data = new.setdefault("data", {})
        for name, text in plain.items():
            data[name] = base64.b64encode(str(text).encode()).decode()
    new.setdefault("type", "Opaque")


def _role_binding(new: Tree, old: Tree | None) -> None:
    group = "rbac.authorization.k8s.io"
    if isinstance(new.get("roleRef"), dict):
        _fill(new["roleRef"], {"apiGroup": group})
    for subject in new.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            _fill(subject, {"apiGroup": group})


def _webhooks(mutating: bool) -> Complete:
    defaults = {**_WEBHOOK_DEFAULTS, "reinvocationPolicy": "Never"} if mutating else _WEBHOOK_DEFAULTS

    def complete(new: Tree, old: Tree | None) -> None:
        for webhook in new.get("webhooks") or ():
            _fill(webhook, defaults)
            for rule in webhook.get("rules") or ():
                _fill(rule, {"scope": "*"})

    return complete


def _check_secret(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    data = new.get("data") or {}
    for name in data:
        yield from names.key(f"data[{name}]", name)
    if sum(map(len, data.values())) * 3 // 4 > MAX_DATA:
        yield failures.too_long("data", MAX_DATA)
    for name in _SECRET_PARTS.get(new.get("type", ""), ()):
        if name not in data:
            yield failures.required(f"data[{name}]")
    if new.get("type") == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield from (failures.required(f"data[{name}]") for name in ("username", "password"))
    if new.get("type") == "kubernetes.io/service-account-token":
        account = "kubernetes.io/service-account.name"
        if not (new["metadata"].get("annotations") or {}).get(account):
            yield failures.required(f"metadata.annotations[{account}]")
    yield from _check_registry(data)
    if old is not None and old.get("type") != new.get("type"):
        yield failures.immutable("type", new.get("type"))
    yield from _check_immutable(new, old)


def _check_registry(data: Tree) -> Iterator[StatusCause]:
    """Validate registry credentials as JSON. The value is not shown, because it is secret."""
    text = data.get(".dockerconfigjson")
    if text is not None:
        try:
            go_json.decoded(base64.b64decode(text))
        except go_json.Malformed as error:
            yield failures.invalid("data[.dockerconfigjson]", "<secret contents redacted>", str(error))


def _check_config_map(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    for field, part, other in (("data", data, "binaryData"), ("binaryData", binary, "data")):
        for name in part:
            yield from names.key(f"{field}[{name}]", name)
            if field == "data" and name in binary:
                yield failures.invalid(f"{field}[{name}]", name, f"duplicate of key present in {other}")
    if sum(len(text.encode()) for text in data.values()) + sum(map(len, binary.values())) * 3 // 4 > MAX_DATA:
        yield failures.too_long("[]", MAX_DATA)
    yield from _check_immutable(new, old)


def _check_immutable(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    """Validate changes of immutable Secrets and ConfigMaps."""
    if old is None or not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield failures.forbidden_field("immutable", "field is immutable when `immutable` is set")
    for field in ("data", "binaryData"):
        if new.get(field) != old.get(field):
            yield failures.forbidden_field(field, "field is immutable when `immutable` is set")


def _check_lease(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    for name in ("leaseDurationSeconds", "leaseTransitions"):
        value, least = (new.get("spec") or {}).get(name), 1 if name == "leaseDurationSeconds" else 0
        if value is not None and value < least:
            detail = "must be greater than 0" if least else "must be greater than or equal to 0"
            yield failures.invalid(f"spec.{name}", value, detail)


def _check_webhooks(new: Tree, old: Tree | None) -> Iterable[StatusCause]:
    return problems_of(new)


COMPLETE: Mapping[Resource, Complete] = MappingProxyType(
    {
        core.NAMESPACE: _namespace,
        **{resource: _spec(resource) for resource in _SPEC_DEFAULTS},
        core.SECRET: _secret,
        core.ROLE_BINDING: _role_binding,
        core.CLUSTER_ROLE_BINDING: _role_binding,
        core.MUTATING_WEBHOOK_CONFIGURATION: _webhooks(True),
        core.VALIDATING_WEBHOOK_CONFIGURATION: _webhooks(False),
    }
)

ASSIGN: Mapping[Resource, Complete] = MappingProxyType(
    {
        core.POD: _assign_pod,
        core.SERVICE: _assign_service,
        core.NAMESPACE: _assign_namespace,
        core.DEPLOYMENT: _assign_status({}),
        core.CONTROLLER_REVISION: _assign_revision,
    }
)

CHECKS: Mapping[Resource, Check] = MappingProxyType(
    {
        core.SECRET: _check_secret,
        core.CONFIG_MAP: _check_config_map,
        core.CONTROLLER_REVISION: _check_controller_revision,
        core.POD: pod_rules.check,
        core.DEPLOYMENT: workload_rules.check,
        core.DAEMON_SET: workload_rules.check,
        core.REPLICA_SET: workload_rules.check,
        core.STATEFUL_SET: workload_rules.check,
        core.SERVICE: workload_rules.check_service,
        core.POD_DISRUPTION_BUDGET: workload_rules.check_budget,
        core.ROLE: check_role,
        core.CLUSTER_ROLE: check_cluster_role,
        core.LEASE: _check_lease,
        core.CERTIFICATE_SIGNING_REQUEST: signing_requests.check,
        core.ROLE_BINDING: check_binding,
        core.CLUSTER_ROLE_BINDING: check_binding,
        core.MUTATING_WEBHOOK_CONFIGURATION: _check_webhooks,
        core.VALIDATING_WEBHOOK_CONFIGURATION: _check_webhooks,
    }
)
