"""The commands: in which module of this package each is, under its name, and the first sentence of its help.

So that neither help nor completion has to load them: that takes longer than most of them run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """A command as help lists it."""

    module: str
    sentence: str


COMMANDS: Mapping[str, Entry] = {
    "adopt": Entry("management.adopt", "Take over clusters that EKS Anywhere made, and give them back."),
    "assets": Entry(
        "local.assets",
        "Build the programs of real clusters from sources, into $ESPALIER_CACHE (~/.cache/espalier).",
    ),
    "check-images": Entry("clusters.images", "Check that a registry has all images that a release needs."),
    "completion": Entry("completion", "Print a completion script."),
    "create": Entry("management.commands", "Create a cluster."),
    "dashboard": Entry("clusters.dashboard", "Show clusters and shoots in a browser, live, until Ctrl-C."),
    "delete": Entry("management.commands", "Delete a cluster."),
    "demo": Entry(
        "local.demo",
        "Demonstrate the life of a cluster, or a migration, in a temporary local environment, or run a garden there.",
    ),
    "describe": Entry("clusters.reports.describe", "Show the objects of a cluster, and what it waits for."),
    "down": Entry("local.up", "Stop the local environment."),
    "download": Entry("clusters.images", "Download what a release needs."),
    "etcd-agent": Entry("backups.etcd_agent", "Back up an etcd; list, verify, copy and restore its backups."),
    "etcd-guard": Entry(
        "backups.etcd_guard",
        "Run etcd under the control of its backup agent, and admit clients until the agent's deadline.",
    ),
    "garden": Entry(
        "programs.garden",
        "Run the controllers of a garden, after installing `espalier manifests --of garden` there.",
    ),
    "gardenlet": Entry(
        "programs.gardenlet",
        "Run the gardenlet of a seed, with its Etcd controller and the synchronization of ShootStates.",
    ),
    "generate": Entry(
        "clusters.generate",
        "Print a starter manifest, or the objects that the manager would create; collect a support bundle.",
    ),
    "get": Entry("clusters.reports.get", "Show objects."),
    "image": Entry("local.images.image", "Build container images, without Docker."),
    "import": Entry("clusters.images", "Import what a release needs into a registry."),
    "kubeconfig": Entry(
        "clusters.access.kubeconfig", "Print the kubeconfig of a workload cluster, or of a shoot of a garden."
    ),
    "list": Entry("clusters.images", "List what a release needs."),
    "manager": Entry(
        "programs.manager",
        "Run the controllers of a management cluster, after installing `espalier manifests` there.",
    ),
    "manifests": Entry("install.commands", "Print CRDs, namespace, RBAC, webhooks and Deployment, as YAML."),
    "move": Entry("clusters.moves.move", "Move clusters to another management cluster."),
    "nodes": Entry("local.nodes", "List, enter and crash the real nodes of this machine."),
    "plan": Entry(
        "clusters.plans.plan",
        "Show what would change: objects field by field, machines and why, how long, and what would be refused.",
    ),
    "releases": Entry("clusters.releases", "Show releases, and import them into a management cluster."),
    "renew": Entry("clusters.rollouts.renew", "Renew certificates of a cluster."),
    "rollout": Entry(
        "clusters.rollouts.rollout", "Replace the machines of a control plane or of worker node groups, or pause that."
    ),
    "seeds": Entry("shoots.seeds", "Show seeds of a garden, and move all shoots away from one."),
    "shoots": Entry("shoots.shoots", "Show shoots of a garden, and move their control planes between seeds."),
    "status": Entry("local.up", "Show the status of the local environment."),
    "top": Entry("clusters.reports.top", "Show all clusters on one screen, those that need attention most first."),
    "up": Entry(
        "local.up",
        "Run the local environment: a management cluster with all controllers, and simulated machines or real nodes.",
    ),
    "upgrade": Entry("management.commands", "Upgrade a cluster."),
    "upgrades": Entry("clusters.reports.upgrades", "Show in-place upgrades, and retry failed ones."),
    "validate": Entry(
        "clusters.validate",
        "Check a manifest without a cluster: schemas, admission rules, and references between its objects.",
    ),
    "version": Entry("kit.version", "Print the version, and the Kubernetes versions of its newest release."),
}
