"""The kinds whose CRDs `espalier manifests` ships: of `anywhere.eks.amazonaws.com`, and EKS Distro's Release."""

from espalier.api.eksa import cluster, distro, docker, gitops, release, upgrades
from espalier.api.kinds import KubeObject

KINDS: tuple[type[KubeObject], ...] = (
    cluster.Cluster,
    docker.DockerDatacenterConfig,
    *gitops.KINDS,
    release.Bundles,
    release.EKSARelease,
    distro.DistroRelease,
    upgrades.ControlPlaneUpgrade,
    upgrades.MachineDeploymentUpgrade,
    upgrades.NodeUpgrade,
)
