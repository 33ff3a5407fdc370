"""Alerts and a dashboard for the metrics of clusters: a PrometheusRule, and a dashboard of Grafana. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.eksa.vocabulary.group import MANAGER, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.clusters.report import measures
from espalier.etcdbackup.snapshotter.measures import LATEST_TIMESTAMP
from espalier.kube.measures import Measure
from espalier.runtime import metrics

NAME = "espalier"
_CONDITIONS, _METRICS, _SECOND_DAY = "reference/conditions.md", "reference/metrics.md", "second-day.md"
_BY, _ON = "by (cluster_namespace, cluster)", "on (cluster_namespace, cluster)"
_SENTENCE = "{{ $labels.cluster_namespace }}/{{ $labels.cluster }}"


@dataclass(frozen=True)
class Alert:
    """One alert."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    page: str
    """The page of the documentation that says what to do."""


def _of(measure: Measure) -> str:
    return f"{measure.name}_total" if measure.type == "counter" else measure.name


_OURS = f"and on (job, instance) {_of(measures.UNMEASURED)}"
"""Of a manager of ours that acts: the controllers of others have metrics of the same names."""


def _progress(time: str) -> str:
    """True for clusters that have replaced or upgraded a machine within this time: a rollout may take hours."""
    return f'max {_BY} (changes({_of(measures.MACHINES)}{{state="outdated"}}[{time}])) > 0'


def alerts() -> list[Alert]:
    """All alerts, the most urgent first."""
    leader = f'{_of(metrics.LEADER)}{{name=~"{MANAGER}.*"}}'
    condition, since, expiry = map(_of, (measures.CONDITION, measures.SINCE, measures.CERTIFICATES))
    not_ready = f'max {_BY[:-1]}, reason) ({condition}{{type="Ready",status!="True"}})'
    return [
        Alert(
            "EspalierClusterNeedsSomebody",
            f'max {_BY[:-1]}, reason) ({condition}{{type="Stalled",status="True"}}) > 0',
            "5m",
            "critical",
            f"cluster {_SENTENCE} makes no progress until somebody acts: {{{{ $labels.reason }}}}",
            _CONDITIONS,
        ),
        Alert(
            "EspalierClusterNotReady",
            f"{not_ready} > 0 and {_ON} (time() - max {_BY} ({since})) > 3600 unless {_ON} {_progress('1h')}",
            "0m",  # whatever lasts is in the expression: another reason begins no new hour
            "warning",
            f"cluster {_SENTENCE} has not been Ready for an hour: {{{{ $labels.reason }}}}",
            _CONDITIONS,
        ),
        Alert(
            "EspalierClusterCertificatesExpireSoon",
            f"min {_BY} ({expiry}) - time() < 30 * 86400",
            "1h",
            "warning",
            f"certificates of cluster {_SENTENCE} end in {{{{ $value | humanizeDuration }}}}",
            f"{_SECOND_DAY}#certificates",
        ),
        Alert(
            "EspalierClusterDrifted",
            f"max {_BY} ({_of(measures.DRIFTED)}) > 0",
            "1h",
            "warning",
            f"objects of cluster {_SENTENCE} were changed by somebody: condition Synced names them",
            _CONDITIONS,
        ),
        Alert(
            "EspalierClusterMachinesMissing",
            f'max {_BY} ({_of(measures.MACHINES)}{{state="wanted"}}) > '
            f'max {_BY} ({_of(measures.MACHINES)}{{state="ready"}}) unless {_progress("30m")}',
            "30m",
            "warning",
            f"machines of cluster {_SENTENCE} are missing or not ready: `espalier describe cluster` says which",
            _CONDITIONS,
        ),
        Alert(
            "EspalierEtcdBackupOld",
            f"time() - max by (namespace, pod) ({_of(LATEST_TIMESTAMP)}) > 2 * 86400",
            "15m",
            "critical",
            "the newest snapshot of etcd beside {{ $labels.namespace }}/{{ $labels.pod }} is older than two days",
            "etcd-backup.md",
        ),
        Alert(
            "EspalierNoLeader",
            f"max by (name) ({leader}) == 0 or absent({leader} or {_of(measures.UNMEASURED)})",
            "5m",
            "critical",
            "no replica of Espalier's manager acts",
            _METRICS,
        ),
        Alert(
            "EspalierReconcilesFail",
            f"sum by (controller) (rate({_of(metrics.RECONCILE_ERRORS)}[15m]) {_OURS}) > 0.1",
            "15m",
            "warning",
            "reconciles of controller {{ $labels.controller }} keep failing: the log names the objects",
            _METRICS,
        ),
    ]


