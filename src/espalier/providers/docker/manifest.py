"""The manifest with which a cluster on Docker begins."""

from __future__ import annotations


def manifest(name: str, *, kubernetes_version: str, management_cluster: str) -> str:
    """As the CLI of EKS Anywhere generates it, with comments."""
    return f"""\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata:
  name: {name}
spec:
  clusterNetwork:
    cniConfig:
      cilium: {{}}
    # One range each; they can't be changed later.
    pods:
      cidrBlocks:
      - 192.168.0.0/16
    services:
      cidrBlocks:
      - 10.96.0.0/12
  controlPlaneConfiguration:
    # 1, 3 or 5.
    count: 1
  datacenterRef:
    kind: DockerDatacenterConfig
    name: {name}
  # etcd on machines of its own. It needs EKS Anywhere's build of Cluster API; without the field,
  # etcd runs on the machines of the control plane. It can't be changed later.
  externalEtcdConfiguration:
    # 1, 3 or 5.
    count: 1
  # One minor version at a time.
  kubernetesVersion: "{kubernetes_version}"
  # The cluster that manages this one; with its own name, this one is a management cluster.
  managementCluster:
    name: {management_cluster}
  workerNodeGroupConfigurations:
  - count: 1
    name: md-0

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: DockerDatacenterConfig
metadata:
  name: {name}
spec: {{}}
"""
