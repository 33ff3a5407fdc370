"""The Deployment of a program of ours in a cluster, with what protects it, and the flags that set its pods."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import click

from espalier.api import core
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.text.patterns import LABEL_NAME, LABEL_VALUE
from espalier.api.text.quantities import QUANTITY, amount
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Usage

Result = TypeVar("Result")

WEBHOOK_PORT, HEALTH_PORT, METRICS_PORT, DASHBOARD_PORT = 9443, 8081, 8080, 8443
USER = 65532
"""The user of our programs in their image, which no node knows."""

REPLICAS = 2
"""One acts, the other takes over; both serve webhooks."""

CONTROL_PLANE_TAINT = "node-role.kubernetes.io/control-plane:NoSchedule"
MEMORY_REQUEST, LEAST_MEMORY, MEMORY_LIMIT = "128Mi", "256Mi", "2Gi"
"""A manager without clusters takes 80 MiB, one with 10,000 of them 1,008 MiB (`docs/figures.md`)."""

MONITORING = "monitoring"
_KEY, _VALUE = re.compile(LABEL_NAME), re.compile(LABEL_VALUE)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class WhenUnsatisfiable(StrEnum):
    """How a pod is scheduled that can't have a node without another replica."""

    SCHEDULE_ANYWAY = "ScheduleAnyway"
    DO_NOT_SCHEDULE = "DoNotSchedule"


@dataclass(frozen=True)
class Pods:
    """Settings of the pods of a Deployment, in the words of a pod's spec."""

    image_pull_secrets: tuple[str, ...] = ()
    node_selector: Tree = field(default_factory=dict)
    tolerations: tuple[Tree, ...] = ()
    when_unsatisfiable: WhenUnsatisfiable = WhenUnsatisfiable.SCHEDULE_ANYWAY
    priority_class: str = ""
    memory_limit: str = MEMORY_LIMIT
    metrics_from: tuple[str, ...] = ()
    """Namespaces whose pods read the metrics; without any, they are served to the pod itself alone."""


@dataclass(frozen=True)
class Dashboard:
    """The dashboard that a program serves: its Service, and the namespaces of what forwards requests to it."""

    service: str
    opened_to: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A program that runs as a Deployment: `name` is that of its ServiceAccount too."""

    name: str
    container: str
    args: tuple[str, ...]
    image: str
    webhook_service: str = ""
    """Service of its webhooks; empty for a program without any."""

    secret_mounts: tuple[tuple[str, str], ...] = ()
    """Secrets that it reads, each with the folder where it finds them."""

    dashboard: Dashboard | None = None


_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "image_pull_secret": click.option(
        "--image-pull-secret",
        multiple=True,
        metavar="NAME",
        help=f"Secret in {SYSTEM_NAMESPACE} with the registry's credentials; repeat the flag for several.",
    ),
    "node_selector": click.option(
        "--node-selector",
        multiple=True,
        metavar="KEY=VALUE",
        help="Label of the nodes for the pods; repeat the flag for several.",
    ),
    "toleration": click.option(
        "--toleration",
        multiple=True,
        default=(CONTROL_PLANE_TAINT,),
        show_default=CONTROL_PLANE_TAINT,
        metavar="KEY[=VALUE][:EFFECT]",
        help="Taint that the pods tolerate, of any value and effect unless given; repeat the flag for several.",
    ),
    "topology_spread": click.option(
        "--topology-spread",
        type=flags.OneOf(WhenUnsatisfiable),
        default=str(WhenUnsatisfiable.SCHEDULE_ANYWAY),
        show_default=True,
        metavar=f"[{'|'.join(WhenUnsatisfiable)}]",
        help="What happens to a replica that can't have a node of its own.",
    ),
    "priority_class": click.option(
        "--priority-class",
        default="",
        metavar="NAME",
        help="PriorityClass of the pods, such as system-cluster-critical. Default: the cluster's.",
    ),
    "memory_limit": click.option(
        "--memory-limit",
        default=MEMORY_LIMIT,
        show_default=True,
        metavar="QUANTITY",
        help=f"Memory limit of a pod, at least {LEAST_MEMORY}; 0 for none.",
    ),
    "metrics": click.option(
        "--metrics",
        is_flag=True,
        help=f"Serve metrics on port {METRICS_PORT}, to pods of --metrics-namespace.",
    ),
    "metrics_namespace": click.option(
        "--metrics-namespace",
        multiple=True,
        default=(MONITORING,),
        show_default=MONITORING,
        metavar="NAMES",
        help="Namespaces of what scrapes them; comma-separated, or repeat the flag.",
    ),
}
"""The flags by their parameters' names, in the order of the help."""


