"""The kinds of `anywhere.eks.amazonaws.com` that no provider brings, and EKS Distro's Release."""

from espalier.api.eksa import cluster, distro, gitops, release, upgrades
from espalier.api.kinds import KubeObject

KINDS: tuple[type[KubeObject], ...] = (
    cluster.Cluster,
    *gitops.KINDS,
    release.Bundles,
    release.EKSARelease,
    distro.DistroRelease,
    upgrades.ControlPlaneUpgrade,
    upgrades.MachineDeploymentUpgrade,
    upgrades.NodeUpgrade,
)
