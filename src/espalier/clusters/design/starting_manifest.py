"""The common parts of all providers' manifests, for `espalier generate clusterconfig`."""

from __future__ import annotations

from typing import NamedTuple

import yaml

CLUSTER_NETWORK = """\
  clusterNetwork:
    cniConfig:
      cilium: {}
    # One range each; they can't be changed later.
    pods:
      cidrBlocks:
      - 192.168.0.0/16
    services:
      cidrBlocks:
      - 10.96.0.0/12"""

_EXTERNAL_ETCD = """\
  # It can't be added or removed later, and needs EKS Anywhere's build of Cluster API. Without it, etcd runs on the
  # machines of the control plane.
  externalEtcdConfiguration:
    # 1, 3 or 5.
"""


class Choices(NamedTuple):
    """The values of a starting manifest that a user chose."""

    kubernetes_version: str
    management_cluster: str
    external_etcd: bool = False


class UnsupportedChoiceError(Exception):
    """A provider lacks what was chosen. The message says what to do."""


def external_etcd(choices: Choices, count: int, machine_config: str = "") -> str:
    """The field with external etcd, if it was chosen. `machine_config` is a reference, indented."""
    return f"{_EXTERNAL_ETCD}    count: {count}\n{machine_config}" if choices.external_etcd else ""


def highly_available(
    name: str, provider: str, choices: Choices, *, address: str, images: str, datacenter: str, machines: str
) -> str:
    """A manifest with three machines for the control plane (and three for external etcd), and a machine config for
    each group.

    `provider` is the prefix of the kinds. `address` is that of the API server; each provider has another one, so that
    several manifests can be tried beside each other. `images` contain Kubernetes: what machines start from.
    `datacenter` and `machines` are the specs of the configs, indented.
    """
    etcd = f"{name}-etcd"
    reference = f"""\
    machineGroupRef:
      kind: {provider}MachineConfig
      name: {etcd}
"""
    etcd_machines = config(provider, "Machine", etcd, machines) if choices.external_etcd else ""
    return f"""\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata:
  name: {scalar(name)}
spec:
{CLUSTER_NETWORK}
  controlPlaneConfiguration:
    # 1, 3 or 5.
    count: 3
{endpoint(address)}
    machineGroupRef:
      kind: {provider}MachineConfig
      name: {name}-cp
  datacenterRef:
    kind: {provider}DatacenterConfig
    name: {scalar(name)}
{external_etcd(choices, 3, reference)}\
  # Upgrade one minor version at a time; the {images} of machines below must contain the same version.
  kubernetesVersion: "{choices.kubernetes_version}"
{management_cluster(choices.management_cluster)}
  workerNodeGroupConfigurations:
  - count: 2
    name: md-0
    machineGroupRef:
      kind: {provider}MachineConfig
      name: {scalar(name)}
{config(provider, "Datacenter", name, datacenter)}\
{config(provider, "Machine", f"{name}-cp", machines)}\
{etcd_machines}\
{config(provider, "Machine", name, machines)}"""


def endpoint(address: str) -> str:
    """The field with the address of the API server."""
    return f"""\
    endpoint:
      # The address of the API server: free, in the network of the machines, and not given out by DHCP.
      # kube-vip assigns it to one of the machines. It can't be changed later.
      host: "{address}\""""


def config(provider: str, what: str, name: str, spec: str) -> str:
    """A config of the provider, after a separator."""
    return f"""
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: {provider}{what}Config
metadata:
  name: {scalar(name)}
spec:
{spec}"""


def management_cluster(name: str) -> str:
    """The field that names the management cluster."""
    return f"""\
  # The cluster that manages this one; with its own name, this one is a management cluster.
  managementCluster:
    name: {scalar(name)}"""


def scalar(text: str) -> str:
    """A text as YAML, in quotes where it would be read as something else, like the name `yes`."""
    return yaml.dump([text], Dumper=yaml.CSafeDumper).removeprefix("- ").rstrip("\n")
