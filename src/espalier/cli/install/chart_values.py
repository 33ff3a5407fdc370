"""The values of the chart: `values.yaml`, `values.schema.json` and the table of the README are made of one table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from espalier.api.eksa.fields import LABEL_NAME, LABEL_VALUE
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.meta import Tree
from espalier.api.quantities import QUANTITY
from espalier.cli.install.deployment import MEMORY_LIMIT, MEMORY_REQUEST, MONITORING, REPLICAS, WhenUnsatisfiable
from espalier.cli.kit import output
from espalier.cli.kit.flags import LABEL, OBJECT_NAME
from espalier.releases.contents import NAME as IMAGE_NAME

WEBHOOK_SECRET = "espalier-webhook-certificate"  # noqa: S105  the name of a Secret
OF_MOVES = r"^clusterctl\.cluster\.x-k8s\.io"
"""Labels of CRDs, by which clusterctl finds objects to be moved."""
POD_LABEL = "app.kubernetes.io/name"

_QUANTITY = {"type": ["string", "number"], "pattern": f"^{QUANTITY.pattern}$"}
_MEMORY = {"type": ["string", "integer"], "pattern": r"^([0-9]{9,}|[0-9]+(\.[0-9]+)?([MGT]i?|Ki))$", "minimum": 2**28}
"""256Mi is the least, and in thousandths of a byte it is a mistake."""
_BOOLEAN = {"type": "boolean"}
_LABELS = {
    "type": "object",
    "propertyNames": {"pattern": LABEL_NAME},
    "additionalProperties": {"type": "string", "pattern": LABEL_VALUE},
}
_OBJECT = {"type": "object"}


def _strings(pattern: str = "") -> Tree:
    return {"type": "array", "items": {"type": "string", **({"pattern": pattern} if pattern else {})}}


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
        "Its tag. Default: the version of the chart, unless there is a digest.",
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
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string", "minLength": 1}},
                "additionalProperties": False,
            },
        },
    ),
    Value(
        "replicas",
        REPLICAS,
        "One acts, the others take over; all serve webhooks.",
        {"type": "integer", "minimum": 0},
    ),
    Value("podDisruptionBudget.enabled", True, "Have a PodDisruptionBudget.", _BOOLEAN),
    Value(
        "podDisruptionBudget.maxUnavailable",
        1,
        "Pods that a drain may evict at a time: a number, or a percentage.",
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+%$"}]},
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
        {"type": "array", "items": _OBJECT},
    ),
    Value("nodeSelector", {}, "Labels of the nodes for the pods.", _LABELS),
    Value("affinity", {}, "Affinity of the pods.", _OBJECT),
    Value("priorityClassName", "", "PriorityClass of the pods. Default: the cluster's.", {"type": "string"}),
    Value(
        "resources",
        {"requests": {"cpu": "100m", "memory": MEMORY_REQUEST}, "limits": {"memory": MEMORY_LIMIT}},
        "80 MiB without clusters, 1,008 MiB with 10,000 of them. `limits: null` removes the limit.",
        {
            "type": "object",
            "properties": {
                part: {"type": ["object", "null"], "properties": {"memory": _MEMORY}, "additionalProperties": _QUANTITY}
                for part in ("requests", "limits")
            },
            "additionalProperties": False,
        },
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
        {"type": "string", "pattern": f"^({OBJECT_NAME})?$", "maxLength": 253},
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
        _OBJECT,
    ),
    Value("extraArgs", [], "Further flags of `espalier manager`, such as --log-level=debug.", _strings("^--[a-z]")),
    Value("metrics.enabled", False, "Serve metrics on port 8080 of the pods.", _BOOLEAN),
    Value(
        "metrics.namespaces",
        [MONITORING],
        "Namespaces whose pods the NetworkPolicy lets scrape them.",
        {**_strings(f"^{LABEL}$"), "minItems": 1},
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
        {**_LABELS, "properties": {POD_LABEL: False}},
    ),
    Value(
        "metrics.serviceMonitor.interval",
        "",
        "Interval of scrapes, such as 30s. Default: that of Prometheus.",
        {"type": "string", "pattern": "^([0-9]+(ms|[smh]))*$"},
    ),
    Value(
        "networkPolicy.enabled",
        True,
        "Have a NetworkPolicy: TCP to the webhooks from anywhere, to metrics from `metrics.namespaces`, nothing else.",
        _BOOLEAN,
    ),
    Value(
        "commonLabels",
        {},
        "Labels of all objects, and of the pods.",
        {**_LABELS, "properties": {POD_LABEL: False}, "patternProperties": {OF_MOVES: False}},
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
}
"""Flags of `espalier manifests`, and the values of the chart that stand for them."""


def schema() -> str:
    """`values.schema.json`. A value that the chart does not know is refused: it is a typo."""
    root: Tree = {"$schema": "http://json-schema.org/draft-07/schema#", **_closed()}
    root["properties"]["global"] = {"type": "object", "description": "Values that all charts of a release share."}
    for value in VALUES:
        *parents, name = value.path.split(".")
        place = root
        for parent in parents:
            place = place["properties"].setdefault(parent, _closed())
        place["properties"][name] = {"description": value.meaning, **value.schema}
    return json.dumps(root, indent=2) + "\n"


def _closed() -> Tree:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def values_yaml() -> str:
    """`values.yaml`, with a comment above each value."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    before: list[str] = []
    for value in VALUES:
        *parents, name = value.path.split(".")
        for depth, parent in enumerate(parents):
            if before[: depth + 1] != parents[: depth + 1]:
                yield f"{'  ' * depth}{parent}:\n"
        before = parents
        indent = "  " * len(parents)
        yield f"{indent}# {value.meaning}\n"
        yield from (f"{indent}{line}\n" for line in output.to_yaml({name: value.default}).splitlines())


def table() -> str:
    """Rows of Markdown."""
    rows = ["| value | default | meaning |", "|---|---|---|"]
    rows += [f"| `{value.path}` | `{json.dumps(value.default)}` | {value.meaning} |" for value in VALUES]
    return "\n".join(rows) + "\n"
