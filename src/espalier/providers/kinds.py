"""The typed kinds of this build, including those of its providers, for programs that render nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from espalier.api import capi, core, eksa
from espalier.api.catalog import Catalog
from espalier.api.kinds import KubeObject
from espalier.providers.docker import cluster_api as docker_cluster_api
from espalier.providers.docker import kinds as docker
from espalier.providers.docker import manifest as docker_manifest
from espalier.providers.vsphere import cluster_api as vsphere_cluster_api
from espalier.providers.vsphere import kinds as vsphere
from espalier.providers.vsphere import manifest as vsphere_manifest

PROVIDER_KINDS: tuple[type[KubeObject], ...] = (*docker.KINDS, *vsphere.KINDS)
"""The kinds of `anywhere.eks.amazonaws.com` that belong to providers."""

EKSA_KINDS: tuple[type[KubeObject], ...] = (*eksa.KINDS, *PROVIDER_KINDS)
"""The kinds whose CRDs `espalier manifests` includes."""


class Manifest(Protocol):
    """Writes the manifest with which a cluster of a provider begins."""

    def __call__(self, name: str, /, *, kubernetes_version: str, management_cluster: str) -> str:
        """The manifest, with comments."""


MANIFESTS: Mapping[str, Manifest] = {"docker": docker_manifest.manifest, "vsphere": vsphere_manifest.manifest}
"""By the names that EKS Anywhere has for providers."""

LOCAL_DATACENTER = docker.DockerDatacenterConfig
"""The datacenter kind in the management cluster's record of a local environment."""

INFRASTRUCTURE_KINDS: tuple[type[KubeObject], ...] = (*docker_cluster_api.KINDS, *vsphere_cluster_api.KINDS)
"""The kinds of Cluster API's infrastructure providers that we read or write."""

CLUSTER_API_KINDS: tuple[type[KubeObject], ...] = (*capi.KINDS, *INFRASTRUCTURE_KINDS)
"""The kinds of Cluster API that we read or write."""

KINDS: tuple[type[KubeObject], ...] = (*EKSA_KINDS, *CLUSTER_API_KINDS)

CATALOG = Catalog((*KINDS, core.Namespace, core.Secret, core.ConfigMap))
