"""The typed kinds of this build, including those of its providers, for programs that render nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from espalier.api import capi, core, eksa
from espalier.api.kinds import KubeObject
from espalier.api.manifests.catalog import Catalog
from espalier.clusters.design.starting_manifest import Choices
from espalier.providers.cloudstack import cluster_api as cloudstack_cluster_api
from espalier.providers.cloudstack import kinds as cloudstack
from espalier.providers.cloudstack import manifest as cloudstack_manifest
from espalier.providers.docker import cluster_api as docker_cluster_api
from espalier.providers.docker import kinds as docker
from espalier.providers.docker import manifest as docker_manifest
from espalier.providers.nutanix import cluster_api as nutanix_cluster_api
from espalier.providers.nutanix import kinds as nutanix
from espalier.providers.nutanix import manifest as nutanix_manifest
from espalier.providers.snow import cluster_api as snow_cluster_api
from espalier.providers.snow import kinds as snow
from espalier.providers.snow import manifest as snow_manifest
from espalier.providers.tinkerbell import cluster_api as tinkerbell_cluster_api
from espalier.providers.tinkerbell import hardware_kinds
from espalier.providers.tinkerbell import kinds as tinkerbell
from espalier.providers.tinkerbell import manifest as tinkerbell_manifest
from espalier.providers.tinkerbell.hardware import manifest as hardware
from espalier.providers.vsphere import cluster_api as vsphere_cluster_api
from espalier.providers.vsphere import kinds as vsphere
from espalier.providers.vsphere import manifest as vsphere_manifest

PROVIDER_KINDS: tuple[type[KubeObject], ...] = (
    *docker.KINDS,
    *vsphere.KINDS,
    *tinkerbell.KINDS,
    *nutanix.KINDS,
    *cloudstack.KINDS,
    *snow.KINDS,
)
"""The kinds of `anywhere.eks.amazonaws.com` that belong to providers."""

EKSA_KINDS: tuple[type[KubeObject], ...] = (*eksa.KINDS, *PROVIDER_KINDS)
"""The kinds whose CRDs `espalier manifests` includes."""


class Manifest(Protocol):
    """Writes the starting manifest of a cluster."""

    def __call__(self, name: str, choices: Choices, /) -> str:
        """The manifest, with comments. Raises `UnsupportedChoiceError`."""


MANIFESTS: Mapping[str, Manifest] = {
    "docker": docker_manifest.manifest,
    "vsphere": vsphere_manifest.manifest,
    "tinkerbell": tinkerbell_manifest.manifest,
    "nutanix": nutanix_manifest.manifest,
    "snow": snow_manifest.manifest,
    "cloudstack": cloudstack_manifest.manifest,
}
"""By the names that EKS Anywhere has for providers."""

hardware_manifest = hardware.manifest
"""Makes the objects of bare metal from a CSV file."""

LOCAL_DATACENTER = docker.DockerDatacenterConfig
"""The datacenter kind in the management cluster's record of a local environment."""

INFRASTRUCTURE_KINDS: tuple[type[KubeObject], ...] = (
    *docker_cluster_api.KINDS,
    *vsphere_cluster_api.KINDS,
    *tinkerbell_cluster_api.KINDS,
    *nutanix_cluster_api.KINDS,
    *snow_cluster_api.KINDS,
    *cloudstack_cluster_api.KINDS,
)
"""The kinds of Cluster API's infrastructure providers that we read or write."""

CLUSTER_API_KINDS: tuple[type[KubeObject], ...] = (*capi.KINDS, *INFRASTRUCTURE_KINDS)
"""The kinds of Cluster API that we read or write."""

SIMULATED_KINDS: tuple[type[KubeObject], ...] = (*CLUSTER_API_KINDS, *hardware_kinds.KINDS)
"""The kinds of machine owners in Cluster API, and of the machine templates of its providers."""

KINDS: tuple[type[KubeObject], ...] = (*EKSA_KINDS, *SIMULATED_KINDS)

CATALOG = Catalog((*KINDS, core.Namespace, core.Secret, core.ConfigMap))
