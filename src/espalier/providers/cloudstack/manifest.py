"""The manifest with which a cluster on CloudStack begins."""

from __future__ import annotations

from espalier.clusters.starting_manifest import CLUSTER_NETWORK, ENDPOINT, EXTERNAL_ETCD
from espalier.clusters.starting_manifest import management_cluster as manager


def manifest(name: str, *, kubernetes_version: str, management_cluster: str) -> str:
    """As the CLI of EKS Anywhere generates it, with comments."""
    return f"""\
# Credentials are not in here. `espalier create cluster` writes a Secret for each credentialsRef below from
# EKSA_CLOUDSTACK_B64ENCODED_SECRET, as EKS Anywhere reads it; docs/cloudstack.md says how to make it by hand.
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
      kind: CloudStackMachineConfig
      name: {name}-cp
  datacenterRef:
    kind: CloudStackDatacenterConfig
    name: {name}
{EXTERNAL_ETCD}
    count: 3
    machineGroupRef:
      kind: CloudStackMachineConfig
      name: {name}-etcd
  # One minor version at a time; the template of the machines below must be of the same.
  kubernetesVersion: "{kubernetes_version}"
{manager(management_cluster)}
  workerNodeGroupConfigurations:
  - count: 2
    name: md-0
    machineGroupRef:
      kind: CloudStackMachineConfig
      name: {name}

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: CloudStackDatacenterConfig
metadata:
  name: {name}
spec:
  # Machines are spread over them. One stays as it is; others can be added, and removed as long as one stays.
  availabilityZones:
  - name: az-1
    # The Secret in eksa-system with the keys of a user that makes machines.
    credentialsRef: global
    # The same as api-url in that Secret.
    managementApiEndpoint: "https://cloudstack.example.com:8443/client/api"
    domain: "ROOT"
    account: "admin"
    # Zones, networks, offerings and templates are named by `name` or by `id`.
    zone:
      name: "zone-1"
      # CloudStack gives addresses to machines there.
      network:
        name: "network-1"

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: CloudStackMachineConfig
metadata:
  name: {name}-cp
spec:
{_machines(kubernetes_version)}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: CloudStackMachineConfig
metadata:
  name: {name}-etcd
spec:
{_machines(kubernetes_version)}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: CloudStackMachineConfig
metadata:
  name: {name}
spec:
{_machines(kubernetes_version)}"""


def _machines(kubernetes_version: str) -> str:
    return f"""\
  computeOffering:
    name: "4 CPUs, 8 GB"
  # What machines start from: with Kubernetes of the cluster's version, which is in the name.
  template:
    name: "rhel8-kube-v{kubernetes_version.replace(".", "-")}"
  # pro: machines of a group are on one host; anti: each on another; no: wherever. It can't be changed later.
  affinity: anti
  users:
  - name: capc
    sshAuthorizedKeys:
    # Your public key; without one, nobody logs in to the machines.
    - ""
"""