def options(command: Callable[..., Result]) -> Callable[..., Result]:
    """The flags that set pods, given to the command as `pods`, a `Pods`; and `pod_flags`, those on the command line."""

    @functools.wraps(command)
    def with_pods(**values: Any) -> Result:
        own = {name: values.pop(name) for name in _OPTIONS}
        context = click.get_current_context()
        default = click.core.ParameterSource.DEFAULT
        given = ["--" + name.replace("_", "-") for name in own if context.get_parameter_source(name) is not default]
        return command(pods=_read(**own, is_restricted="--metrics-namespace" in given), pod_flags=given, **values)

    result: Callable[..., Result] = with_pods
    for option in reversed(_OPTIONS.values()):
        result = option(result)
    return result


def _read(
    *,
    image_pull_secret: Sequence[str],
    node_selector: Sequence[str],
    toleration: Sequence[str],
    topology_spread: WhenUnsatisfiable,
    priority_class: str,
    memory_limit: str,
    metrics: bool,
    metrics_namespace: Sequence[str],
    is_restricted: bool,
) -> Pods:
    """Raises `Usage`."""
    if is_restricted and not metrics:
        raise Usage("--metrics-namespace: found without --metrics, which serves metrics; give both, or neither")
    if priority_class:
        flags.check_name("--priority-class", priority_class, "a PriorityClass, such as system-cluster-critical")
    for name in image_pull_secret:
        flags.check_name("--image-pull-secret", name, f"a Secret in {SYSTEM_NAMESPACE}, such as registry-credentials")
    return Pods(
        image_pull_secrets=tuple(dict.fromkeys(image_pull_secret)),
        node_selector=_selector(node_selector),
        tolerations=tuple(_tolerated(text) for text in dict.fromkeys(toleration)),
        when_unsatisfiable=topology_spread,
        priority_class=priority_class,
        memory_limit=_memory(memory_limit),
        metrics_from=flags.namespaces(metrics_namespace, "--metrics-namespace") if metrics else (),
    )


def _selector(texts: Sequence[str]) -> Tree:
    """Raises `Usage`, also for a label with two values: no node has both."""
    labels: Tree = {}
    for key, value in map(_selected, texts):
        if labels.setdefault(key, value) != value:
            raise Usage(
                f"--node-selector: found {key}={labels[key]} and {key}={value}, allowed is one value of a label"
            )
    return labels


def _selected(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (equals and _KEY.fullmatch(key) and _VALUE.fullmatch(value)):
        raise Usage(f"--node-selector: found {text!r}, allowed is KEY=VALUE, such as node.example.com/pool=system")
    return key, value


def _tolerated(text: str) -> Tree:
    taint, colon, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    if not (_KEY.fullmatch(key) and _VALUE.fullmatch(value) and (not colon or effect in _EFFECTS)):
        raise Usage(
            f"--toleration: found {text!r}, allowed is KEY[=VALUE][:EFFECT] with effect {', '.join(_EFFECTS[:-1])} or "
            f"{_EFFECTS[-1]}, such as {CONTROL_PLANE_TAINT}"
        )
    matched: Tree = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {"key": key, **matched, **({"effect": effect} if effect else {})}


def _memory(text: str) -> str:
    if text == "0":
        return ""
    allowed = f"allowed is a quantity of at least {LEAST_MEMORY}, such as {MEMORY_LIMIT}, or 0 for no limit"
    try:
        size = amount(text) if QUANTITY.fullmatch(text) else None
    except ArithmeticError:
        size = None
    if size is None:
        raise Usage(f"--memory-limit: found {text!r}, {allowed}")
    if not amount(LEAST_MEMORY) <= size < 2**63:
        raise Usage(f"--memory-limit: found {text!r} ({size:,.15g} bytes), {allowed}")
    return text


def deployed(program: Program, pods: Pods) -> list[Tree]:
    """Services of what it serves, who may reach it, what keeps a replica, Deployment."""
    labels = {"app.kubernetes.io/name": program.name}
    open_to: list[Tree] = []
    service: list[Tree] = []
    if program.webhook_service:
        service.append(_service(program.webhook_service, "webhooks", labels))
        # API servers call webhooks from addresses that no selector names. Kubelets reach probes in any case.
        open_to.append({"ports": [{"protocol": "TCP", "port": "webhooks"}]})
    if pods.metrics_from:
        open_to.append(_open_to(pods.metrics_from, "metrics"))
    if program.dashboard is not None:
        service.append(_service(program.dashboard.service, "dashboard", labels))
        if program.dashboard.opened_to:  # forwarded ports come from the node itself
            open_to.append(_open_to(program.dashboard.opened_to, "dashboard"))
    return [
        *service,
        core.NETWORK_POLICY.body(program.name, SYSTEM_NAMESPACE)
        | {
            "spec": {
                "podSelector": {"matchLabels": labels},
                "policyTypes": ["Ingress"],
                **({"ingress": open_to} if open_to else {}),
            }
        },
        # A pod that is not ready protects nothing, and must not keep its node from being drained.
        core.POD_DISRUPTION_BUDGET.body(program.name, SYSTEM_NAMESPACE)
        | {
            "spec": {
                "maxUnavailable": 1,
                "selector": {"matchLabels": labels},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            }
        },
        core.DEPLOYMENT.body(program.name, SYSTEM_NAMESPACE)
        | {
            "spec": {
                "replicas": REPLICAS,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _pod(program, pods, labels)},
            }
        },
    ]