def prometheus_rule(docs: str = "", labels: dict[str, str] | None = None) -> Tree:
    """A PrometheusRule of the Prometheus operator. `docs` is where the documentation is served; without it, alerts name
    the file of the documentation."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.lasts,
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.summary} | _runbook(docs, alert.page),
        }
        for alert in alerts()
    ]
    metadata = {"name": NAME, "namespace": SYSTEM_NAMESPACE} | ({"labels": labels} if labels else {})
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata,
        "spec": {"groups": [{"name": NAME, "rules": rules}]},
    }


def _runbook(docs: str, page: str) -> Tree:
    """The link to a page of the site, or its file in the repository."""
    served = page.replace(".md", ".html")
    return {"runbook_url": f"{docs.rstrip('/')}/{served}"} if docs else {"runbook": f"docs/{page}"}


@dataclass(frozen=True)
class _Panel:
    title: str
    kind: str
    expression: str
    legend: str = ""
    unit: str = "short"
    width: int = 12
    height: int = 8


def panels() -> list[_Panel]:
    """The panels of the dashboard."""
    ready, machines, info = (_of(measure) for measure in (measures.READY, measures.MACHINES, measures.INFO))
    chosen = 'cluster_namespace=~"$namespace",cluster=~"$cluster"'
    selector = f"{{{chosen}}}"
    name = "{{cluster_namespace}}/{{cluster}}"
    not_ready = f"count(max {_BY} ({ready}{selector}) == 0) or vector(0)"
    drifted = f"sum(max {_BY} ({_of(measures.DRIFTED)}{selector}))"
    expiry, since = _of(measures.CERTIFICATES), _of(measures.SINCE)
    return [
        _Panel("Clusters", "stat", f"sum({_of(measures.CLUSTERS)})", width=6, height=4),
        _Panel("Not ready", "stat", not_ready, width=6, height=4),
        _Panel("Drifted", "stat", drifted, width=6, height=4),
        _Panel("First certificate ends in", "stat", f"min({expiry}{selector}) - time()", "", "s", 6, 4),
        _Panel("Ready", "timeseries", f"max {_BY} ({ready}{selector})", name),
        _Panel("Clusters by phase", "timeseries", f"sum by (phase) ({_of(measures.CLUSTERS)})", "{{phase}}"),
        _Panel("Machines", "timeseries", f"sum by (state) ({machines}{selector})", "{{state}}"),
        _Panel(
            "Kubernetes versions",
            "timeseries",
            f"count by (kubernetes_version) ({info}{selector})",
            "{{kubernetes_version}}",
        ),
        _Panel("Releases", "timeseries", f"count by (eksa_version) ({info}{selector})", "{{eksa_version}}"),
        _Panel("Time in the present state", "bargauge", f"time() - max {_BY} ({since}{selector})", name, "s"),
        _Panel("Certificates end in", "bargauge", f"min {_BY} ({expiry}{selector}) - time()", name, "s"),
        _Panel(
            "Age of the newest etcd snapshot",
            "bargauge",
            f"time() - max by (namespace, pod) ({_of(LATEST_TIMESTAMP)})",
            "{{namespace}}/{{pod}}",
            "s",
        ),
        _Panel(
            "Reasons of clusters that are not ready",
            "timeseries",
            f'count by (reason) ({_of(measures.CONDITION)}{{type="Ready",status!="True",{chosen}}})',
            "{{reason}}",
        ),
        _Panel(
            "Reconciles per second",
            "timeseries",
            f"sum by (controller, result) (rate({_of(metrics.RECONCILES)}[5m]) {_OURS})",
            "{{controller}} {{result}}",
            "ops",
        ),
    ]


def dashboard() -> Tree:
    """A dashboard for Grafana's import, with variables for data source, namespace and cluster."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    placed, x, y, row = [], 0, 0, 0
    for number, panel in enumerate(panels(), 1):
        if x + panel.width > 24:
            x, y, row = 0, y + row, 0
        placed.append(
            {
                "id": number,
                "title": panel.title,
                "type": panel.kind,
                "datasource": source,
                "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
                "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
                "targets": [
                    {"refId": "A", "expr": panel.expression, "legendFormat": panel.legend, "datasource": source}
                ],
            }
        )
        x, row = x + panel.width, max(row, panel.height)
    return {
        "title": "Espalier: clusters",
        "uid": "espalier-clusters",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "tags": [NAME],
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                _variable("namespace", "cluster_namespace", ""),
                _variable("cluster", "cluster", 'cluster_namespace=~"$namespace"'),
            ]
        },
        "panels": placed,
    }


def _variable(name: str, label: str, where: str) -> Tree:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values({_of(measures.READY)}{{{where}}}, {label})",
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }
