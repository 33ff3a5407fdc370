"""The wiring of the hooks."""

from __future__ import annotations

from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.clusterapi.infrastructure import Infrastructures
from espalier.kube.client import Client
from espalier.runtime.remote import RemoteClients
from espalier.runtime.webhooks import Webhooks
from espalier.runtime.writer import Writer
from espalier.upgrades.hooks.handling import Hooks
from espalier.upgrades.hooks.machines import Updates
from espalier.upgrades.hooks.queries import Questions
from espalier.upgrades.observe import Observer


def serve(
    webhooks: Webhooks,
    observer: Observer,
    *,
    client: Client,
    remotes: RemoteClients,
    infrastructures: Infrastructures,
) -> None:
    """Serve the hooks beside the webhooks.

    `client` writes whether or not this replica leads: what a hook writes is the same from each of them, and Cluster API
    goes on asking the one that it has a connection to.
    """
    node_upgrades = observer.own[NodeUpgrade.resource]
    questions = Questions(client, remotes)
    updates = Updates(questions, Writer(client, {NodeUpgrade.resource: node_upgrades}), node_upgrades)
    for path, endpoint in Hooks(questions, updates, infrastructures).endpoints.items():
        webhooks.serve(path, endpoint)
