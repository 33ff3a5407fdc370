"""Webhooks of a program of ours as the API server has them configured, and the Services of the manager."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.runtime.servers.admission import AdmissionWebhook

SERVICE = "espalier-webhook-service"
SERVICE_NAMES = f"{SERVICE}.{SYSTEM_NAMESPACE}.svc,{SERVICE}.{SYSTEM_NAMESPACE}.svc.cluster.local"

DASHBOARD_SERVICE = "espalier-dashboard"
DASHBOARD_NAMES = (
    f"{DASHBOARD_SERVICE}.{SYSTEM_NAMESPACE}.svc",
    f"{DASHBOARD_SERVICE}.{SYSTEM_NAMESPACE}.svc.cluster.local",
    "localhost",
)
"""Names of the dashboard in the webhooks' certificate: those of its Service, and that of a forwarded port."""


def webhook_tree(url: str, webhook: AdmissionWebhook, service: str, namespaces: Sequence[str] = ()) -> Tree:
    """One webhook of a configuration, reached at `url`, or at a Service when that is empty."""
    path = webhook.path
    reached = {"name": service, "namespace": SYSTEM_NAMESPACE, "path": path, "port": 443}
    asked = [webhook.namespace] if webhook.namespace else namespaces if webhook.watched else ()
    return {
        "name": webhook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url.rstrip("/") + path} if url else {"service": reached},
        "failurePolicy": webhook.failure_policy,
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "rules": [webhook.rule],
        **({"namespaceSelector": _in(asked)} if asked else {}),
    }


def _in(namespaces: Sequence[str]) -> Tree:
    by_name = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
    return {"matchExpressions": [by_name]}
