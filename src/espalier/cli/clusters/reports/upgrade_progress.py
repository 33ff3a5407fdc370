"""The progress of an upgrade in place, read from a management cluster and followed there.

Whoever may not read machines and upgrades gets what the status of the Cluster says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime

from espalier.api.capi.machine import Machine
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.cli.kit.printing.tables import Selection, watch_objects
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL
from espalier.clusters.effects.upgrade_progress import GroupUpgrade, UpgradeProgress, progress_of
from espalier.kube.client import Client
from espalier.kube.objects import readable


async def read(client: Client, cluster: Cluster, now: datetime) -> UpgradeProgress | None:
    """The present progress. Raises `Forbidden`, and `NotFound` where the kinds of upgrades are not installed."""
    labels = f"{CLUSTER_NAME_LABEL}={cluster.metadata.name}"
    kinds = (Machine, ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade)
    lists = await asyncio.gather(*(client.list(kind.resource, SYSTEM_NAMESPACE, labels=labels) for kind in kinds))
    machines, control_planes, deployments, nodes = (listed.items for listed in lists)
    groups: list[GroupUpgrade] = [*readable(control_planes, ControlPlaneUpgrade)]
    groups += readable(deployments, MachineDeploymentUpgrade)
    return progress_of(cluster, [*readable(machines, Machine)], groups, [*readable(nodes, NodeUpgrade)], now)


async def changes(client: Client, name: str) -> AsyncGenerator[None, None]:
    """Ends a wait whenever a node of a cluster has taken a step. Never ends by itself."""
    selection = Selection(NodeUpgrade.resource, SYSTEM_NAMESPACE, labels=f"{CLUSTER_NAME_LABEL}={name}")
    async for _ in watch_objects(client, selection):
        yield None
