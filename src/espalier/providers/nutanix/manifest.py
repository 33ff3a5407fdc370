"""The manifest with which a cluster on Nutanix begins."""

from __future__ import annotations

from espalier.clusters.starting_manifest import CLUSTER_NETWORK, ENDPOINT, EXTERNAL_ETCD
from espalier.clusters.starting_manifest import management_cluster as manager


def manifest(name: str, *, kubernetes_version: str, management_cluster: str) -> str:
    """As the CLI of EKS Anywhere generates it, with comments."""
    return f"""\
# Credentials are not in here. `espalier create cluster` writes Secret nutanix-credentials from EKSA_NUTANIX_USERNAME
# and EKSA_NUTANIX_PASSWORD, of a user that makes machines, and EKSA_NUTANIX_CP_USERNAME and EKSA_NUTANIX_CP_PASSWORD,
# of one that may only read (it is known in the cluster); docs/nutanix.md says how to make it by hand.
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata:
  name: {name}
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
    name: {name}
{EXTERNAL_ETCD}
    count: 3
    machineGroupRef:
      kind: NutanixMachineConfig
      name: {name}-etcd
  # One minor version at a time; the image of the machines below must be of the same.
  kubernetesVersion: "{kubernetes_version}"
{manager(management_cluster)}
  workerNodeGroupConfigurations:
  - count: 2
    name: md-0
    machineGroupRef:
      kind: NutanixMachineConfig
      name: {name}

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: NutanixDatacenterConfig
metadata:
  name: {name}
spec:
  # Name or address of Prism Central, without https://. It can't be changed later.
  endpoint: "prism.example.com"
  port: 9440
  # With true, whoever answers at the address gets the credentials: the Secret must then permit
  # insecure:ENDPOINT:PORT. For a certificate of your own authority, give additionalTrustBundle instead.
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
  name: {name}
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
  # What machines start from: with this operating system, and Kubernetes of the cluster's version.
  # Images, clusters, subnets and projects are named by `type: name` and name, or by `type: uuid` and uuid.
  image:
    type: name
    name: "ubuntu-{kubernetes_version.replace(".", "-")}"
  # The Prism Element cluster.
  cluster:
    type: name
    name: "cluster-1"
  # DHCP gives addresses to machines there.
  subnet:
    type: name
    name: "subnet-1"
  users:
  - name: eksa
    sshAuthorizedKeys:
    # Your public key; without one, nobody logs in to the machines.
    - ""
"""
