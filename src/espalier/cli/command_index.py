"""The commands: in which module of this package each is, under its name, and the first sentence of its help.

So that neither help nor completion has to load them: that takes longer than most of them run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Listed(NamedTuple):
    """A command as help lists it."""

    module: str
    sentence: str


COMMANDS: Mapping[str, Listed] = {
    "assets": Listed(
        "assets",
        "Build the programs of real clusters from sources, into $ESPALIER_CACHE (~/.cache/espalier).",
    ),
    "completion": Listed("completion", "Print a completion script."),
    "create": Listed("lifecycle", "Create a cluster."),
    "delete": Listed("lifecycle", "Delete a cluster."),
    "demo": Listed(
        "demo",
        "Demonstrate the life of a cluster, or a migration, in a temporary local environment, or run a garden there.",
    ),
    "describe": Listed("describe", "Show the objects of a cluster, and what it waits for."),
    "down": Listed("up", "Stop the local environment."),
    "etcd-agent": Listed("etcd_agent", "Back up an etcd; list, verify, copy and restore its backups."),
    "etcd-guard": Listed(
        "etcd_guard", "Run etcd under the control of its backup agent, and admit clients until the agent's deadline."
    ),
    "garden": Listed(
        "garden",
        "Run the controllers of a garden, after installing `espalier manifests --of garden` there.",
    ),
    "gardenlet": Listed(
        "gardenlet",
        "Run the gardenlet of a seed, with its Etcd controller and the synchronization of ShootStates.",
    ),
    "generate": Listed("generate", "Print a starter manifest, or the objects that the manager would create."),
    "get": Listed("get", "Show objects."),
    "image": Listed("image", "Build container images, without Docker."),
    "kubeconfig": Listed("kubeconfig", "Print the kubeconfig of a workload cluster."),
    "manager": Listed(
        "manager",
        "Run the controllers of a management cluster, after installing `espalier manifests` there.",
    ),
    "manifests": Listed("manifests", "Print CRDs, namespace, RBAC, webhooks and Deployment, as YAML."),
    "nodes": Listed("nodes", "List, enter and crash the real nodes of this machine."),
    "plan": Listed(
        "plan",
        "Show what would change: objects field by field, machines and why, how long, and what would be refused.",
    ),
    "releases": Listed("releases", "Show releases, and import them into a management cluster."),
    "seeds": Listed("seeds", "Show seeds of a garden, and move all shoots away from one."),
    "shoots": Listed("shoots", "Show shoots of a garden, and move their control planes between seeds."),
    "status": Listed("up", "Show the status of the local environment."),
    "up": Listed(
        "up",
        "Run the local environment: a management cluster with all controllers, and simulated machines or real nodes.",
    ),
    "upgrade": Listed("lifecycle", "Upgrade a cluster."),
    "upgrades": Listed("upgrades", "Show in-place upgrades, and retry failed ones."),
    "validate": Listed(
        "validate",
        "Check a manifest without a cluster: schemas, admission rules, and references between its objects.",
    ),
    "version": Listed("version", "Print the version, and the Kubernetes versions of its newest release."),
}
