"""The machines of an environment: the API servers of workload clusters, and what runs on their nodes.

They stand for an infrastructure. Management clusters come and go beside them, also as one of the clusters here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.apiserver.access.webhook_calls import HttpWebhooks
from espalier.apiserver.storage.sqlite import Unusable
from espalier.cli.local.environment import flux
from espalier.cli.local.environment.management_pods import ManagementPods, webhooks_of
from espalier.releases import Releases
from espalier.runtime.clock import Clock
from espalier.simulator.controller import Timing, hosted
from espalier.simulator.flux.sources import Fetch
from espalier.simulator.pods.controller import Pods
from espalier.simulator.pods.runtimes.coroutine_runtime import CoroutineRuntime
from espalier.simulator.pods.runtimes.runtime import Runtime
from espalier.simulator.workload_clusters.self_managed import reopen
from espalier.simulator.workload_clusters.stores import Stores
from espalier.simulator.workload_clusters.workloads import Workloads

_log = structlog.get_logger("espalier.environment")


@dataclass
class Hosts:
    """Running machines."""

    workloads: Workloads
    timing: Timing
    clock: Clock
    rng: random.Random
    webhooks: HttpWebhooks
    """Calls webhooks outside of this process."""

    @classmethod
    @asynccontextmanager
    async def run(
        cls,
        stores: Stores,
        releases: Releases,
        *,
        clock: Clock,
        rng: random.Random,
        timing: Timing,
        runtimes: Sequence[Runtime] = (),
        listen: bool = True,
        fetch: Fetch = flux.fetch,
    ) -> AsyncIterator[Hosts]:
        """Run them while the block does. The API servers of self-managed clusters run from the beginning."""
        workloads, outside = Workloads(clock=clock, rng=rng, stores=stores, listen=listen), HttpWebhooks()
        programs = CoroutineRuntime(
            ManagementPods(workloads, releases, timing, fetch),
            clock,
            random.Random(rng.getrandbits(64)),  # noqa: S311  no keys
        )
        workloads.webhooks = webhooks_of(workloads, programs, outside)
        pods = Pods(workloads, [*runtimes, programs], clock)
        controllers = hosted(workloads, clock=clock, rng=rng, pod_seconds=timing.pods, pods=pods)
        tasks = [asyncio.create_task(controller.run(), name=controller.name) for controller in controllers]
        try:
            for cluster in stores.clusters(SYSTEM_NAMESPACE):
                try:
                    await reopen(workloads, stores, cluster)
                except (OSError, ValueError, Unusable) as error:  # reported by whoever manages it, if anybody does
                    _log.warning("an API server does not run", cluster=cluster.name, reason=str(error))
            yield cls(workloads, timing, clock, rng, outside)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await pods.close()
            await workloads.close()
            await outside.close()
