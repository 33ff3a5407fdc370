"""The wiring of the hooks."""

from __future__ import annotations

import random

from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.kube.client import Client
from espalier.runtime.controller import RESYNC
from espalier.runtime.manager import Manager
from espalier.runtime.remote import RemoteClients
from espalier.runtime.webhooks import Webhooks
from espalier.upgrades.hooks import clearing
from espalier.upgrades.hooks.asking import Questions
from espalier.upgrades.hooks.handling import Hooks
from espalier.upgrades.hooks.machines import Updates
from espalier.upgrades.passing import Tools
from espalier.upgrades.writing import Writer


def build_hooks(
    manager: Manager,
    tools: Tools,
    *,
    client: Client,
    remotes: RemoteClients,
    webhooks: Webhooks,
    workers: int = 10,
    resync: float = RESYNC,
    entropy: random.Random | None = None,
) -> None:
    """Serve the hooks beside the webhooks, on every replica.

    `client` writes whether or not this replica leads: what a hook writes is the same from each of them, and Cluster API
    goes on asking the one that it has a connection to.
    """
    node_upgrades = tools.observer.own[NodeUpgrade.resource]
    questions = Questions(client, remotes)
    updates = Updates(questions, Writer(client, {NodeUpgrade.resource: node_upgrades}), node_upgrades)
    for path, endpoint in Hooks(questions, updates).endpoints.items():
        webhooks.serve(path, endpoint)
    manager.add(clearing.controller(tools, workers=workers, resync=resync, entropy=entropy))
