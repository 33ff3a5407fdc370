"""Cluster API's managers as Deployments of a cluster: definitions, rights, webhooks behind Services, and the pods.

Names of objects are those of Cluster API's own manifests, so that what asks for them finds them. Certificates of
webhooks are Secrets without data here: whoever installs the objects issues them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from espalier.api import core
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusterapi.installed import PROVIDER_LABEL
from espalier.realnodes.management.cluster_api import CONTRACTS, GATES, MANAGERS, Manager

WEBHOOK_PORT, HEALTH_PORT = 9443, 9440
CERTIFICATES = "/certificates"
PROGRAM = "/manager"
USER = 65532


@dataclass(frozen=True)
class Installation:
    """The names of one manager's objects."""

    manager: str
    prefix: str
    provider: str
    """Value of the label of its provider."""

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return f"{self.prefix}-system"

    @property
    def service(self) -> str:
        """The Service of its webhooks."""
        return f"{self.prefix}-webhook-service"

    @property
    def deployment(self) -> str:
        """Its Deployment."""
        return f"{self.prefix}-controller-manager"

    @property
    def selector(self) -> Tree:
        """Labels of its pods."""
        return {"control-plane": self.deployment}

    @property
    def account(self) -> str:
        """Its ServiceAccount."""
        return f"{self.prefix}-manager"


INSTALLATIONS: Mapping[str, Installation] = {
    installation.manager: installation
    for installation in (
        Installation("cluster-api-core", "capi", "cluster-api"),
        Installation("cluster-api-kubeadm-bootstrap", "capi-kubeadm-bootstrap", "bootstrap-kubeadm"),
        Installation("cluster-api-kubeadm-control-plane", "capi-kubeadm-control-plane", "control-plane-kubeadm"),
    )
}


def deployed(
    documents: Mapping[str, Sequence[Tree]], images: Mapping[str, str], gates: Mapping[str, bool] = GATES
) -> list[Tree]:
    """All objects of Cluster API; `documents` (see `documents_of`) and `images` are those of each manager, by name."""
    return [
        tree for manager in MANAGERS for tree in _manager(manager, documents[manager.name], images[manager.name], gates)
    ]


def _manager(manager: Manager, documents: Sequence[Tree], image: str, gates: Mapping[str, bool]) -> list[Tree]:
    names = INSTALLATIONS[manager.name]
    objects = [
        core.NAMESPACE.body(names.namespace),
        *(_installable(tree, names) for tree in documents),
        core.SERVICE_ACCOUNT.body(names.account, names.namespace),
        _bound(core.CLUSTER_ROLE, core.CLUSTER_ROLE_BINDING, f"{names.prefix}-manager-role", names),
        *_election(names),
        core.SECRET.body(f"{names.service}-cert", names.namespace) | {"type": "kubernetes.io/tls"},
        core.SERVICE.body(names.service, names.namespace)
        | {"spec": {"ports": [{"port": 443, "targetPort": WEBHOOK_PORT}], "selector": names.selector}},
        _deployment(manager, names, image, gates),
    ]
    for tree in objects:
        tree["metadata"]["labels"] = {**tree["metadata"].get("labels", {}), PROVIDER_LABEL: names.provider}
    return objects


def _installable(document: Tree, names: Installation) -> Tree:
    """A manifest that its provider ships, with the names of an installation. Returns a copy."""
    kind, metadata = document["kind"], document["metadata"]
    if kind == core.CLUSTER_ROLE.kind:
        return {**document, "metadata": {"name": f"{names.prefix}-manager-role"}}
    service = {"name": names.service, "namespace": names.namespace}
    if kind == core.CUSTOM_RESOURCE_DEFINITION.kind:
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": {**service, "path": "/convert"}}}
        return {
            **document,
            "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **CONTRACTS}},
            "spec": {**document["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}},
        }
    webhooks = [
        {**webhook, "clientConfig": {"service": {**webhook["clientConfig"]["service"], **service}}}
        for webhook in document["webhooks"]
    ]
    return {**document, "metadata": {"name": f"{names.prefix}-{metadata['name']}"}, "webhooks": webhooks}


def _election(names: Installation) -> list[Tree]:
    """The right to elect a leader: while a Deployment is replaced, two pods run."""
    role = f"{names.prefix}-leader-election-role"
    rules = [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    return [
        core.ROLE.body(role, names.namespace) | {"rules": rules},
        _bound(core.ROLE, core.ROLE_BINDING, role, names),
    ]


def _bound(role: Resource, binding: Resource, name: str, names: Installation) -> Tree:
    return binding.body(name, names.namespace) | {
        "roleRef": {"apiGroup": role.group, "kind": role.kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": names.account, "namespace": names.namespace}],
    }


def _deployment(manager: Manager, names: Installation, image: str, gates: Mapping[str, bool]) -> Tree:
    labels = names.selector | {PROVIDER_LABEL: names.provider}
    known = manager.known(gates)
    options = {
        "leader-elect": "true",
        "diagnostics-address": "0",
        "health-addr": f":{HEALTH_PORT}",
        "webhook-port": str(WEBHOOK_PORT),
        "webhook-cert-dir": CERTIFICATES,
        # CRDs and programs have the same version: no object is stored in an older version.
        "skip-crd-migration-phases": "StorageVersionMigration,CleanupManagedFields",
    }
    if known:
        options["feature-gates"] = ",".join(f"{gate}={str(value).lower()}" for gate, value in known.items())
    container = {
        "name": "manager",
        "image": image,
        "command": [PROGRAM],
        "args": [f"--{name}={value}" for name, value in options.items()],
        "env": [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in (("POD_NAMESPACE", "metadata.namespace"), ("POD_NAME", "metadata.name"))
        ],
        "ports": [{"name": "webhook-server", "containerPort": WEBHOOK_PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": HEALTH_PORT}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": HEALTH_PORT}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "certificates", "mountPath": CERTIFICATES, "readOnly": True}],
    }
    pod = {
        "serviceAccountName": names.account,
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "certificates", "secret": {"secretName": f"{names.service}-cert"}}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    return core.DEPLOYMENT.body(names.deployment, names.namespace) | {
        "spec": {"replicas": 1, "selector": {"matchLabels": names.selector}, "template": template}
    }
