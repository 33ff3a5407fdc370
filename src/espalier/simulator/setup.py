"""The simulator as a component of a manager."""

from __future__ import annotations

import random
from collections.abc import Sequence

from espalier.api.kinds import KubeObject
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure
from espalier.runtime.component import Component, Host
from espalier.simulator.controller import Timing, controllers
from espalier.simulator.pods.controller import Pods
from espalier.simulator.workload_clusters.workloads import Workloads


def component(
    workloads: Workloads,
    *,
    rng: random.Random,
    keys: random.Random | None = None,
    infrastructures: Sequence[Infrastructure],
    kinds: Sequence[type[KubeObject]] = (),
    timing: Timing = Timing(),  # noqa: B008  frozen
    workers: int = 50,
    pods: Pods | None = None,
    cluster_api: bool = True,
    hosts_workloads: bool = True,
) -> Component:
    """Simulated machines of these `infrastructures`, what happens in workload clusters, and simulated Cluster API.

    `rng` generates the names of new objects. `keys` generates private keys; None for the system's randomness. `pods`
    runs those pods that have a program; its creator closes it. `kinds` are those of Cluster API and of its
    providers. Without `cluster_api`, Cluster API's own managers are elsewhere. Without `hosts_workloads`,
    another part of this process does what happens in workload clusters.
    """

    def build(host: Host) -> None:
        built = controllers(
            host.client,
            host.caches,
            workloads,
            clock=host.manager.clock,
            rng=rng,
            keys=keys,
            infrastructures=infrastructures,
            timing=timing,
            workers=workers,
            pods=pods,
            cluster_api=cluster_api,
            hosts_workloads=hosts_workloads,
        )
        for controller in built:
            host.manager.add(controller)

    return Component("simulator", build, tuple(kinds))
