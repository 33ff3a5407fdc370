"""The kinds of `anywhere.eks.amazonaws.com/v1alpha1`: those whose CRDs `espalier manifests` ships."""

from espalier.api.eksa import cluster, docker, release, upgrades
from espalier.api.kinds import KubeObject

KINDS: tuple[type[KubeObject], ...] = (
    cluster.Cluster,
    docker.DockerDatacenterConfig,
    release.Bundles,
    release.EKSARelease,
    upgrades.ControlPlaneUpgrade,
    upgrades.MachineDeploymentUpgrade,
    upgrades.NodeUpgrade,
)