def _service(name: str, port: str, labels: Tree) -> Tree:
    """A Service for TLS to a port of the pods."""
    ports = [{"name": port, "port": 443, "targetPort": port}]
    return core.SERVICE.body(name, SYSTEM_NAMESPACE) | {"spec": {"selector": labels, "ports": ports}}


def _open_to(namespaces: Sequence[str], port: str) -> Tree:
    """A rule that lets pods of these namespaces reach a port."""
    named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
    ports = [{"protocol": "TCP", "port": port}]
    return {"from": [{"namespaceSelector": {"matchExpressions": [named]}}], "ports": ports}


def _pod(program: Program, pods: Pods, labels: Tree) -> Tree:
    secrets = [(f"secret-{name}", name, folder) for name, folder in program.secret_mounts]
    optional = {
        "imagePullSecrets": [{"name": name} for name in pods.image_pull_secrets],
        "priorityClassName": pods.priority_class,
        "nodeSelector": pods.node_selector,
        "tolerations": list(pods.tolerations),
    }
    return {
        "serviceAccountName": program.name,
        "securityContext": {"runAsUser": USER, "runAsGroup": USER},
        **{name: value for name, value in optional.items() if value},
        "topologySpreadConstraints": [
            _spread("kubernetes.io/hostname", pods.when_unsatisfiable, labels),
            _spread("topology.kubernetes.io/zone", WhenUnsatisfiable.SCHEDULE_ANYWAY, labels),
        ],
        "containers": [_container(program, pods, {name: folder for name, _, folder in secrets})],
        "volumes": [
            {"name": "temporary", "emptyDir": {"medium": "Memory"}},  # ssl reads certificates from files
            *({"name": volume, "secret": {"secretName": name}} for volume, name, _ in secrets),
        ],
        "terminationGracePeriodSeconds": 40,
    }


def _spread(key: str, when: WhenUnsatisfiable, labels: Tree) -> Tree:
    """A constraint that counts the pods of one ReplicaSet alone: those of a rollout also spread among each other."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": str(when),
        "labelSelector": {"matchLabels": labels},
        "matchLabelKeys": ["pod-template-hash"],
    }


def _container(program: Program, pods: Pods, folders: dict[str, str]) -> Tree:
    probe = {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 10}
    ports = {"webhooks": WEBHOOK_PORT} if program.webhook_service else {}
    ports |= {"health": HEALTH_PORT} | ({"metrics": METRICS_PORT} if pods.metrics_from else {})
    ports |= {"dashboard": DASHBOARD_PORT} if program.dashboard is not None else {}
    flags_of = {"webhooks": "--webhook-address"}
    listening = [text for name, port in ports.items() for text in (flags_of.get(name, f"--{name}-address"), f":{port}")]
    mounts = [{"name": name, "mountPath": folder, "readOnly": True} for name, folder in folders.items()]
    return {
        "name": program.container,
        "image": program.image,
        "command": ["espalier"],
        "args": [program.args[0], *listening, *program.args[1:]],
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        "livenessProbe": probe | {"httpGet": {"path": "/healthz", "port": "health"}},
        "readinessProbe": probe,
        "resources": {
            "requests": {"cpu": "100m", "memory": MEMORY_REQUEST},
            **({"limits": {"memory": pods.memory_limit}} if pods.memory_limit else {}),
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "temporary", "mountPath": "/tmp"}, *mounts],  # noqa: S108
    }
