"""The starting manifest of a cluster on bare metal."""

from __future__ import annotations

from espalier.clusters.design.starting_manifest import (
    Choices,
    UnsupportedChoiceError,
    beginning,
    config,
    endpoint,
    management_cluster,
    scalar,
)


def manifest(name: str, choices: Choices) -> str:
    """The manifest that the CLI of EKS Anywhere generates, with comments."""
    if choices.external_etcd:
        raise UnsupportedChoiceError("bare metal has no external etcd: it runs on the machines of the control plane")
    kubernetes_version = choices.kubernetes_version
    return f"""\
# Tinkerbell runs in the management cluster. Before you apply this manifest, create a Hardware in eksa-system for each
# machine, with the labels that are selected below.
{beginning(name, 1)}\
{endpoint("192.0.2.13")}
    machineGroupRef:
      kind: TinkerbellMachineConfig
      name: {name}-cp
    # By default, machines are replaced one by one, which needs a spare one with the same labels. InPlace upgrades
    # running machines (only Ubuntu). All groups must have the same type.
    # upgradeRolloutStrategy:
    #   type: InPlace
  datacenterRef:
    kind: TinkerbellDatacenterConfig
    name: {scalar(name)}
  # Upgrade one minor version at a time; the URLs of operating system images below contain it.
  kubernetesVersion: "{kubernetes_version}"
{management_cluster(choices.management_cluster)}
  # Without groups, pods run on the control plane.
  workerNodeGroupConfigurations:
  - count: 1
    name: md-0
    machineGroupRef:
      kind: TinkerbellMachineConfig
      name: {scalar(name)}
{config("Tinkerbell", "Datacenter", name, _datacenter(kubernetes_version))}\
{config("Tinkerbell", "Machine", f"{name}-cp", _machines("control-plane"))}\
{config("Tinkerbell", "Machine", name, _machines("worker"))}"""


def _datacenter(kubernetes_version: str) -> str:
    return f"""\
  # The address at which bare metal reaches Tinkerbell, not that of the API server. It can't be changed later.
  tinkerbellIP: "192.0.2.9"
  # The disk image (.gz) for all machines, with this operating system, and Kubernetes of the cluster's version. For
  # machines of different versions, set it in their TinkerbellMachineConfigs instead.
  osImageURL: "https://images.example.com/ubuntu-{kubernetes_version.replace(".", "-")}.gz"
"""


def _machines(label: str) -> str:
    return f"""\
  # One label, with its value, that selects Hardware for the machines.
  hardwareSelector:
    type: {label}
  # ubuntu or redhat, the same for all machines. It can't be changed later.
  osFamily: ubuntu
  # They can't be changed later.
  users:
  - name: ec2-user
    sshAuthorizedKeys:
    # Your public key; without one, nobody can log in to the machines.
    - ""
"""
