"""The programs of a new management cluster: Espalier, and Cluster API with its providers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from espalier.api import core, flux
from espalier.api.core import DEPLOYMENT
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.vocabulary.metadata_keys import SIMULATED_PROVIDERS
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.trees import json_trees
from espalier.cli.clusters import chosen_release
from espalier.cli.install import manifests
from espalier.cli.install.deployment import HEALTH_PORT
from espalier.cli.kit import shown_commands
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure
from espalier.cli.management.components import component_versions
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.providers.kinds import SIMULATED_KINDS
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases

CAPI_NAMESPACE = "capi-system"
_FLUX = "ghcr.io/fluxcd"
_CAPI = "capi-controller-manager"


class Components(msgspec.Struct, frozen=True, rename="camel"):
    """The programs of a management cluster whose machines are not simulated."""

    cluster_api: list[Tree]
    """The manifests of Cluster API and its providers."""
    espalier: str
    """The image of the manager."""
    release: str = ""
    """The eksaVersion of the program that has these images; empty in a file of a former release."""

    @classmethod
    def read(cls, file: Path) -> Components | None:
        """Those of a local environment with real nodes; None if it has none.

        Raises `Failure` for a broken file, and for an environment of another release than this program: it has no
        images of this one.
        """
        try:
            real = json_trees.decode(file.read_bytes(), cls)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise Failure(f"{file}: {error}: `espalier up --nodes real` writes it anew") from None
        own = chosen_release.own_version()
        if real.release != own:
            home = f"ESPALIER_HOME={shown_commands.path(file.parent)}"
            raise Failure(
                f"{file}: found the images of release {real.release or 'before ' + own}, allowed is {own}, the one of "
                f"this espalier: start the local environment again with it: `{home} espalier down`, then "
                f"`{home} espalier up --detach --nodes real`; its nodes go on"
            )
        return real

    def write(self, file: Path) -> None:
        """Replace the file."""
        staged = file.with_name(f".{file.name}.new")
        staged.write_bytes(msgspec.json.encode(self))
        staged.replace(file)


REAL = Key("capi-kubeadm-control-plane-system", "capi-kubeadm-control-plane-controller-manager")
"""A Deployment that a management cluster has unless its machines are simulated: there, one has all controllers."""


async def of_cluster(client: Client, home: Home) -> Components | None:
    """The programs of an existing management cluster; None if its machines are simulated.

    Raises `Failure` if they are not, and the local environment that manages them is another one, or of another release.
    """
    try:
        await client.get(DEPLOYMENT, REAL.name, REAL.namespace)
    except NotFound:
        return None
    real = Components.read(home.components)
    if real is None:
        raise Failure(
            f"the cluster has real nodes, and {home.root} is not the local environment that manages them: set "
            "ESPALIER_HOME to the folder in which `espalier up --nodes real` runs; on your own infrastructure, give "
            "the components with --components DIR"
        )
    return real


def cluster_api(release: str, real: Components | None = None) -> list[Tree]:
    """The manifests of Cluster API and its providers: real ones if they are given, else simulated ones."""
    return real.cluster_api if real is not None else simulated_cluster_api(release)


def espalier(
    record: Key, release: str, releases: Releases | None = None, *, real: Components | None = None
) -> list[Tree]:
    """The manifests of `espalier manifests` for this record, with the image of real components, or else the one that
    the release names."""
    image = real.espalier if real is not None else _bundle(release, releases)["eksa"]["clusterController"]["uri"]
    namespace = core.NAMESPACE.body(record.namespace)
    return [
        namespace,
        *manifests.installed(PROVIDERS),
        manifests.management(str(record)),
        *(tree for _, tree in manifests.webhook_configurations()),
        *manifests.deployed(image),
    ]


def simulated_cluster_api(release: str, releases: Releases | None = None) -> list[Tree]:
    """The definitions of Cluster API and all providers, and one Deployment for their controllers, which are simulated
    together."""
    image = _bundle(release, releases)["clusterAPI"]["controller"]["uri"]
    subject = {"kind": "ServiceAccount", "name": _CAPI, "namespace": CAPI_NAMESPACE}
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    role = {"apiGroup": core.CLUSTER_ROLE.group, "kind": "ClusterRole", "name": _CAPI}
    labels = {"control-plane": _CAPI}
    health = {"port": HEALTH_PORT}
    pod = {
        "serviceAccountName": _CAPI,
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "manager",
                "image": image,
                "command": ["/manager"],
                "livenessProbe": {"httpGet": {"path": "/healthz", **health}},
                "readinessProbe": {"httpGet": {"path": "/readyz", **health}, "periodSeconds": 1},
            }
        ],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    deployment = core.DEPLOYMENT.body(_CAPI, CAPI_NAMESPACE)
    deployment["metadata"]["annotations"] = {SIMULATED_PROVIDERS: ",".join(component_versions.PROVIDERS)}
    return [
        core.NAMESPACE.body(CAPI_NAMESPACE),
        *(msgspec.to_builtins(crd_of(kind)) for kind in SIMULATED_KINDS),
        core.SERVICE_ACCOUNT.body(_CAPI, CAPI_NAMESPACE),
        core.CLUSTER_ROLE.body(_CAPI) | {"rules": everything},
        core.CLUSTER_ROLE_BINDING.body(_CAPI) | {"roleRef": role, "subjects": [subject]},
        deployment | {"spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}},
    ]


def simulated_flux(release: str, namespace: str, releases: Releases | None = None) -> list[Tree]:
    """The definitions of Flux as far as its stand-in knows them, and both of its Deployments, with the images that the
    release names, or Flux's: on simulated nodes these run the stand-in."""
    named = _bundle(release, releases).get("flux") or {}
    trees: list[Tree] = [
        core.NAMESPACE.body(namespace),
        *(msgspec.to_builtins(crd_of(kind)) for kind in flux.KINDS),
    ]
    role = {"apiGroup": core.CLUSTER_ROLE.group, "kind": "ClusterRole", "name": "cluster-reconciler"}
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]
    trees.append(core.CLUSTER_ROLE.body("cluster-reconciler") | {"rules": rules})
    for name, image in (("source-controller", "sourceController"), ("kustomize-controller", "kustomizeController")):
        labels = {"app": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        template = {
            "metadata": {"labels": labels},
            "spec": {
                "serviceAccountName": name,
                "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
                "containers": [{"name": "manager", "image": (named.get(image) or {}).get("uri") or f"{_FLUX}/{name}"}],
            },
        }
        trees += [
            core.SERVICE_ACCOUNT.body(name, namespace),
            core.CLUSTER_ROLE_BINDING.body(f"{name}-{namespace}") | {"roleRef": role, "subjects": [subject]},
            core.DEPLOYMENT.body(name, namespace)
            | {"spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}},
        ]
    return trees


def _bundle(release: str, releases: Releases | None) -> dict[str, Any]:
    offered = (releases or Releases.load()).release(release)
    tree: dict[str, Any] = msgspec.to_builtins(offered.bundles.spec.versions_bundles[0])
    return tree
