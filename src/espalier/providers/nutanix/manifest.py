"""The starting manifest of a cluster on Nutanix."""

from __future__ import annotations

from espalier.clusters.starting_manifest import CLUSTER_NETWORK, ENDPOINT, EXTERNAL_ETCD, scalar
from espalier.clusters.starting_manifest import management_cluster as manager


def manifest(name: str, *, kubernetes_version: str, management_cluster: str) -> str:
    """The manifest that the CLI of EKS Anywhere generates, with comments."""
    return f"""\
# Credentials are kept in a Secret. `espalier create cluster` writes nutanix-credentials from EKSA_NUTANIX_USERNAME and
# EKSA_NUTANIX_PASSWORD (a user that creates machines), and EKSA_NUTANIX_CP_USERNAME and EKSA_NUTANIX_CP_PASSWORD (a
# read-only user, which workload clusters use); docs/nutanix.md shows how to create it by hand.
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata:
  name: {scalar(name)}
spec:
{CLUSTER_NETWORK}
  controlPlaneConfiguration:
    # 1, 3 or 5.
    count: 3
{ENDPOINT}
    machineGroupRef:
      kind: NutanixMachineConfig
      name: {name}-cp
  datacenterRef:
    kind: NutanixDatacenterConfig
    name: {scalar(name)}
{EXTERNAL_ETCD}
    count: 3
    machineGroupRef:
      kind: NutanixMachineConfig
      name: {name}-etcd
  # Upgrade one minor version at a time; the images of machines below must contain the same version.
  kubernetesVersion: "{kubernetes_version}"
{manager(management_cluster)}
  workerNodeGroupConfigurations:
  - count: 2
    name: md-0
    machineGroupRef:
      kind: NutanixMachineConfig
      name: {scalar(name)}

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: NutanixDatacenterConfig
metadata:
  name: {scalar(name)}
spec:
  # Name or address of Prism Central, without https://. It can't be changed later.
  endpoint: "prism.example.com"
  port: 9440
  # True skips verification of the certificate, so credentials may go to an impostor: the Secret must then permit
  # insecure:ENDPOINT:PORT. For a certificate of your own authority, set additionalTrustBundle instead.
  insecure: false
  # The Secret in eksa-system.
  credentialRef:
    kind: Secret
    name: nutanix-credentials

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: NutanixMachineConfig
metadata:
  name: {name}-cp
spec:
{_machines(kubernetes_version)}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: NutanixMachineConfig
metadata:
  name: {name}-etcd
spec:
{_machines(kubernetes_version)}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: NutanixMachineConfig
metadata:
  name: {scalar(name)}
spec:
{_machines(kubernetes_version)}"""


def _machines(kubernetes_version: str) -> str:
    return f"""\
  vcpuSockets: 2
  vcpusPerSocket: 1
  memorySize: 8Gi
  systemDiskSize: 40Gi
  # ubuntu or redhat. Like cluster, subnet and bootType, it can't be changed later.
  osFamily: ubuntu
  # The image must contain this operating system, and Kubernetes of the cluster's version.
  # Images, clusters, subnets and projects have `type: name` and a name, or `type: uuid` and a uuid.
  image:
    type: name
    name: "ubuntu-{kubernetes_version.replace(".", "-")}"
  # The Prism Element cluster.
  cluster:
    type: name
    name: "cluster-1"
  # DHCP assigns addresses to machines in this subnet.
  subnet:
    type: name
    name: "subnet-1"
  users:
  - name: eksa
    sshAuthorizedKeys:
    # Your public key; without one, nobody can log in to the machines.
    - ""
"""
