"""The manifest with which a cluster on bare metal begins."""

from __future__ import annotations

from espalier.clusters.starting_manifest import CLUSTER_NETWORK, ENDPOINT
from espalier.clusters.starting_manifest import management_cluster as manager


def manifest(name: str, *, kubernetes_version: str, management_cluster: str) -> str:
    """As the CLI of EKS Anywhere generates it, with comments."""
    return f"""\
# Tinkerbell runs in the management cluster, and knows the bare metal: before this is applied, there is a Hardware for
# each machine in eksa-system, with labels by which machines are selected below.
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata:
  name: {name}
spec:
{CLUSTER_NETWORK}
  controlPlaneConfiguration:
    # 1, 3 or 5.
    count: 1
{ENDPOINT}
    machineGroupRef:
      kind: TinkerbellMachineConfig
      name: {name}-cp
    # Without it, machines are replaced one by one, which needs a spare one that is selected like them. With it,
    # those that run are upgraded where they stand (Ubuntu alone). All groups have the same type.
    # upgradeRolloutStrategy:
    #   type: InPlace
  datacenterRef:
    kind: TinkerbellDatacenterConfig
    name: {name}
  # One minor version at a time; the URLs of operating systems below contain it.
  kubernetesVersion: "{kubernetes_version}"
{manager(management_cluster)}
  # Without groups, pods run on the machines of the control plane.
  workerNodeGroupConfigurations:
  - count: 1
    name: md-0
    machineGroupRef:
      kind: TinkerbellMachineConfig
      name: {name}

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: TinkerbellDatacenterConfig
metadata:
  name: {name}
spec:
  # The address at which bare metal reaches Tinkerbell; not the one of the API server. It can't be changed later.
  tinkerbellIP: "192.0.2.9"
  # What is written to the disks of all machines: an image of a disk (.gz) with this operating system, and Kubernetes
  # of the cluster's version. Machines of different versions have it in their TinkerbellMachineConfigs instead.
  osImageURL: "https://images.example.com/ubuntu-{kubernetes_version.replace(".", "-")}.gz"

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: TinkerbellMachineConfig
metadata:
  name: {name}-cp
spec:
{_machines("control-plane")}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: TinkerbellMachineConfig
metadata:
  name: {name}
spec:
{_machines("worker")}"""


def _machines(label: str) -> str:
    return f"""\
  # The label of the Hardware that machines are made of: one, with its value.
  hardwareSelector:
    type: {label}
  # ubuntu or redhat, the same for all machines. It can't be changed later.
  osFamily: ubuntu
  # They can't be changed later.
  users:
  - name: ec2-user
    sshAuthorizedKeys:
    # Your public key; without one, nobody logs in to the machines.
    - ""
"""
