"""The starting manifest of a cluster on Snow."""

from __future__ import annotations

from espalier.clusters.design.starting_manifest import Choices, HighlyAvailable, scalar

HEADING = """\
# Credentials are kept in a Secret. `espalier create cluster` writes snow-credentials from the files named in
# EKSA_AWS_CREDENTIALS_FILE (a profile for each device, named by its address) and EKSA_AWS_CA_BUNDLES_FILE (the
# certificates of all devices); docs/snow.md shows how to create it by hand.
"""

DATACENTER = """\
  # The Secret in eksa-system.
  identityRef:
    kind: Secret
    name: snow-credentials
"""


def _machines(pool: str, _choices: Choices) -> str:
    return f"""\
  # The image must contain this operating system, and Kubernetes of the cluster's version. By default, Cluster API's
  # provider looks for an image of that version on the devices.
  amiID: "s.ami-0123456789abcdef0"
  osFamily: ubuntu
  # sbe-c.large, sbe-c.xlarge and larger, or sbe-g with a GPU.
  instanceType: sbe-c.large
  # SFP_PLUS, QSFP or RJ45.
  physicalNetworkConnector: SFP_PLUS
  # A key pair that each device has. It can't be changed later.
  sshKeyName: "default"
  # Addresses of the devices that machines may run on. The Secret must permit each of them.
  devices:
  - "192.0.2.100"
  # A separate disk for images and containers, in GiB.
  containersVolume:
    size: 25
  network:
    directNetworkInterfaces:
    # Either an address from a SnowIPPool, or `dhcp: true` without ipPoolRef. Exactly one interface is primary.
    - index: 1
      primary: true
      ipPoolRef:
        kind: SnowIPPool
        name: {scalar(pool)}
"""


_clusters = HighlyAvailable("Snow", HEADING, "192.0.2.16", "images", DATACENTER, _machines)


def manifest(name: str, choices: Choices) -> str:
    """The manifest that the CLI of EKS Anywhere generates, with comments."""
    return f"""\
{_clusters(name, choices)}
---
# Only for interfaces without DHCP. It can't be changed later; use another one instead.
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: SnowIPPool
metadata:
  name: {scalar(name)}
spec:
  pools:
  - ipStart: "192.0.2.20"
    ipEnd: "192.0.2.60"
    subnet: "192.0.2.0/24"
    gateway: "192.0.2.1"
"""
