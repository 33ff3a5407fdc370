"""The starting manifest of a cluster on Docker."""

from __future__ import annotations

from espalier.clusters.design.starting_manifest import (
    Choices,
    beginning,
    external_etcd,
    management_cluster,
    scalar,
)


def manifest(name: str, choices: Choices) -> str:
    """The manifest that the CLI of EKS Anywhere generates, with comments."""
    return f"""\
{beginning(name, 1)}\
  datacenterRef:
    kind: DockerDatacenterConfig
    name: {scalar(name)}
{external_etcd(choices, 1)}\
  # Upgrade one minor version at a time.
  kubernetesVersion: "{choices.kubernetes_version}"
{management_cluster(choices.management_cluster)}
  workerNodeGroupConfigurations:
  - count: 1
    name: md-0

---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: DockerDatacenterConfig
metadata:
  name: {scalar(name)}
spec: {{}}
"""
