"""`espalier manifests`: what `kubectl apply -f -` installs on a management cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from espalier.api import core, eksa
from espalier.api.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.distro import DistroRelease
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.release import Bundles, EKSARelease
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.resource import Resource
from espalier.cli import flags, output
from espalier.cli.commands import Command
from espalier.cli.failures import Usage
from espalier.clusters import admission, rights
from espalier.clusters.design import Provider
from espalier.clusters.render import PROVIDERS
from espalier.kube.rights import Right, trees
from espalier.upgrades import rights as upgrade_rights

NAME = "espalier-controller-manager"
CLUSTERS_ROLE = f"{NAME}-clusters"
"""Name of the Role in each watched namespace; the system's namespace, where there is another, may be one of them."""

SERVICE = "espalier-webhook-service"
SERVICE_NAMES = f"{SERVICE}.{SYSTEM_NAMESPACE}.svc,{SERVICE}.{SYSTEM_NAMESPACE}.svc.cluster.local"
WEBHOOK_PORT, HEALTH_PORT = 9443, 8081

VALIDATED = [
    (Cluster.resource, admission.VALIDATE_CLUSTER),
    (EKSARelease.resource, admission.VALIDATE_RELEASE),
    (Bundles.resource, admission.VALIDATE_BUNDLES),
    (DistroRelease.resource, admission.VALIDATE_DISTRO),
]

Tree = dict[str, Any]


@click.command(cls=Command)
@click.option(
    "--image", default="", metavar="IMAGE", help="Image of the manager; its Deployment is then part of the manifests."
)
@click.option(
    "--webhook-url", default="", metavar="URL", help="https://HOST:PORT of a manager that runs outside of the cluster."
)
@flags.watched_namespaces
@flags.choice(
    "--in-place",
    FrontEnd.ANNOTATIONS,
    help="How machines are upgraded in place, as for `espalier manager`; hooks need more rights.",
)
def manifests(*, image: str, webhook_url: str, namespace: Sequence[str], in_place: FrontEnd) -> None:
    """Print CRDs, namespace, rights, webhooks and Deployment, as YAML.

    With --namespace, the manager gets its rights on Clusters by a Role in each of these namespaces, which must be
    there; its ClusterRole is left with the kinds that have no namespace.

    \b
    Example:
      espalier manifests --image example.com/espalier:v0.26.0 | kubectl apply -f -
    """
    namespaces = flags.namespaces(namespace)
    if bool(image) == bool(webhook_url):
        raise Usage("give either --image (a manager in the cluster) or --webhook-url (one outside of it)")
    if webhook_url and (urlsplit(webhook_url).scheme != "https" or not urlsplit(webhook_url).hostname):
        raise Usage(
            f"--webhook-url: found {webhook_url!r}, allowed is https://HOST:PORT (API servers call nothing else)"
        )
    webhooks = [tree for _, tree in webhook_configurations(webhook_url, namespaces)]
    deployment = deployed(image, namespaces, in_place) if image else []
    objects = [*installed(namespaces, in_place), *webhooks, *deployment]
    output.write_data("---\n".join(output.to_yaml(tree) for tree in objects))


def installed(
    namespaces: Sequence[str] = (),
    in_place: FrontEnd = FrontEnd.ANNOTATIONS,
    providers: Mapping[str, Provider] = PROVIDERS,
) -> list[Tree]:
    """Namespace, CRDs, ServiceAccount and its rights: on the Clusters of these namespaces, or of all."""
    everywhere = rights.CLUSTER_SCOPED if namespaces else (*rights.namespaced(providers), *rights.CLUSTER_SCOPED)
    if in_place is FrontEnd.HOOKS:
        everywhere = (*everywhere, *upgrade_rights.HOOKS)
    system = (*rights.system(providers), *upgrade_rights.SYSTEM, *(rights.CERTIFICATE if namespaces else ()))
    return [
        _object(core.NAMESPACE, SYSTEM_NAMESPACE),
        *(msgspec.to_builtins(crd_of(kind)) for kind in eksa.KINDS),
        _object(core.SERVICE_ACCOUNT, NAME),
        *_granted(core.CLUSTER_ROLE, core.CLUSTER_ROLE_BINDING, NAME, "", everywhere),
        *_granted(core.ROLE, core.ROLE_BINDING, NAME, SYSTEM_NAMESPACE, system),
        *(
            tree
            for namespace in namespaces
            for tree in _granted(core.ROLE, core.ROLE_BINDING, CLUSTERS_ROLE, namespace, rights.namespaced(providers))
        ),
    ]


