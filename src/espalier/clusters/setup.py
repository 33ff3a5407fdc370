"""The wiring of this component: which controllers and webhooks a manager runs."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.eksa.upgrades import FrontEnd
from espalier.clusters import controller, management
from espalier.clusters.admission import Admission
from espalier.clusters.context import Tools
from espalier.clusters.gate import Isolation
from espalier.clusters.layers import LAYERS, Layer
from espalier.clusters.observe import Observer
from espalier.clusters.provider import Providers
from espalier.clusters.rate_limit import RateLimits
from espalier.releases import Uninstalled
from espalier.runtime.controller import RESYNC
from espalier.runtime.manager import Manager
from espalier.runtime.remote import RemoteClients
from espalier.runtime.remote_tasks import RemoteTasks
from espalier.runtime.sources import Expiry
from espalier.runtime.webhooks import Webhooks


def build(
    manager: Manager,
    *,
    providers: Providers,
    remotes: RemoteClients,
    webhooks: Webhooks | None = None,
    copies_kubeconfigs: bool = True,
    workers: int = 10,
    isolation: Isolation = Isolation.LAYERS,
    layers: Sequence[Layer] = LAYERS,
    front_end: FrontEnd = FrontEnd.ANNOTATIONS,
    resync: float = RESYNC,
    uninstalled: Uninstalled | None = None,
) -> None:
    """Have `manager` run the Cluster controller; with `webhooks`, its admission handlers are served there.

    `remotes` reaches workload clusters. `copies_kubeconfigs` has each kubeconfig copied beside its Cluster.
    `providers` and `layers` render what is made for clusters; `isolation` says what keeps clusters as they are while
    nothing new is asked of them; `front_end` how machines are upgraded in place. Every `resync` seconds each Cluster is
    looked at, whether or not anything happened. Clusters that miss something of `uninstalled` are told why.
    """
    observer = Observer(
        manager.caches,
        manager.options,
        providers=providers,
        isolation=isolation,
        layers=layers,
        front_end=front_end,
        uninstalled=uninstalled,
    )
    manager.notices["management"] = lambda: observer.management_cluster.trouble
    remote_tasks = RemoteTasks(remotes)
    manager.add(remote_tasks)
    tools = Tools(
        observer,
        observer.writer(manager.client),
        remotes,
        manager.recorder,
        manager.clock,
        remote_tasks,
        RateLimits(),
        Expiry() if copies_kubeconfigs else None,
    )
    manager.add(controller.controller(tools, workers=workers, resync=resync, rng=manager.rng))
    of_record = management.controller(observer.management_cluster, manager.recorder, resync=resync, rng=manager.rng)
    manager.add(of_record)
    if webhooks is not None:
        Admission(observer, manager.clock.now).serve(webhooks)
