"""The common parts of all providers' manifests, for `espalier generate clusterconfig`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from espalier.api.trees import yaml_text

_CLUSTER_NETWORK = """\
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


def beginning(name: str, count: int) -> str:
    """The Cluster up to the number of its control plane machines."""
    return f"""\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata:
  name: {scalar(name)}
spec:
{_CLUSTER_NETWORK}
  controlPlaneConfiguration:
    # 1, 3 or 5.
    count: {count}
"""


@dataclass(frozen=True)
class HighlyAvailable:
    """The manifests of a provider, with three machines for the control plane (and three for external etcd), and a
    machine config for each group.
    """

    provider: str
    """The prefix of its kinds."""
    heading: str
    """Comments."""
    address: str
    """That of the API server. Each provider has another one, so that several manifests can be tried beside each other.
    """
    images: str
    """The name of what machines start from, which contains Kubernetes."""
    datacenter: str
    """The spec of the datacenter, indented."""
    machines: Callable[[str, Choices], str]
    """The spec of a machine config, indented, for a cluster of this name."""

    def __call__(self, name: str, choices: Choices) -> str:
        """The manifest that the CLI of EKS Anywhere generates, with comments."""
        etcd, machines = f"{name}-etcd", self.machines(name, choices)
        reference = f"""\
    machineGroupRef:
      kind: {self.provider}MachineConfig
      name: {etcd}
"""
        etcd_machines = config(self.provider, "Machine", etcd, machines) if choices.external_etcd else ""
        return f"""\
{self.heading}\
{beginning(name, 3)}\
{endpoint(self.address)}
    machineGroupRef:
      kind: {self.provider}MachineConfig
      name: {name}-cp
  datacenterRef:
    kind: {self.provider}DatacenterConfig
    name: {scalar(name)}
{external_etcd(choices, 3, reference)}\
  # Upgrade one minor version at a time; the {self.images} of machines below must contain the same version.
  kubernetesVersion: "{choices.kubernetes_version}"
{management_cluster(choices.management_cluster)}
  workerNodeGroupConfigurations:
  - count: 2
    name: md-0
    machineGroupRef:
      kind: {self.provider}MachineConfig
      name: {scalar(name)}
{config(self.provider, "Datacenter", name, self.datacenter)}\
{config(self.provider, "Machine", f"{name}-cp", machines)}\
{etcd_machines}\
{config(self.provider, "Machine", name, machines)}"""


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
    return yaml_text.dump([text]).removeprefix("- ").rstrip("\n")
