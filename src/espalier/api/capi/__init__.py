"""Cluster API's kinds (v1beta2), as far as we write or read them. Only the local environment makes CRDs of them."""

from espalier.api.capi import addons, cluster, etcdadm, kubeadm, machine
from espalier.api.kinds import KubeObject

KINDS: tuple[type[KubeObject], ...] = (
    cluster.Cluster,
    machine.Machine,
    machine.MachineSet,
    machine.MachineDeployment,
    machine.MachineHealthCheck,
    kubeadm.KubeadmControlPlane,
    kubeadm.KubeadmConfig,
    kubeadm.KubeadmConfigTemplate,
    addons.ClusterResourceSet,
    *etcdadm.KINDS,
)
