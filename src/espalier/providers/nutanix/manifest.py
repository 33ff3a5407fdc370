"""The starting manifest of a cluster on Nutanix."""

from __future__ import annotations

from espalier.clusters.design.starting_manifest import Choices, HighlyAvailable

HEADING = """\
# Credentials are kept in a Secret. `espalier create cluster` writes nutanix-credentials from EKSA_NUTANIX_USERNAME and
# EKSA_NUTANIX_PASSWORD (a user that creates machines), and EKSA_NUTANIX_CP_USERNAME and EKSA_NUTANIX_CP_PASSWORD (a
# read-only user, which workload clusters use); docs/nutanix.md shows how to create it by hand.
"""

DATACENTER = """\
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
"""


def _machines(_name: str, choices: Choices) -> str:
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
    name: "ubuntu-{choices.kubernetes_version.replace(".", "-")}"
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


manifest = HighlyAvailable("Nutanix", HEADING, "192.0.2.14", "images", DATACENTER, _machines)
