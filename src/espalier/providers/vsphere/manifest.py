"""The starting manifest of a cluster on vSphere."""

from __future__ import annotations

from espalier.clusters.design.starting_manifest import Choices, HighlyAvailable

HEADING = """\
# Credentials are kept in a Secret. `espalier create cluster` writes vsphere-credentials from EKSA_VSPHERE_USERNAME and
# EKSA_VSPHERE_PASSWORD (a user that creates machines), and EKSA_VSPHERE_CP_USERNAME and EKSA_VSPHERE_CP_PASSWORD (a
# read-only user, which workload clusters use); docs/vsphere.md shows how to create it by hand.
"""

DATACENTER = """\
  # Name or address of the vCenter, without https://. Server, datacenter and network can't be changed later.
  server: "vcenter.example.com"
  # SHA-1 thumbprint of its certificate. Without it, Cluster API's provider does not verify the certificate.
  thumbprint: ""
  # True, without a thumbprint, skips verification of the certificate, so credentials may go to an impostor: the
  # Secret must then permit insecure:SERVER.
  insecure: false
  datacenter: "Datacenter"
  # A name, or a path like /Datacenter/network/VM Network. DHCP assigns addresses to machines there.
  network: "VM Network"
"""


def _machines(_name: str, choices: Choices) -> str:
    return f"""\
  # Names, or inventory paths.
  datastore: "Datastore"
  folder: "Folder"
  resourcePool: "Resources"
  # The template must contain this operating system, and Kubernetes of the cluster's version.
  template: "ubuntu-{choices.kubernetes_version.replace(".", "-")}"
  # ubuntu or redhat. It can't be changed later.
  osFamily: ubuntu
  memoryMiB: 8192
  numCPUs: 2
  # At least that of the template.
  diskGiB: 25
  users:
  - name: capv
    sshAuthorizedKeys:
    # Your public key; without one, nobody can log in to the machines.
    - ""
"""


manifest = HighlyAvailable("VSphere", HEADING, "192.0.2.10", "templates", DATACENTER, _machines)
