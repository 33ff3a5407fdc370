"""The Cluster controller as a component: its kinds, rights and webhooks, and its construction."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api import eksa
from espalier.api.eksa.upgrades import FrontEnd
from espalier.clusters import rbac
from espalier.clusters.act import controller
from espalier.clusters.act.context import ClusterTools
from espalier.clusters.admission import admission
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.design.drift.rate_limit import RateLimits
from espalier.clusters.design.layers import LAYERS, Layer
from espalier.clusters.design.provider import Providers
from espalier.clusters.observe import management
from espalier.clusters.observe.flux import FluxKustomizations
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.reference_grace import ReferenceGrace
from espalier.clusters.observe.settling import SETTLE_TIME, Settling
from espalier.clusters.report.measures import ClusterCollector
from espalier.releases import Uninstalled
from espalier.runtime.component import Component, Host
from espalier.runtime.controllers.controller import RESYNC
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.workload_clusters.remote_tasks import RemoteTasks


def component(
    *,
    providers: Providers,
    copies_kubeconfigs: bool = True,
    workers: int = 10,
    isolation: Isolation = Isolation.LAYERS,
    layers: Sequence[Layer] = LAYERS,
    front_end: FrontEnd = FrontEnd.ANNOTATIONS,
    resync: float = RESYNC,
    settle_time: float = SETTLE_TIME,
    uninstalled: Uninstalled | None = None,
) -> Component:
    """The component of a manager that makes clusters of these `providers`.

    `copies_kubeconfigs` copies each kubeconfig to its Cluster's namespace. `layers` are the rendering layers;
    `isolation` is how clusters are isolated from manager upgrades; `front_end` how machines are upgraded in place. Each
    Cluster is reconciled at least every `resync` seconds; a change begins after `settle_time` seconds without another
    one (0: at once). `uninstalled` are release objects that could not be
    installed, and why.
    """

    def build(host: Host) -> None:
        manager = host.manager
        observer = ClusterObserver(
            host.caches,
            manager.options,
            providers=providers,
            isolation=isolation,
            layers=layers,
            front_end=front_end,
            uninstalled=uninstalled,
            grace=ReferenceGrace(manager.clock.now),
        )
        manager.notices["management"] = lambda: observer.management_cluster.trouble
        manager.metrics.registry.register(ClusterCollector(observer, manager.leading.is_set))
        tools = ClusterTools(
            observer,
            observer.writer(host.client),
            manager.remotes,
            manager.recorder,
            manager.clock,
            RemoteTasks(manager.remotes),
            RateLimits(),
            Settling(settle_time),
            Expiry() if copies_kubeconfigs else None,
        )
        manager.add(tools.remote_tasks)
        manager.add(controller.controller(tools, workers=workers, resync=resync, rng=manager.rng))
        for provider in providers.values():
            for made in provider.controllers:
                manager.add(made(host))
        known = observer.management_cluster
        manager.add(management.controller(known, manager.recorder, manager.clock, resync=resync, rng=manager.rng))
        if host.webhooks is not None:
            flux = FluxKustomizations(host.caches)
            judge = admission.Admission(observer, manager.clock.now, unready=lambda: manager.unready, flux=flux)
            judge.serve(host.webhooks)

    return Component(
        "clusters",
        build,
        eksa.CLUSTER_KINDS,
        rbac.rights(providers),
        shared=rbac.shared(front_end),
        webhooks=admission.WEBHOOKS,
        in_workload_clusters=rbac.IN_WORKLOAD_CLUSTERS,
    )
