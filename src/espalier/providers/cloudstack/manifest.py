"""The starting manifest of a cluster on CloudStack."""

from __future__ import annotations

from espalier.clusters.design.starting_manifest import Choices, HighlyAvailable

HEADING = """\
# Credentials are kept in Secrets. `espalier create cluster` writes one for each credentialsRef below from
# EKSA_CLOUDSTACK_B64ENCODED_SECRET, as EKS Anywhere reads it; docs/cloudstack.md shows how to create it by hand.
"""

DATACENTER = """\
  # Machines are spread across them. They can be added and removed, not changed; one of the old ones must remain.
  availabilityZones:
  - name: az-1
    # The Secret in eksa-system with the keys of a user that creates machines.
    credentialsRef: global
    # The same as api-url in that Secret.
    managementApiEndpoint: "https://cloudstack.example.com:8443/client/api"
    domain: "ROOT"
    account: "admin"
    # Zones, networks, offerings and templates have a `name` or an `id`.
    zone:
      name: "zone-1"
      # CloudStack assigns addresses to machines in this network.
      network:
        name: "network-1"
"""


def _machines(_name: str, choices: Choices) -> str:
    return f"""\
  computeOffering:
    name: "4 CPUs, 8 GB"
  # The template must contain Kubernetes of the cluster's version, and have the version in its name.
  template:
    name: "rhel8-kube-v{choices.kubernetes_version.replace(".", "-")}"
  # Placement of a group's machines: pro (one host), anti (different hosts) or no (anywhere). Immutable.
  affinity: anti
  users:
  - name: capc
    sshAuthorizedKeys:
    # Your public key; without one, nobody can log in to the machines.
    - ""
"""


manifest = HighlyAvailable("CloudStack", HEADING, "192.0.2.15", "templates", DATACENTER, _machines)
