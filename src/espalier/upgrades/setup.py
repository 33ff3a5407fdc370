"""The component of in-place upgrades: its kinds, rights and construction."""

from __future__ import annotations

from espalier.api import eksa
from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles
from espalier.api.eksa.upgrades import FrontEnd, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.clusterapi.infrastructures.infrastructure import Infrastructures
from espalier.runtime.component import Component, Host
from espalier.runtime.controllers.controller import RESYNC
from espalier.runtime.controllers.writer import Writer
from espalier.upgrades import admission, annotation_controller, images, rbac
from espalier.upgrades.group import controller as group_upgrade
from espalier.upgrades.group.control_plane import ControlPlaneGroup
from espalier.upgrades.group.deployment import DeploymentGroup
from espalier.upgrades.hooks import controller as hooks_controller
from espalier.upgrades.hooks import machines
from espalier.upgrades.hooks.handling import Hooks
from espalier.upgrades.hooks.queries import Queries
from espalier.upgrades.node import controller as node_upgrade
from espalier.upgrades.observed.cluster_tracker import ClusterTracker
from espalier.upgrades.observed.observe import UpgradeObserver
from espalier.upgrades.reconciling import UpgradeTools


def component(
    *,
    infrastructures: Infrastructures,
    front_end: FrontEnd = FrontEnd.ANNOTATIONS,
    workers: int = 10,
    resync: float = RESYNC,
) -> Component:
    """The component that upgrades machines of these `infrastructures` in place.

    Upgrades that one front end started continue under the other. If `front_end` is hooks, Cluster API's runtime hooks
    are served besides the webhooks, and annotations that people set start nothing.
    """

    def build(host: Host) -> None:
        manager, uses_hooks = host.manager, front_end is FrontEnd.HOOKS
        tracker = ClusterTracker(host.client, manager.remotes, infrastructures, manager.rng)
        observer = UpgradeObserver(host.caches, tracker, manager.options)
        writer = Writer(host.client, {**observer.own, CONFIG_MAP: observer.images})
        tools = UpgradeTools(observer, writer, manager.recorder, manager.clock)
        bundles = host.caches.of(Bundles.resource, SYSTEM_NAMESPACE)
        distros = host.caches.of(DistroRelease.resource, SYSTEM_NAMESPACE)
        manager.add(tracker)
        manager.add(images.controller(bundles, distros, observer.images, writer))
        manager.add(node_upgrade.controller(tools, workers=workers, resync=resync, rng=manager.rng))
        for group in (ControlPlaneGroup(), DeploymentGroup()):
            manager.add(group_upgrade.controller(tools, group, workers=workers, resync=resync, rng=manager.rng))
            manager.add(
                annotation_controller.controller(
                    tools, group, uses_hooks=uses_hooks, workers=workers, resync=resync, rng=manager.rng
                )
            )
        manager.add(hooks_controller.controller(tools, workers=workers, resync=resync, rng=manager.rng))
        if uses_hooks and host.webhooks is not None:
            queries = Queries(manager.replica_client, manager.remotes)
            node_upgrades = observer.own[NodeUpgrade.resource]
            # On every replica: Cluster API calls the replica it is connected to, and each writes the same.
            writer_of_replica = Writer(manager.replica_client, {NodeUpgrade.resource: node_upgrades})
            updates = machines.Updates(queries, writer_of_replica, node_upgrades)
            for path, endpoint in Hooks(queries, updates, infrastructures).endpoints.items():
                host.webhooks.serve(path, endpoint)
        if host.webhooks is not None:
            admission.serve(host.webhooks)

    rights = rbac.rights(infrastructures, front_end)
    return Component(
        "upgrades",
        build,
        eksa.UPGRADE_KINDS,
        rights,
        shared=rbac.SHARED,
        webhooks=admission.WEBHOOKS,
        in_workload_clusters=rbac.IN_WORKLOAD_CLUSTERS,
    )
