"""The Helm chart: the objects of `espalier manifests`, with values of the chart where flags would stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from espalier.api import core
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.text.quantities import FACTORS, amount
from espalier.cli.install import chart_values, deployment, manifests
from espalier.cli.install.templates import Template
from espalier.cli.kit import distribution
from espalier.cli.kit.distribution import NAME as DISTRIBUTION
from espalier.cli.kit.printing import output
from espalier.cli.programs.webhook_configurations import DASHBOARD_NAMES, SERVICE_NAMES
from espalier.providers.registry import PROVIDERS

NAME = "espalier"
KEEP = {"helm.sh/resource-policy": "keep"}
OLDEST_KUBERNETES = "1.30.0"
"""The first with ValidatingAdmissionPolicies: Helm installs all objects or none."""

_ANY = "any"
"""A namespace in trees, instead of which the chart has those of its values."""
_NAMESPACES = "$.Values.namespaces | default list | uniq"
_SECRET = f'include "{NAME}.webhookSecret" $'
_RESTRICTED, _HOOKS = "$.Values.namespaces", f'eq $.Values.inPlace "{FrontEnd.HOOKS}"'

_FACTORS = " ".join(f'"{unit}" {float(factor)!r}' for unit, factor in FACTORS.items())

_HELPERS = f"""\
{{{{- define "{NAME}.image" -}}}}
{{{{- $image := .Values.image -}}}}
{{{{- $missing := "image.repository: found none, allowed is the name of the image that you pushed, such as \
registry.example.com/espalier; give it by --set image.repository=NAME" -}}}}
{{{{- required $missing $image.repository -}}}}
{{{{- if or $image.tag (not $image.digest) }}}}:{{{{ $image.tag | default .Chart.AppVersion }}}}{{{{ end -}}}}
{{{{- with $image.digest }}}}@{{{{ . }}}}{{{{ end -}}}}
{{{{- end -}}}}
{{{{- define "{NAME}.webhookSecret" -}}}}
{{{{- $issued := ternary "{chart_values.WEBHOOK_SECRET}" "" .Values.webhooks.certManager.enabled -}}}}
{{{{- .Values.webhooks.secretName | default $issued -}}}}
{{{{- end -}}}}
{{{{- define "{NAME}.amount" -}}}}
{{{{- $unit := regexFind "([numkMGTPE]|[KMGTPE]i)$" . -}}}}
{{{{- $factor := get (dict {_FACTORS}) $unit | default 1 -}}}}
{{{{- mulf (trimSuffix $unit . | float64) $factor -}}}}
{{{{- end -}}}}
"""

_CHECKS = f"""\
{{{{- $namespace := "namespace of the release: found %s, allowed is {SYSTEM_NAMESPACE}, where objects and keys of \
clusters are; give it by --namespace {SYSTEM_NAMESPACE} --create-namespace" }}}}
{{{{- if ne .Release.Namespace "{SYSTEM_NAMESPACE}" }}}}
{{{{- fail (printf $namespace .Release.Namespace) }}}}
{{{{- end }}}}
{{{{- with .Values.resources }}}}
{{{{- $limits := .limits | default dict }}}}
{{{{- range $name, $request := .requests }}}}
{{{{- if hasKey $limits $name }}}}
{{{{- $found := $request | toJson | trimAll "\\"" }}}}
{{{{- $limit := get $limits $name | toJson | trimAll "\\"" }}}}
{{{{- if gt (include "{NAME}.amount" $found | float64) (include "{NAME}.amount" $limit | float64) }}}}
{{{{- $message := "resources.requests.%s: found %s, allowed is at most resources.limits.%s, %s; change either" }}}}
{{{{- fail (printf $message $name $found $name $limit) }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- with $limits.memory }}}}
{{{{- $found := . | toJson | trimAll "\\"" }}}}
{{{{- if lt (include "{NAME}.amount" $found | float64) {amount(deployment.LEAST_MEMORY):.1f} }}}}
{{{{- fail (printf "resources.limits.memory: found %s, allowed is {deployment.LEAST_MEMORY} or more" $found) }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- end }}}}
"""

_MONITOR = "metrics.serviceMonitor"
_NEEDED = (
    (f"{_MONITOR}.enabled", f".Values.{_MONITOR}.enabled", "metrics.enabled"),
    (f"{_MONITOR}.labels", f".Values.{_MONITOR}.labels", f"{_MONITOR}.enabled"),
    (f"{_MONITOR}.interval", f".Values.{_MONITOR}.interval", f"{_MONITOR}.enabled"),
    (
        "metrics.namespaces",
        f'ne (join "," .Values.metrics.namespaces) "{deployment.MONITORING}"',
        "metrics.enabled",
    ),
    ("dashboard.namespaces", ".Values.dashboard.namespaces", "dashboard.enabled"),
    ("webhooks.certManager.issuerRef", ".Values.webhooks.certManager.issuerRef", "webhooks.certManager.enabled"),
)
"""Values, when they are set, and the value without which they have no effect."""


def _without_effect(value: str, is_set: str, needed: str) -> str:
    return f"""\
{{{{- if and (not .Values.{needed}) ({is_set}) }}}}
{{{{- fail "{value}: found without {needed}, without which it has no effect; set both, or neither" }}}}
{{{{- end }}}}
"""


_NOTES = f"""\
The manager starts in namespace {SYSTEM_NAMESPACE}:

  kubectl -n {SYSTEM_NAMESPACE} rollout status deployment/{manifests.NAME}

If that does not finish, its log says what is missing, such as Cluster API:

  kubectl -n {SYSTEM_NAMESPACE} logs deployment/{manifests.NAME} \\
    | grep 'not ready'
{{{{- if not .Values.managementCluster }}}}

No value managementCluster was given: set it to NAMESPACE/NAME of the Cluster
that represents this management cluster.
{{{{- end }}}}
"""


def files() -> dict[str, str]:
    """The chart's files, by their paths in it. Its version is that of this build."""
    return {
        "Chart.yaml": _chart_yaml(distribution.version()),
        "README.md": _readme(),
        "values.yaml": chart_values.values_yaml(),
        "values.schema.json": chart_values.schema(),
        "templates/NOTES.txt": _NOTES,
        "templates/_helpers.tpl": _HELPERS,
        "templates/checks.yaml": _CHECKS + "".join(_without_effect(*check) for check in _NEEDED),
        "templates/crds.yaml": _crds(),
        "templates/rights.yaml": _rights(),
        "templates/webhooks.yaml": _webhooks(),
        "templates/manager.yaml": _manager(),
        "templates/certificate.yaml": _certificate(),
        "templates/metrics.yaml": _metrics(),
    }


def _chart_yaml(version: str) -> str:
    return output.to_yaml(
        {
            "apiVersion": "v2",
            "name": NAME,
            "description": "The controllers of Espalier, which create, upgrade and move Kubernetes clusters, "
            "beside Cluster API on a management cluster.",
            "type": "application",
            "version": version,
            "appVersion": f"v{version}",
            "kubeVersion": f">={OLDEST_KUBERNETES}-0",
            "keywords": ["cluster-api", "eks-anywhere"],
        }
    )


def _readme() -> str:
    return f"""\
# Espalier

The controllers of Espalier on a management cluster, beside Cluster API. `docs/install.md` of Espalier explains what \
has to be there before, and this chart in its chapter on Helm.

    helm install {NAME} . --namespace {SYSTEM_NAMESPACE} --create-namespace \\
      --set image.repository=registry.example.com/espalier --set managementCluster=default/management

At an upgrade give your values again, or `--reset-then-reuse-values`. Not `--reuse-values`: with it Helm keeps the \
defaults of the former chart, too, and values that are new have none.

The files of this chart are generated by `espalier manifests --format chart` of {DISTRIBUTION}.

{chart_values.table()}"""


def _crds() -> str:
    template = Template()
    trees = [tree for tree in manifests.installed(PROVIDERS) if tree["kind"] == "CustomResourceDefinition"]
    for tree in trees:
        tree["metadata"] |= template.entries("if $.Values.crds.keep", {"annotations": KEEP})
    return _text(template, trees, "if .Values.crds.enabled")


def _rights() -> str:
    template = Template()
    plain = _by_name(manifests.installed(PROVIDERS))
    hooks = _by_name(manifests.installed(PROVIDERS, in_place=FrontEnd.HOOKS))
    restricted = _by_name(manifests.installed(PROVIDERS, (_ANY,), FrontEnd.HOOKS))
    trees, in_each = [], []
    for name, tree in restricted.items():
        kind, namespace, _ = name
        if kind in ("CustomResourceDefinition", "Namespace"):  # Helm creates the namespace, before the release
            continue
        if namespace == _ANY:
            tree["metadata"]["namespace"] = template.value(". | quote")
            if "rules" in tree:
                always = _without_hooks(name)
                tree["rules"] = _rules(template, tree["rules"], {_HOOKS: always})
            in_each.append(tree)
            continue
        if "rules" in tree:
            conditions = {_HOOKS: plain[name]["rules"], f"not {_RESTRICTED}": tree["rules"]}
            tree["rules"] = _rules(template, hooks[name]["rules"], conditions)
        trees.append(tree)
    return _text(template, trees) + _text(template, in_each, f"range {_NAMESPACES}")


def _without_hooks(name: tuple[str, str, str]) -> list[Tree]:
    """The rules of a Role in a watched namespace, without those for hooks."""
    rules: list[Tree] = _by_name(manifests.installed(PROVIDERS, (_ANY,)))[name]["rules"]
    return rules


def _rules(template: Template, rules: Sequence[Tree], conditions: Mapping[str, Sequence[Tree]]) -> list[Any]:
    """Rules in their order. One is there on each condition without which it is missing."""

    def needed(rule: Tree) -> str:
        needs = [condition for condition, without in conditions.items() if rule not in without]
        return f"if and {' '.join(f'({need})' for need in needs)}" if needs else ""

    written: list[Any] = []
    for condition, group in groupby(rules, needed):
        together = list(group)
        written += template.items(condition, together) if condition else together
    return written


def _webhooks() -> str:
    template = Template()
    trees = []
    plain = manifests.webhook_configurations()
    for (_, tree), (_, restricted) in zip(plain, manifests.webhook_configurations("", (_ANY,)), strict=True):
        for at, (webhook, watched) in enumerate(zip(tree["webhooks"], restricted["webhooks"], strict=True)):
            if watched != webhook:
                (selected,) = watched["namespaceSelector"]["matchExpressions"]
                selector = {"matchExpressions": [selected | {"values": template.block(_NAMESPACES)}]}
                selecting = template.entries(f"if {_RESTRICTED}", {"namespaceSelector": selector})
                tree["webhooks"][at] = webhook | selecting
        trees.append(tree)
    return _text(template, trees)


def _manager() -> str:
    template = Template()
    service, pages, policy, budget, deployed = manifests.deployed(
        "", pods=deployment.Pods(metrics_from=(_ANY,)), dashboard=(_ANY,)
    )
    _set_deployment(template, deployed)
    budget["spec"]["maxUnavailable"] = template.value("$.Values.podDisruptionBudget.maxUnavailable | toJson")
    *others, scraped, forwarded = policy["spec"]["ingress"]
    for rule, values in ((scraped, "$.Values.metrics.namespaces"), (forwarded, "$.Values.dashboard.namespaces")):
        (selected,) = rule["from"][0]["namespaceSelector"]["matchExpressions"]
        selected["values"] = template.block(f"{values} | uniq")
    policy["spec"]["ingress"] = [
        *others,
        *template.items("if $.Values.metrics.enabled", [scraped]),
        *template.items("if and $.Values.dashboard.enabled $.Values.dashboard.namespaces", [forwarded]),
    ]
    named = manifests.management(f"{_ANY}/{_ANY}")
    named["metadata"]["annotations"] = KEEP
    for at, key in enumerate(("namespace", "name")):
        named["data"][key] = template.value(f'index (splitList "/" .) {at} | quote')
    return (
        _text(template, [service, deployed])
        + _text(template, [pages], "if .Values.dashboard.enabled")
        + _text(template, [policy], "if .Values.networkPolicy.enabled")
        + _text(template, [budget], "if .Values.podDisruptionBudget.enabled")
        + _text(template, [named], "with .Values.managementCluster")
    )


def _set_deployment(template: Template, deployed: Tree) -> None:
    """Put values into the Deployment of a manager that serves metrics."""
    spec = deployed["spec"]
    spec["replicas"] = template.value("$.Values.replicas")
    pods = spec["template"]
    pods["metadata"]["labels"] = {
        **pods["metadata"]["labels"],
        **template.entries("with $.Values.commonLabels", template.merged("toYaml .")),
    }
    pod = pods["spec"]
    for name in ("imagePullSecrets", "nodeSelector", "affinity", "tolerations"):
        pod |= template.entries(f"with $.Values.{name}", {name: template.block(".")})
    pod |= template.entries("with $.Values.priorityClassName", {"priorityClassName": template.value(". | quote")})
    by_node, _ = pod["topologySpreadConstraints"]
    by_node["whenUnsatisfiable"] = template.value("$.Values.topologySpread")
    (container,) = pod["containers"]
    container["image"] = template.value(f'include "{NAME}.image" $ | quote')
    container |= template.entries("with $.Values.image.pullPolicy", {"imagePullPolicy": template.value(".")})
    container["resources"] = template.block("$.Values.resources")
    *arguments, metrics_flag, metrics_at, dashboard_flag, dashboard_at = container["args"]
    container["args"] = [
        *arguments,
        *template.items("if $.Values.metrics.enabled", [metrics_flag, metrics_at]),
        *template.items("if $.Values.dashboard.enabled", [dashboard_flag, dashboard_at]),
        *template.items(f"with {_NAMESPACES}", ["--namespace", template.value('join "," . | quote')]),
        *template.items(
            f'if ne $.Values.inPlace "{FrontEnd.ANNOTATIONS}"', ["--in-place", template.value("$.Values.inPlace")]
        ),
        *template.items(f"with {_SECRET}", ["--webhook-secret", template.value(". | quote")]),
        *template.items("range $.Values.extraArgs", [template.value(". | quote")]),
    ]
    *ports, metrics, pages = container["ports"]
    container["ports"] = [
        *ports,
        *template.items("if $.Values.metrics.enabled", [metrics]),
        *template.items("if $.Values.dashboard.enabled", [pages]),
    ]


def _certificate() -> str:
    """The Certificate of the webhooks for cert-manager, and an authority for it, unless the user names an issuer."""
    template = Template()
    name, authority = chart_values.WEBHOOK_SECRET, "espalier-webhook-authority"
    root = {
        "isCA": True,
        "commonName": authority,
        "secretName": authority,
        "duration": "87600h",
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"},
        "issuerRef": {"name": f"{authority}-root"},
    }
    own = [
        _cert_manager("Issuer", f"{authority}-root", {"selfSigned": {}}),
        _cert_manager("Certificate", authority, root),
        _cert_manager("Issuer", authority, {"ca": {"secretName": authority}}),
    ]
    serving = {
        "secretName": template.value(f"{_SECRET} | quote"),
        "dnsNames": [
            *SERVICE_NAMES.split(","),
            *template.items("if $.Values.dashboard.enabled", list(DASHBOARD_NAMES)),
        ],
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "issuerRef": template.block(f'$.Values.webhooks.certManager.issuerRef | default (dict "name" "{authority}")'),
    }
    enabled, named = "$.Values.webhooks.certManager.enabled", "$.Values.webhooks.certManager.issuerRef"
    return _text(template, [_cert_manager("Certificate", name, serving)], f"if {enabled}") + _text(
        template, own, f"if and {enabled} (not {named})"
    )


def _cert_manager(kind: str, name: str, spec: Tree) -> Tree:
    metadata = {"name": name, "namespace": SYSTEM_NAMESPACE}
    return {"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _metrics() -> str:
    """The Service of the metrics, and the ServiceMonitor of the Prometheus operator."""
    template = Template()
    name = f"{manifests.NAME}-metrics"
    labels = {chart_values.POD_LABEL: name}
    ports = [{"name": "metrics", "port": deployment.METRICS_PORT, "targetPort": "metrics"}]
    service = {
        "apiVersion": core.SERVICE.api_version,
        "kind": core.SERVICE.kind,
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "spec": {"clusterIP": "None", "selector": {chart_values.POD_LABEL: manifests.NAME}, "ports": ports},
    }
    values = "$.Values.metrics.serviceMonitor"
    monitor = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {
            "name": manifests.NAME,
            "namespace": SYSTEM_NAMESPACE,
            "labels": {**labels, **template.entries(f"with {values}.labels", template.merged("toYaml ."))},
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "endpoints": [
                {"port": "metrics", **template.entries(f"with {values}.interval", {"interval": template.value(".")})}
            ],
        },
    }
    return _text(template, [service, monitor], "if .Values.metrics.serviceMonitor.enabled")


def _text(template: Template, trees: Iterable[Tree], condition: str = "") -> str:
    """A template of these objects, with the labels of all objects."""
    labelled = []
    for tree in trees:
        metadata = dict(tree["metadata"])
        common = "with $.Values.commonLabels"
        if "labels" in metadata:
            metadata["labels"] = {
                **metadata["labels"],
                **template.entries(common, template.merged("toYaml .")),
            }
        else:
            metadata |= template.entries(common, {"labels": template.block(".")})
        labelled.append({**tree, "metadata": metadata})
    return template.text(labelled, condition)


def _by_name(trees: Iterable[Tree]) -> dict[tuple[str, str, str], Tree]:
    return {(tree["kind"], tree["metadata"].get("namespace", ""), tree["metadata"]["name"]): tree for tree in trees}
