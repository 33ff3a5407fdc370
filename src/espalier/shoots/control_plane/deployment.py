"""Common parts of the Deployments of a control plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from espalier.api.core import DEPLOYMENT
from espalier.api.meta import Tree

SECRETS = "/srv/kubernetes"
"""The folder in which Secrets are mounted, each in a folder with its name."""


API_SERVER_PROBES: Mapping[str, Tree] = {
    "startupProbe": {"periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 300},
    "livenessProbe": {
        "periodSeconds": 2,
        "timeoutSeconds": 2,
        "failureThreshold": 3,
        "terminationGracePeriodSeconds": 1,
    },
}
"""Probes of kube-apiserver, which must not answer from its cache for longer than `servingGrace` (10 s) after it lost
its etcd. Nothing else ends it: its health checks fail, but it still answers connected clients. These probes end it
after 6 s, plus 2 s for the last answer and 1 s to terminate.
"""
DEFAULT_PROBES: Mapping[str, Tree] = {
    "livenessProbe": {"periodSeconds": 10, "timeoutSeconds": 15, "initialDelaySeconds": 15, "failureThreshold": 3}
}


@dataclass(frozen=True)
class Program:
    """One program of a control plane."""

    name: str
    image: str
    flags: Mapping[str, str | Sequence[str]]
    """Without dashes; a list repeats its flag."""
    secrets: Sequence[str]
    port: int
    """The port of probes and of the API."""
    health: str = "/healthz"
    """Path of its liveness probe."""
    readiness: str = ""
    """Path of its readiness probe; empty for that of its liveness probe."""
    probes: Mapping[str, Tree] = field(default_factory=lambda: DEFAULT_PROBES)
    """Startup and liveness probes: their timing, by name."""
    scheme: str = "HTTPS"
    service_account: str = ""
    """Its ServiceAccount in the seed; empty for a program that does not use the seed's API server."""
    is_singleton: bool = False
    """True if no two pods may run at a time."""
    resources: Tree = field(default_factory=dict)


READINESS_PERIOD = 1
"""Seconds, the minimum of Kubernetes: the API gap of a move includes the time until the next probe."""


def labels_of(name: str) -> dict[str, str]:
    """The labels that select the pods of a program."""
    return {"app": "kubernetes", "role": name.removeprefix("kube-")}


def mounted(secret: str, key: str) -> str:
    """The path of a Secret's key in a container."""
    return f"{SECRETS}/{secret}/{key}"


def deployment(program: Program, namespace: str, replicas: int) -> Tree:
    """The Deployment of a program."""
    labels = labels_of(program.name)
    strategy: Tree = {"type": "Recreate"} if program.is_singleton else _rolling_update()
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {"name": program.name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": labels},
            "strategy": strategy,
            "template": {"metadata": {"labels": labels}, "spec": _pod(program)},
        },
    }


def _rolling_update() -> Tree:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def _pod(program: Program) -> Tree:
    account: Tree = {"automountServiceAccountToken": False}
    if program.service_account:
        account = {"serviceAccountName": program.service_account}
    return {
        **account,
        "terminationGracePeriodSeconds": 30,
        "containers": [_container(program)],
        "volumes": [{"name": name, "secret": {"secretName": name, "defaultMode": 0o640}} for name in program.secrets],
    }


def _container(program: Program) -> Tree:
    resources = {"resources": program.resources} if program.resources else {}
    return {
        "name": program.name,
        "image": program.image,
        "command": [f"/usr/local/bin/{program.name}"],
        "args": list(_arguments(program.flags)),
        "ports": [{"name": "https" if program.scheme == "HTTPS" else "http", "containerPort": program.port}],
        **{name: _probe(program, program.health, **times) for name, times in program.probes.items()},
        "readinessProbe": _probe(
            program,
            program.readiness or program.health,
            periodSeconds=READINESS_PERIOD,
            timeoutSeconds=15,
            failureThreshold=5,
        ),
        "volumeMounts": [
            {"name": name, "mountPath": f"{SECRETS}/{name}", "readOnly": True} for name in program.secrets
        ],
        **resources,
    }


def _arguments(flags: Mapping[str, str | Sequence[str]]) -> Sequence[str]:
    pairs = [(name, value) for name, flag in flags.items() for value in ([flag] if isinstance(flag, str) else flag)]
    return [f"--{name}={value}" for name, value in pairs]


def _probe(program: Program, path: str, **timing: Any) -> Tree:
    request = {"path": path, "port": program.port, "scheme": program.scheme}
    return {"httpGet": request, **timing}
