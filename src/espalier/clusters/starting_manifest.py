"""The common parts of all providers' manifests, for `espalier generate clusterconfig`."""

from __future__ import annotations

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

ENDPOINT = """\
    endpoint:
      # The address of the API server: free, in the network of the machines, and not given out by DHCP.
      # kube-vip assigns it to one of the machines. It can't be changed later.
      host: "192.0.2.10\""""

EXTERNAL_ETCD = """\
  # External etcd, which needs EKS Anywhere's build of Cluster API; without the field,
  # etcd runs on the machines of the control plane. It can't be changed later.
  externalEtcdConfiguration:
    # 1, 3 or 5."""


def management_cluster(name: str) -> str:
    """The field that names the management cluster."""
    return f"""\
  # The cluster that manages this one; with its own name, this one is a management cluster.
  managementCluster:
    name: {scalar(name)}"""


def scalar(text: str) -> str:
    """A text as YAML, in quotes where it would be read as something else, like the name `yes`."""
    return yaml.dump([text], Dumper=yaml.CSafeDumper).removeprefix("- ").rstrip("\n")
