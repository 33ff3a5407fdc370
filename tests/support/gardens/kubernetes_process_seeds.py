"""Seeds whose API server is kube-apiserver, and whose gardenlet and extensions are processes: any of them is killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from espalier.api import core
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.gardener import SEED_KINDS
from espalier.api.meta import Tree
from espalier.cli.install import garden_manifests
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.kube.errors import KubeError
from espalier.kube.rbac import trees
from espalier.shoots.local_provider import setup as local_provider
from espalier.simulator.workload_clusters.workloads import Workloads
from tests.support.environments.control_plane import ControlPlane, find_assets
from tests.support.gardens import manifests
from tests.support.gardens.garden_processes import ProcessGarden, ProcessSeed
from tests.support.gardens.kubernetes_seeds import KubernetesWorkloads
from tests.support.waiting import eventually

API_SERVER = "kube-apiserver"
GARDENLET = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{garden_manifests.GARDENLET}"
EXTENSIONS = f"system:serviceaccount:{SYSTEM_NAMESPACE}:extensions"


class KubernetesProcessSeed(ProcessSeed):
    """See the module."""

    def __init__(self, garden: Garden, name: str) -> None:
        assert isinstance(garden, ProcessGarden)
        binaries = find_assets()
        assert binaries is not None, "`process_garden` skips the test without them"
        self._workloads = KubernetesWorkloads(garden.folder / "seeds", binaries, garden.clock, garden.random)
        super().__init__(garden, name)
        self._extensions_kubeconfig = garden.folder / f"extensions-in-{name}.kubeconfig"

    def workloads(self) -> Workloads:
        """See `SimulatedSeed`."""
        return self._workloads

    @property
    def control_plane(self) -> ControlPlane:
        """Its control plane, while the seed has power."""
        return self._workloads.servers[self.cluster.key].control_plane

    async def install(self) -> None:
        """See `GardenSeed`: by the manifests. Its gardenlet has no other rights, nor have its extensions, which may
        do what they declare."""
        for account, file in ((GARDENLET, self.kubeconfig), (EXTENSIONS, self._extensions_kubeconfig)):
            user = self.control_plane.kubeconfig_of(account, self.clock, ("system:serviceaccounts",))
            file.write_bytes(user.to_bytes())
        await manifests.apply(self.client, (*garden_manifests.of_seed(), *_of_extensions()))
        for kind in SEED_KINDS:
            await eventually(partial(self.client.list, kind.resource), despite=KubeError, every=0.2)

    def run_extensions(self) -> None:
        """See `GardenSeed`."""
        self.start_extensions(self._extensions_kubeconfig)

    def kill_api_server(self) -> bool:
        """Kill its kube-apiserver with -9, which is started again; False if it does not run."""
        return self._signal(signal.SIGKILL)

    async def silence_api_server(self, seconds: float) -> bool:
        """Let its kube-apiserver answer nobody for some seconds; False if it does not run."""
        if not self._signal(signal.SIGSTOP):
            return False
        try:
            await asyncio.sleep(seconds)
        finally:
            self._signal(signal.SIGCONT)
        return True

    def _signal(self, number: signal.Signals) -> bool:
        if not self.cluster.is_up:
            return False
        pid = next(report.pid for report in self.control_plane.supervisor.reports if report.name == API_SERVER)
        with suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, number)
                return True
        return False


def _of_extensions() -> Iterator[Tree]:
    """The role of the extensions, and who has it."""
    role = core.CLUSTER_ROLE.body("extensions")
    yield {**role, "rules": trees(local_provider.RIGHTS.everywhere)}
    reference = {"apiGroup": core.CLUSTER_ROLE.group, "kind": role["kind"], "name": "extensions"}
    user = {"apiGroup": core.CLUSTER_ROLE.group, "kind": "User", "name": EXTENSIONS}
    yield {**core.CLUSTER_ROLE_BINDING.body("extensions"), "roleRef": reference, "subjects": [user]}
