"""Versions of what runs in a management cluster: found in its Deployments, and wanted by a release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from espalier.api.core import DEPLOYMENT
from espalier.api.eksa.releases.release import VersionsBundle
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.metadata_keys import SIMULATED_PROVIDERS
from espalier.cli.install import manifests
from espalier.clusterapi import installed
from espalier.clusterapi.installed import CORE, PROVIDER_LABEL, manager_image
from espalier.kube.client import Client
from espalier.kube.objects import Object

NO_LONGER_RELEASED = "deprecated"
"""The version in Bundles of EKS Anywhere of a component that it no longer builds."""


class Component(NamedTuple):
    """A component of a management cluster."""

    title: str
    label: str
    """Value of the label of its provider; empty for what is none."""
    namespace: str
    deployment: str
    field: str
    """Its part of the Bundles."""
    is_required: bool = False

    @property
    def key(self) -> str:
        """The label of its provider, or the name of its Deployment."""
        return self.label or self.deployment


COMPONENTS: Sequence[Component] = (
    Component("Espalier", "", SYSTEM_NAMESPACE, manifests.NAME, "eksa", is_required=True),
    Component("cert-manager", "", "cert-manager", "cert-manager", "cert_manager"),
    Component("Cluster API", CORE, installed.NAMESPACE, installed.DEPLOYMENT_NAME, "cluster_api", is_required=True),
    Component(
        "kubeadm bootstrap",
        "bootstrap-kubeadm",
        "capi-kubeadm-bootstrap-system",
        "capi-kubeadm-bootstrap-controller-manager",
        "bootstrap",
        is_required=True,
    ),
    Component(
        "kubeadm control plane",
        "control-plane-kubeadm",
        "capi-kubeadm-control-plane-system",
        "capi-kubeadm-control-plane-controller-manager",
        "control_plane",
        is_required=True,
    ),
    Component("Docker", "infrastructure-docker", "capd-system", "capd-controller-manager", "docker"),
    Component("vSphere", "infrastructure-vsphere", "capv-system", "capv-controller-manager", "v_sphere"),
    Component("CloudStack", "infrastructure-cloudstack", "capc-system", "capc-controller-manager", "cloud_stack"),
    Component("Nutanix", "infrastructure-nutanix", "capx-system", "capx-controller-manager", "nutanix"),
    Component("Tinkerbell", "infrastructure-tinkerbell", "capt-system", "capt-controller-manager", "tinkerbell"),
    Component("Snow", "infrastructure-snow", "caps-system", "caps-controller-manager", "snow"),
)

PROVIDERS = tuple(component.label for component in COMPONENTS if component.label and component.label != CORE)
"""Labels of the providers, without Cluster API itself."""
SIMULATED = "simulated"


class Versions(NamedTuple):
    """A component with the version that runs, and the one of a release."""

    title: str
    present: str
    """Empty if it is not installed; `SIMULATED` if the Deployment of Cluster API simulates it."""
    wanted: str
    """Empty if the release does not say."""

    @property
    def change(self) -> str:
        """The change in a word."""
        if not self.present:
            return "missing"
        return "stays" if self.present in (self.wanted, SIMULATED) or not self.wanted else "changes"


async def read(client: Client) -> list[Object]:
    """The Deployments of a management cluster."""
    return list((await client.list(DEPLOYMENT)).items)


def running(deployments: Iterable[Object]) -> dict[str, str]:
    """The versions that run, by the label of the provider, or the name of what is none."""
    present = list(deployments)
    versions = {component.key: _of(component, present) for component in COMPONENTS}
    return {key: version for key, version in versions.items() if version}


def wanted(bundle: VersionsBundle) -> dict[str, str]:
    """The versions that an entry of Bundles names, likewise."""
    versions = {component.key: _wanted(component, bundle) for component in COMPONENTS}
    return {key: version for key, version in versions.items() if version}


def _of(component: Component, deployments: Iterable[Object]) -> str:
    return next((_version(item) for item in deployments if _is_of(item, component)), "")


def _wanted(component: Component, bundle: VersionsBundle) -> str:
    version = str(getattr(getattr(bundle, component.field, None), "version", "") or "")
    return version if version != NO_LONGER_RELEASED else ""


def compared(deployments: Iterable[Object], bundle: VersionsBundle) -> list[Versions]:
    """Required components, and those that are installed, with the versions of an entry of Bundles."""
    present_deployments = list(deployments)
    simulated = {label for item in present_deployments for label in _simulated_by(item)}
    rows = []
    for component in COMPONENTS:
        part = getattr(bundle, component.field, None)
        of_release, present = _wanted(component, bundle), _of(component, present_deployments)
        controller = getattr(part, "cluster_controller", None)
        if controller is not None and present == _tag(controller.uri):  # which has the number of a build, too
            of_release = present
        if not present and component.label in simulated:
            present = SIMULATED
        if present or component.is_required:
            rows.append(Versions(component.title, present, of_release))
    return rows


def _simulated_by(item: Object) -> list[str]:
    is_core = any(component.label == CORE and _is_of(item, component) for component in COMPONENTS)
    return [*filter(None, item.metadata.annotations.get(SIMULATED_PROVIDERS, "").split(","))] if is_core else []


def _is_of(item: Object, component: Component) -> bool:
    label = item.metadata.labels.get(PROVIDER_LABEL, "")
    if label:
        return label == component.label
    return (item.namespace, item.name) == (component.namespace, component.deployment)


def _version(item: Object) -> str:
    """The tag of the image of a Deployment's manager; else its digest, or all of it."""
    return _tag(manager_image(item.tree))


def _tag(image: str) -> str:
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag or digest or image
