"""What Kubernetes fills in and forbids for built-in kinds beyond their schemas, as far as the kinds here are used.

Which defaults and rules there are is the Kubernetes API reference's to say; fields not named here keep what they have.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from espalier.api import core
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.apiserver import failures
from espalier.apiserver.pod_rules import check_keys, check_pod
from espalier.apiserver.registry import Check, Complete
from espalier.apiserver.webhook_rules import problems_of
from espalier.kube.errors import StatusCause

NAME_LABEL = "kubernetes.io/metadata.name"
NAMESPACE_FINALIZER = "kubernetes"

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
_WITH_PODS = (core.DEPLOYMENT, core.DAEMON_SET, core.REPLICA_SET, core.STATEFUL_SET)
_WEBHOOK_DEFAULTS: Tree = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}


def _fill(tree: Tree, defaults: Tree) -> None:
    """Set what is missing; nested objects are filled only where they are missing as a whole."""
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
        elif resource == core.POD:
            _pod_spec(spec)
            if old is None:
                new["status"] = {"phase": "Pending"}

    return complete


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
    metadata.setdefault("labels", {})[NAME_LABEL] = metadata.get("name", "")
    if old is None:
        new["spec"] = {"finalizers": [NAMESPACE_FINALIZER]}
        new["status"] = {"phase": "Active"}


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
    for name, text in (new.get("data") or {}).items():
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError):
            # The value is not shown: it is a secret, however badly written.
            yield failures.cause("FieldValueInvalid", f"data[{name}]", "Invalid value: must be base64 encoded")
    if old is not None and old.get("type") != new.get("type"):
        yield failures.immutable("type", new.get("type"))
    yield from _check_data(new, old)


def _check_data(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    """Keys are names; Secrets and ConfigMaps that say they never change don't."""
    if old is None or any(old.get(field) != new.get(field) for field in ("data", "binaryData")):
        yield from check_keys(new)
    if old is None or not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield failures.forbidden_field("immutable", "field is immutable when `immutable` is set")
    for field in ("data", "binaryData"):
        if new.get(field) != old.get(field):
            yield failures.forbidden_field(field, "field is immutable when `immutable` is set")


def _check_pod(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    if old is None or old.get("spec") != new.get("spec"):  # a pod that is there already can report its status
        yield from check_pod(new.get("spec"), "spec")


def _check_workload(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    """The selector of a workload matches its pods, and stays what it is; its pods could be made."""
    spec = new.get("spec") or {}
    if old is None or old.get("spec") != spec:
        yield from check_pod((spec.get("template") or {}).get("spec"), "spec.template.spec")
    selector = spec.get("selector") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    wanted = selector.get("matchLabels") or {}
    if not wanted and not selector.get("matchExpressions"):
        yield failures.invalid("spec.selector", selector, "empty selector is invalid for deployment")
    elif any(labels.get(name) != value for name, value in wanted.items()):
        yield failures.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if old is not None and (old.get("spec") or {}).get("selector") != selector:
        yield failures.immutable("spec.selector", selector)


def _check_role_binding(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    if old is not None and old.get("roleRef") != new.get("roleRef"):
        yield failures.invalid("roleRef", new.get("roleRef"), "cannot change roleRef")


def _check_webhooks(new: Tree, old: Tree | None) -> Iterable[StatusCause]:
    return problems_of(new)


COMPLETE: Mapping[Resource, Complete] = MappingProxyType(
    {
        **{resource: _spec(resource) for resource in _SPEC_DEFAULTS},
        core.NAMESPACE: _namespace,
        core.SECRET: _secret,
        core.ROLE_BINDING: _role_binding,
        core.CLUSTER_ROLE_BINDING: _role_binding,
        core.MUTATING_WEBHOOK_CONFIGURATION: _webhooks(True),
        core.VALIDATING_WEBHOOK_CONFIGURATION: _webhooks(False),
    }
)

CHECKS: Mapping[Resource, Check] = MappingProxyType(
    {
        core.SECRET: _check_secret,
        core.CONFIG_MAP: _check_data,
        core.POD: _check_pod,
        core.DEPLOYMENT: _check_workload,
        core.DAEMON_SET: _check_workload,
        core.REPLICA_SET: _check_workload,
        core.STATEFUL_SET: _check_workload,
        core.ROLE_BINDING: _check_role_binding,
        core.CLUSTER_ROLE_BINDING: _check_role_binding,
        core.MUTATING_WEBHOOK_CONFIGURATION: _check_webhooks,
        core.VALIDATING_WEBHOOK_CONFIGURATION: _check_webhooks,
    }
)
