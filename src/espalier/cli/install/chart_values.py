"""The values of the chart: `values.yaml`, `values.schema.json` and the table of the README are made of one table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.cli.install.deployment import MEMORY_LIMIT, MEMORY_REQUEST, MONITORING, REPLICAS, WhenUnsatisfiable
from espalier.cli.install.pod_schemas import AFFINITY, LABELS, MOST, TOLERATIONS, closed, name, some
from espalier.cli.kit.flags import LABEL
from espalier.cli.kit.printing import output
from espalier.cli.programs import manager
from espalier.releases.contents import NAME as IMAGE_NAME

WEBHOOK_SECRET = "espalier-webhook-certificate"  # noqa: S105  the name of a Secret
OF_MOVES = r"^clusterctl\.cluster\.x-k8s\.io"
"""Labels of CRDs, by which clusterctl finds objects to be moved."""
POD_LABEL = "app.kubernetes.io/name"

SET_FLAGS = (
    "--webhook-address",
    "--health-address",
    "--metrics-address",
    "--dashboard-address",
    "--namespace",
    "--in-place",
    "--webhook-secret",
)
"""Flags of the manager that the chart itself sets, by its values."""

_QUANTITY: Tree = {
    "type": ["string", "number"],
    "pattern": r"^[+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$",
    "minimum": 0,
}
_MEMORY: Tree = {
    "type": ["string", "integer"],
    "pattern": r"^([0-9]{9,}|[0-9]+(\.[0-9]+)?([MGT]i?|Ki))$",
    "minimum": 10**8,
}
"""In thousandths of a byte, or with a few bytes, it is a mistake."""
_BOOLEAN = {"type": "boolean"}
_EMPTY: tuple[Any, ...] = ("", [], {})
_NULLABLE = ("resources", "tolerations")
"""Values with a default that null removes, which leaves a pod that Kubernetes allows."""
_TIMES = ("y", "w", "d", "h", "m", "s", "ms")
"""Units of times of Prometheus, each at most once, in this order."""


def _strings(pattern: str = "") -> Tree:
    return {"type": "array", "items": {"type": "string", **({"pattern": pattern} if pattern else {})}}


def _flags() -> str:
    """The pattern of flags of the manager that the chart does not set itself."""
    switches: list[str] = []
    others: list[str] = []
    for option in manager.manager.params:
        names = [
            text for text in (*option.opts, *option.secondary_opts) if text.startswith("--") and text not in SET_FLAGS
        ]
        (switches if isinstance(option, click.Option) and option.is_flag else others).extend(names)
    return f"^({'|'.join(switches)}|({'|'.join(others)})=.+)$"


def _words(words: Sequence[str]) -> Tree:
    return {"enum": [str(word) for word in words]}


@dataclass(frozen=True)
class Value:
    """A value of the chart: its dotted path, its default, what it means, and the JSON schema of what is allowed."""

    path: str
    default: Any
    meaning: str
    schema: Tree = field(default_factory=dict)


VALUES = (
    Value(
        "image.repository",
        "",
        "Name of the image that you pushed, such as registry.example.com/espalier. Required.",
        {"type": "string", "pattern": f"^({IMAGE_NAME})?$"},
    ),
    Value(
        "image.tag",
        "",
        "Its tag. Default: appVersion of the chart, unless there is a digest.",
        {"type": "string", "pattern": r"^(\w[\w.-]{0,127})?$"},
    ),
    Value(
        "image.digest",
        "",
        "Its digest (sha256:...), which pins the image whatever the tag is.",
        {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    ),
    Value(
        "image.pullPolicy",
        "",
        "When nodes pull it. Default: that of Kubernetes.",
        _words(("", "Always", "IfNotPresent", "Never")),
    ),
    Value(
        "imagePullSecrets",
        [],
        f"Secrets in {SYSTEM_NAMESPACE} with the registry's credentials, each as {{name: NAME}}.",
        {
            "type": "array",
            "items": closed(("name",), name=name()),
        },
    ),
    Value(
        "replicas",
        REPLICAS,
        "One acts, the others take over; all serve webhooks.",
        {"type": "integer", "minimum": 0, "maximum": MOST},
    ),
    Value("podDisruptionBudget.enabled", True, "Have a PodDisruptionBudget.", _BOOLEAN),
    Value(
        "podDisruptionBudget.maxUnavailable",
        1,
        "Pods that a drain may evict at a time: a number, or a percentage.",
        {"type": ["integer", "string"], "minimum": 0, "maximum": MOST, "pattern": "^(100|[0-9]{1,2})%$"},
    ),
    Value(
        "topologySpread",
        str(WhenUnsatisfiable.SCHEDULE_ANYWAY),
        "What happens to a replica that can't have a node of its own.",
        _words(tuple(WhenUnsatisfiable)),
    ),
    Value(
        "tolerations",
        [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
        "Taints that the pods tolerate. Yours replace the default.",
        TOLERATIONS,
    ),
    Value("nodeSelector", {}, "Labels of the nodes for the pods.", LABELS),
    Value("affinity", {}, "Affinity of the pods.", AFFINITY),
    Value("priorityClassName", "", "PriorityClass of the pods. Default: the cluster's.", name(required=False)),
    Value(
        "resources",
        {"requests": {"cpu": "100m", "memory": MEMORY_REQUEST}, "limits": {"memory": MEMORY_LIMIT}},
        "80 MiB without clusters, 1,008 MiB with 10,000 of them. `limits: null` removes the limit.",
        closed(
            **{
                part: closed(cpu=_QUANTITY, memory=_MEMORY, **{"ephemeral-storage": _QUANTITY})
                | {"type": ["object", "null"]}
                for part in ("requests", "limits")
            },
        ),
    ),
    Value(
        "namespaces",
        [],
        "Namespaces of the Clusters that this manager manages. They must exist. Default: all.",
        _strings(f"^{LABEL}$"),
    ),
    Value(
        "managementCluster",
        "",
        "NAMESPACE/NAME of the Cluster that represents the management cluster.",
        {"type": "string", "pattern": f"^({LABEL}/{LABEL})?$"},
    ),
    Value(
        "inPlace",
        str(FrontEnd.ANNOTATIONS),
        "How machines are upgraded in place, as for `espalier manager --in-place`.",
        _words(tuple(FrontEnd)),
    ),
    Value(
        "webhooks.secretName",
        "",
        "Secret with the webhooks' certificate (tls.crt, tls.key, ca.crt), which you issue and renew. Default: the "
        "manager issues its own.",
        name(required=False),
    ),
    Value(
        "webhooks.certManager.enabled",
        False,
        f"Have cert-manager issue the certificate, into `webhooks.secretName` or {WEBHOOK_SECRET}.",
        _BOOLEAN,
    ),
    Value(
        "webhooks.certManager.issuerRef",
        {},
        "Issuer of the certificate, as in a Certificate. It has to give a ca.crt. Default: one with an authority of "
        "its own, which the chart adds.",
        closed(name=name(), kind={"type": "string"}, group={"type": "string"})
        | {"dependencies": {"kind": ["name"], "group": ["name"]}},
    ),
    Value("extraArgs", [], "Further flags of `espalier manager`, such as --log-level=debug.", _strings(_flags())),
    Value("metrics.enabled", False, "Serve metrics on port 8080 of the pods.", _BOOLEAN),
    Value(
        "metrics.namespaces",
        [MONITORING],
        "Namespaces whose pods the NetworkPolicy lets scrape them.",
        some({"type": "string", "pattern": f"^{LABEL}$"}),
    ),
    Value(
        "metrics.serviceMonitor.enabled",
        False,
        "Have a ServiceMonitor of the Prometheus operator, and its Service. Needs `metrics.enabled`.",
        _BOOLEAN,
    ),
    Value(
        "metrics.serviceMonitor.labels",
        {},
        "Labels by which Prometheus selects it.",
        {**LABELS, "properties": {POD_LABEL: False}},
    ),
    Value(
        "metrics.serviceMonitor.interval",
        "",
        "Interval of scrapes, such as 30s. Default: that of Prometheus.",
        {"type": "string", "pattern": f"^{''.join(f'([0-9]+{unit})?' for unit in _TIMES)}$"},
    ),
    Value(
        "dashboard.enabled",
        False,
        "Serve the dashboard on port 8443 of the pods, to whoever has a token of the API server, with its Service.",
        _BOOLEAN,
    ),
    Value(
        "dashboard.namespaces",
        [],
        "Namespaces of what forwards requests to it, such as an ingress controller. Default: forwarded ports alone "
        "reach it.",
        _strings(f"^{LABEL}$"),
    ),
    Value(
        "networkPolicy.enabled",
        True,
        "Have a NetworkPolicy: TCP to the webhooks from anywhere, to metrics from `metrics.namespaces`, to the "
        "dashboard from `dashboard.namespaces`, nothing else.",
        _BOOLEAN,
    ),
    Value(
        "commonLabels",
        {},
        "Labels of all objects, and of the pods.",
        {**LABELS, "properties": {POD_LABEL: False}, "patternProperties": {OF_MOVES: False}},
    ),
    Value(
        "crds.enabled",
        True,
        "Install and upgrade CRDs. Disable it if you apply those of `espalier manifests` yourself.",
        _BOOLEAN,
    ),
    Value(
        "crds.keep",
        True,
        "Keep CRDs, and with them all clusters, when the release is uninstalled.",
        _BOOLEAN,
    ),
)

OF_FLAGS = {
    "--image": "image.repository, image.tag and image.digest",
    "--namespace": "namespaces",
    "--in-place": "inPlace",
    "--management-cluster": "managementCluster",
    "--webhook-secret": "webhooks.secretName",
    "--image-pull-secret": "imagePullSecrets",
    "--node-selector": "nodeSelector",
    "--toleration": "tolerations",
    "--topology-spread": "topologySpread",
    "--priority-class": "priorityClassName",
    "--memory-limit": "resources.limits.memory",
    "--metrics": "metrics.enabled",
    "--metrics-namespace": "metrics.namespaces",
    "--dashboard": "dashboard.enabled",
    "--dashboard-namespace": "dashboard.namespaces",
}
"""Flags of `espalier manifests`, and the values of the chart that stand for them."""


def schema() -> str:
    """`values.schema.json`. A value that the chart does not know is refused: it is a typo.

    So is null where templates need a value: Helm then removes the default. An old release's values that are reused
    with a newer chart lack what is new there, too.
    """
    root: Tree = {"$schema": "http://json-schema.org/draft-07/schema#", **closed()}
    root["properties"]["global"] = {"type": "object", "description": "Values that all charts of a release share."}
    for value in VALUES:
        *parents, last = value.path.split(".")
        place = root
        for parent in parents:
            _require(place, parent)
            place = place["properties"].setdefault(parent, closed())
        place["properties"][last] = {"description": value.meaning, **value.schema}
        if value.default not in _EMPTY and value.path not in _NULLABLE:
            _require(place, last)
    return json.dumps(root, indent=2) + "\n"


def _require(place: Tree, field_name: str) -> None:
    required = place.setdefault("required", [])
    if field_name not in required:
        required.append(field_name)


def values_yaml() -> str:
    """`values.yaml`, with a comment above each value."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    before: list[str] = []
    for value in VALUES:
        *parents, last = value.path.split(".")
        for depth, parent in enumerate(parents):
            if before[: depth + 1] != parents[: depth + 1]:
                yield f"{'  ' * depth}{parent}:\n"
        before = parents
        indent = "  " * len(parents)
        yield f"{indent}# {value.meaning}\n"
        yield from (f"{indent}{line}\n" for line in output.to_yaml({last: value.default}).splitlines())


def table() -> str:
    """Rows of Markdown."""
    rows = ["| value | default | meaning |", "|---|---|---|"]
    rows += [f"| `{value.path}` | `{json.dumps(value.default)}` | {value.meaning} |" for value in VALUES]
    return "\n".join(rows) + "\n"