def _granted(
    role: Resource, binding: Resource, name: str, namespace: str, granted: Sequence[Right]
) -> tuple[Tree, Tree]:
    """A role, and what gives it to the manager."""
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM_NAMESPACE}
    reference = {"apiGroup": role.group, "kind": role.kind, "name": name}
    return (
        _object(role, name, namespace) | {"rules": trees(granted)},
        _object(binding, name, namespace) | {"roleRef": reference, "subjects": [subject]},
    )


def webhook_configurations(url: str = "", namespaces: Sequence[str] = ()) -> list[tuple[Resource, Tree]]:
    """The admission webhooks, reached at `url`, or at the Service when that is empty.

    With `namespaces`, Clusters of other ones are not sent to this manager, which knows nothing about them.

    The manager writes the caBundle. They fail closed: a Cluster that nobody checked could become another cluster than
    asked for, while a manager that is away builds nothing in any case.
    """
    return [
        (
            resource,
            _object(resource, name)
            | {"webhooks": [_webhook(url, verb, kind, path, namespaces) for kind, path in hooks]},
        )
        for resource, name, verb, hooks in (
            (
                core.MUTATING_WEBHOOK_CONFIGURATION,
                rights.MUTATING_WEBHOOKS,
                "mutate",
                [(Cluster.resource, admission.MUTATE_CLUSTER)],
            ),
            (core.VALIDATING_WEBHOOK_CONFIGURATION, rights.VALIDATING_WEBHOOKS, "validate", VALIDATED),
        )
    ]


def _webhook(url: str, verb: str, resource: Resource, path: str, namespaces: Sequence[str]) -> Tree:
    service = {"name": SERVICE, "namespace": SYSTEM_NAMESPACE, "path": path, "port": 443}
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource.plural],
        "scope": "Namespaced" if resource.namespaced else "Cluster",
    }
    return {
        "name": f"{verb}.{resource.plural}.{resource.group}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url.rstrip("/") + path} if url else {"service": service},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "rules": [rule],
        **({"namespaceSelector": _in(namespaces)} if namespaces and resource == Cluster.resource else {}),
    }


def _in(namespaces: Sequence[str]) -> Tree:
    by_name = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
    return {"matchExpressions": [by_name]}


def deployed(image: str, namespaces: Sequence[str] = (), in_place: FrontEnd = FrontEnd.ANNOTATIONS) -> list[Tree]:
    """The manager in the cluster: Service of its webhooks, and Deployment. Two replicas, of which one acts."""
    labels = {"app.kubernetes.io/name": NAME}
    probe = {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 10}
    share = ["--namespace", ",".join(namespaces)] if namespaces else []
    share += ["--in-place", str(in_place)] if in_place is not FrontEnd.ANNOTATIONS else []
    container = {
        "name": "manager",
        "image": image,
        "command": ["espalier"],
        "args": ["manager", "--webhook-address", f":{WEBHOOK_PORT}", "--health-address", f":{HEALTH_PORT}", *share],
        "ports": [
            {"name": "webhooks", "containerPort": WEBHOOK_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        "livenessProbe": probe | {"httpGet": {"path": "/healthz", "port": "health"}},
        "readinessProbe": probe,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "temporary", "mountPath": "/tmp"}],  # noqa: S108  ssl reads certificates from files
    }
    pod = {
        "serviceAccountName": NAME,
        "containers": [container],
        "volumes": [{"name": "temporary", "emptyDir": {"medium": "Memory"}}],
        "terminationGracePeriodSeconds": 40,
    }
    return [
        _object(core.SERVICE, SERVICE)
        | {"spec": {"selector": labels, "ports": [{"name": "webhooks", "port": 443, "targetPort": "webhooks"}]}},
        _object(core.DEPLOYMENT, NAME)
        | {
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            }
        },
    ]


def _object(resource: Resource, name: str, namespace: str = SYSTEM_NAMESPACE) -> Tree:
    metadata = {"name": name} | ({"namespace": namespace} if resource.namespaced else {})
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
