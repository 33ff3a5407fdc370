"""The objects of a garden in one process, as a garden of Gardener accepts them, too: projects, offer, seeds, shoots."""

from __future__ import annotations

from typing import Any

from espalier.api import core
from espalier.api.gardener import EXTENSION_KINDS, names
from espalier.api.gardener.extensions.extension import Extension
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.controller_installation import HEALTHY, INSTALLED, ControllerInstallation
from espalier.api.gardener.garden.controller_registration import ControllerRegistration
from espalier.api.gardener.garden.credentials_binding import CredentialsBinding
from espalier.api.gardener.garden.project import Project
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.version_matrix import KUBERNETES

PROVIDER, REGION = "local", "here"
CLOUD_SECRET = "cloud"  # noqa: S105  the name of a Secret
"""The Secret of each project with the cloud account, and its CredentialsBinding."""
BUCKETS = "file:///{bucket}"
"""The base URL of buckets, as agents use it."""
TOY = "toy"
"""Type of an Extension."""
REGISTRATION = "provider-local"
MACHINE_TYPE, IMAGE_VERSION = "small", "1.0.0"
SEED_NETWORKS = {"pods": "172.16.0.0/16", "services": "172.17.0.0/16", "nodes": "172.18.0.0/16"}
"""Of all seeds: they are not connected, and shoots have other ones."""
PODS, SERVICES = "10.0.0.0/16", "10.1.0.0/16"
"""Networks of shoots."""
VERSIONS = tuple(minor.patch for minor in KUBERNETES.values())
"""The Kubernetes versions that shoots may have."""


def namespace(name: str, labels: dict[str, str] | None = None) -> Tree:
    """A namespace of the garden."""
    return _object(core.NAMESPACE, {"name": name, **({"labels": labels} if labels else {})})


def project(name: str) -> list[Tree]:
    """A project and its namespace, whose labels let it be the project's in a garden of Gardener."""
    home = names.project_namespace(name)
    labels = {"gardener.cloud/role": "project", "project.gardener.cloud/name": name}
    owner = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "demo"}
    return [
        namespace(home, labels),
        _object(Project.resource, {"name": name}, spec={"namespace": home, "owner": owner}),
    ]


def cloud_account(namespace: str, account: dict[str, str]) -> list[Tree]:
    """The Secret with the account of a project in the cloud, and the binding that shoots name."""
    metadata = {"name": CLOUD_SECRET, "namespace": namespace}
    return [
        _object(core.SECRET, metadata, stringData=account),
        _object(
            CredentialsBinding.resource, metadata, provider={"type": PROVIDER}, credentialsRef=_reference(metadata)
        ),
    ]


def cloud_profile(*versions: str) -> Tree:
    """The offer of the simulated cloud: with further `versions` of Kubernetes."""
    machine = {"name": MACHINE_TYPE, "cpu": "2", "gpu": "0", "memory": "4Gi", "architecture": "amd64"}
    image = {
        "version": IMAGE_VERSION,
        "cri": [{"name": "containerd"}],
        "architectures": ["amd64"],
    }
    spec = {
        "type": PROVIDER,
        "kubernetes": {"versions": [{"version": version} for version in dict.fromkeys((*VERSIONS, *versions))]},
        "machineImages": [{"name": PROVIDER, "updateStrategy": "major", "versions": [image]}],
        "machineTypes": [machine],
        "regions": [{"name": REGION}],
    }
    return _object(CloudProfile.resource, {"name": PROVIDER}, spec=spec)


def registration() -> Tree:
    """The kinds and types of the extensions in each seed."""
    kinds = sorted(kind.resource.kind for kind in EXTENSION_KINDS if kind is not Extension)
    resources = [{"kind": kind, "type": PROVIDER} for kind in kinds]
    toy = {"kind": Extension.resource.kind, "type": TOY}
    return _object(ControllerRegistration.resource, {"name": REGISTRATION}, spec={"resources": [*resources, toy]})


def installation(seed: str) -> Tree:
    """The extensions in a seed."""
    references = {"registrationRef": {"name": REGISTRATION}, "seedRef": {"name": seed}}
    return _object(ControllerInstallation.resource, {"name": f"{REGISTRATION}-{seed}"}, spec=references)


def installed(now: str) -> Tree:
    """The status of a ControllerInstallation whose extensions run."""
    reported = {"status": "True", "lastTransitionTime": now, "lastUpdateTime": now, "message": ""}
    conditions = [
        {"type": INSTALLED, "reason": "InstallationSuccessful", **reported},
        {"type": HEALTHY, "reason": "ControllerHealthy", **reported},
    ]
    return {"status": {"conditions": conditions}}


def seed(name: str, domain: str) -> list[Tree]:
    """A seed with a bucket of its own, and the Secrets that it names. `domain` is that of API servers of shoots."""
    backup = {"name": f"backup-{name}", "namespace": names.GARDEN_NAMESPACE}
    dns = {"name": "internal-domain", "namespace": names.GARDEN_NAMESPACE}
    spec: Tree = {
        "provider": {"type": PROVIDER, "region": REGION},
        "networks": SEED_NETWORKS,
        "ingress": {"domain": f"ingress.{name}.{domain}", "controller": {"kind": "nginx"}},
        "dns": {
            "provider": {"type": PROVIDER, "credentialsRef": _reference(dns)},
            "internal": {"type": PROVIDER, "domain": domain, "credentialsRef": _reference(dns)},
        },
        "backup": {
            "provider": PROVIDER,
            "region": REGION,
            "credentialsRef": _reference(backup),
            "providerConfig": {"url": BUCKETS},
        },
    }
    return [
        _object(core.SECRET, dns, stringData={"account": "dns"}),
        _object(core.SECRET, backup, stringData={"account": name}),
        _object(Seed.resource, {"name": name}, spec=spec),
    ]


def shoot(name: str, namespace: str, *, version: str, nodes: tuple[int, int], **spec: Any) -> Tree:
    """A shoot with one worker pool of `nodes`, minimum and maximum. `spec` are further fields, or other ones."""
    machine = {"type": MACHINE_TYPE, "image": {"name": PROVIDER, "version": IMAGE_VERSION}}
    worker = {"name": "pool", "machine": machine, "minimum": nodes[0], "maximum": nodes[1]}
    filled = {
        "provider": {"type": PROVIDER, "workers": [worker]},
        "region": REGION,
        "cloudProfile": {"kind": CloudProfile.resource.kind, "name": PROVIDER},
        "credentialsBindingName": CLOUD_SECRET,
        "kubernetes": {"version": version},
        "networking": {"type": PROVIDER, "pods": PODS, "services": SERVICES},
        "extensions": [{"type": TOY}],
        **spec,
    }
    return _object(Shoot.resource, {"name": name, "namespace": namespace}, spec=filled)


def _reference(metadata: dict[str, str]) -> Tree:
    return {"apiVersion": core.SECRET.api_version, "kind": core.SECRET.kind, **metadata}


def _object(resource: Resource, metadata: Tree, **fields: Any) -> Tree:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
