"""The wiring of this component: which controllers and webhooks a manager runs."""

from __future__ import annotations

from typing import NamedTuple

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.release import Bundles
from espalier.clusterapi.infrastructure import Infrastructures
from espalier.kube.client import Client
from espalier.runtime.controller import RESYNC
from espalier.runtime.manager import Manager
from espalier.runtime.remote import RemoteClients
from espalier.runtime.webhooks import Webhooks
from espalier.runtime.writer import Writer
from espalier.upgrades import annotation_controller, group_upgrade, images, node_upgrade
from espalier.upgrades.annotation_controller import ControlPlaneSide, DeploymentSide
from espalier.upgrades.cluster_tracker import ClusterTracker
from espalier.upgrades.context import Tools
from espalier.upgrades.control_plane_group import ControlPlaneGroup
from espalier.upgrades.deployment_group import DeploymentGroup
from espalier.upgrades.group import Group
from espalier.upgrades.hooks import cleanup
from espalier.upgrades.hooks.setup import serve
from espalier.upgrades.observe import Observer


class Hooks(NamedTuple):
    """Where runtime hooks are served, and the manager's own client: they write on replicas that do not lead as well."""

    webhooks: Webhooks
    client: Client


def build(
    manager: Manager,
    *,
    infrastructures: Infrastructures,
    remotes: RemoteClients,
    hooks: Hooks | None = None,
    workers: int = 10,
    resync: float = RESYNC,
) -> None:
    """Have `manager` run the controllers of in-place upgrades. `remotes` reaches workload clusters;
    machines of other `infrastructures` are not upgraded.

    With `hooks`, Cluster API's runtime hooks are served as well, on every replica. What is marked by annotations is
    upgraded in any case, and what hooks began goes on.
    """
    following = ClusterTracker(manager.client, remotes, infrastructures, manager.rng)
    observer = Observer(manager.caches, following)
    writer = Writer(manager.client, {**observer.own, CONFIG_MAP: observer.images})
    tools = Tools(observer, writer, manager.recorder, manager.clock)
    manager.add(following)
    manager.add(images.controller(manager.caches.of(Bundles.resource, SYSTEM_NAMESPACE), observer.images, writer))
    manager.add(node_upgrade.controller(tools, workers=workers, resync=resync, rng=manager.rng))
    groups: tuple[Group, ...] = (ControlPlaneGroup(), DeploymentGroup())
    for group in groups:
        manager.add(group_upgrade.controller(tools, group, workers=workers, resync=resync, rng=manager.rng))
    for side in (ControlPlaneSide(), DeploymentSide()):
        manager.add(annotation_controller.controller(tools, side, workers=workers, resync=resync, rng=manager.rng))
    manager.add(cleanup.controller(tools, workers=workers, resync=resync, rng=manager.rng))
    if hooks is not None:
        serve(hooks.webhooks, observer, client=hooks.client, remotes=remotes, infrastructures=infrastructures)
