"""The kinds of `anywhere.eks.amazonaws.com` that no provider brings, and EKS Distro's Release."""

from espalier.api.eksa import cluster, distro, gitops, identity_providers, release, upgrades
from espalier.api.kinds import KubeObject

CLUSTER_KINDS: tuple[type[KubeObject], ...] = (
    cluster.Cluster,
    *gitops.KINDS,
    *identity_providers.KINDS,
    release.Bundles,
    release.EKSARelease,
    distro.DistroRelease,
)
"""Clusters, and what they are made of."""

UPGRADE_KINDS: tuple[type[KubeObject], ...] = (
    upgrades.ControlPlaneUpgrade,
    upgrades.MachineDeploymentUpgrade,
    upgrades.NodeUpgrade,
)
"""Upgrades in place."""

KINDS: tuple[type[KubeObject], ...] = (*CLUSTER_KINDS, *UPGRADE_KINDS)
