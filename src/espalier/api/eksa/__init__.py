"""The kinds of `anywhere.eks.amazonaws.com` that belong to no provider, and EKS Distro's Release."""

from espalier.api.eksa import aws, cluster, gitops, identity_providers, upgrades
from espalier.api.eksa.releases import distro, release
from espalier.api.kinds import KubeObject

CLUSTER_KINDS: tuple[type[KubeObject], ...] = (
    cluster.Cluster,
    *gitops.KINDS,
    *identity_providers.KINDS,
    *aws.KINDS,
    release.Bundles,
    release.EKSARelease,
    distro.DistroRelease,
)
"""Clusters, the objects that they reference, and what only old manifests have."""

UPGRADE_KINDS: tuple[type[KubeObject], ...] = (
    upgrades.ControlPlaneUpgrade,
    upgrades.MachineDeploymentUpgrade,
    upgrades.NodeUpgrade,
)
"""In-place upgrades."""

KINDS: tuple[type[KubeObject], ...] = (*CLUSTER_KINDS, *UPGRADE_KINDS)
