"""The manifest with which a cluster on Snow begins."""

from __future__ import annotations

from espalier.clusters.starting_manifest import CLUSTER_NETWORK, ENDPOINT, EXTERNAL_ETCD
from espalier.clusters.starting_manifest import management_cluster as manager


def manifest(name: str, *, kubernetes_version: str, management_cluster: str) -> str:
    """As the CLI of EKS Anywhere generates it, with comments."""
    return f"""\
# Credentials are not in here. `espalier create cluster` writes Secret snow-credentials from the files that
# EKSA_AWS_CREDENTIALS_FILE (a profile for each device, named by its address) and EKSA_AWS_CA_BUNDLES_FILE (the
# certificates of all devices) name; docs/snow.md says how to make it by hand.
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
      kind: SnowMachineConfig
      name: {name}-cp
  datacenterRef:
    kind: SnowDatacenterConfig
    name: {name}
{EXTERNAL_ETCD}
    count: 3
    machineGroupRef:
      kind: SnowMachineConfig
      name: {name}-etcd
  # One minor version at a time; the image of the machines below must be of the same.
  kubernetesVersion: "{kubernetes_version}"
{manager(management_cluster)}
  workerNodeGroupConfigurations:
  - count: 2
    name: md-0
    machineGroupRef:
      kind: SnowMachineConfig
      name: {name}

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: SnowDatacenterConfig
metadata:
  name: {name}
spec:
  # The Secret in eksa-system.
  identityRef:
    kind: Secret
    name: snow-credentials

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: SnowMachineConfig
metadata:
  name: {name}-cp
spec:
{_machines(name)}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: SnowMachineConfig
metadata:
  name: {name}-etcd
spec:
{_machines(name)}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: SnowMachineConfig
metadata:
  name: {name}
spec:
{_machines(name)}
---
# Only for interfaces that get no address by DHCP. It can't be changed later; name another one instead.
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: SnowIPPool
metadata:
  name: {name}
spec:
  pools:
  - ipStart: "192.0.2.20"
    ipEnd: "192.0.2.60"
    subnet: "192.0.2.0/24"
    gateway: "192.0.2.1"
"""


def _machines(pool: str) -> str:
    return f"""\
  # What machines start from: with this operating system, and Kubernetes of the cluster's version. Without the field, an
  # image of that version is looked for on the devices.
  amiID: "s.ami-0123456789abcdef0"
  osFamily: ubuntu
  # sbe-c.large, sbe-c.xlarge and so on, or sbe-g with a GPU.
  instanceType: sbe-c.large
  # SFP_PLUS, QSFP or RJ45.
  physicalNetworkConnector: SFP_PLUS
  # A key pair that each device has. It can't be changed later.
  sshKeyName: "default"
  # Addresses of the devices that machines may run on. The Secret permits each of them.
  devices:
  - "192.0.2.100"
  # A disk of its own for images and containers, in GiB.
  containersVolume:
    size: 25
  network:
    directNetworkInterfaces:
    # Either an address of a SnowIPPool, or `dhcp: true` without ipPoolRef. One interface is primary.
    - index: 1
      primary: true
      ipPoolRef:
        kind: SnowIPPool
        name: {pool}
"""
