"""Gardener's machine controller manager as the program of a shoot's pod: both halves, as processes of this machine.

The second one calls the cloud of the test, at a port, with the driver that was built for it.
Found, never fetched: `make real-assets REAL=gardener` builds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import MACHINE_CONTROLLER_MANAGER
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.cli.local.environment.seed_processes.kubernetes import redirected
from espalier.cli.local.environment.seed_processes.mounts import Mounts
from espalier.cli.local.environment.seed_processes.network import status_of
from espalier.cli.local.environment.seed_processes.process import HOST, run_process
from espalier.cli.local.environment.seed_programs.command_line import CommandLine, with_flags
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.simulator.pods.runtimes.in_process import Container
from tests.support.environments.control_plane import find_assets, why_no_assets
from tests.support.gardens.extension_program import ServedCloud
from tests.support.gardens.kubernetes_seeds import KubernetesSeed
from tests.support.gardens.real_shoots import RealShoot, real_shoot
from tests.support.servers.ports import free_port

MANAGER, CONTROLLER = MACHINE_CONTROLLER_MANAGER.contents
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TARGET, CONTROL = "target-kubeconfig", "control-kubeconfig"
STRICT = {
    "machine-safety-orphan-vms-period": "2s",
    "machine-drain-timeout": "5s",
    "machine-health-timeout": "30s",
    "machine-safety-apiserver-statuscheck-timeout": "2s",
    "machine-safety-apiserver-statuscheck-period": "4s",
}
"""A provider's flags, with shorter times than any of them has: a virtual machine without a Machine is deleted within
2 s, and one whose node is silent replaced after 30 s. Nobody ends pods on simulated nodes: draining them fails."""


def machine_programs() -> Path:
    """The folder of the programs. Skips the test where they are not built."""
    home = MACHINE_CONTROLLER_MANAGER.home(assets_folder())
    if not is_finished(home):
        pytest.skip(f"{MACHINE_CONTROLLER_MANAGER.label} not built: run make real-assets REAL=gardener")
    return home


class MachineSeed(KubernetesSeed):
    """A seed on kube-apiserver whose shoots' machines are managed by Gardener's machine controller manager."""

    def __init__(self, garden: Garden, name: str, folder: Path, binaries: Path, programs: Path) -> None:
        super().__init__(garden, name, folder, binaries)
        self._programs, self._home = programs, folder
        self._cloud = ServedCloud(self.call_cloud)
        self._cloud_port = 0

    async def power_on(self) -> None:
        """See `GardenSeed`."""
        if not self._cloud_port:
            self._cloud_port = await self._cloud.start()
        await super().power_on()

    async def close(self) -> None:
        """End its port."""
        await self._cloud.stop()

    async def machine_controller_manager(self, container: Container) -> int:
        """See `SimulatedSeed`: with the flags of the command, and those of a provider for its half."""
        mounts, command_line = Mounts.of(container, self._home), CommandLine.of(container.arguments)
        inside = Path(mounts.here(command_line.text(TARGET))).read_bytes()
        target = mounts.write("target.kubeconfig", await redirected(container, inside))
        access = Kubeconfig.of_cluster(
            self.name,
            server=self.control_plane.url,
            certificate_authority=self.control_plane.ca,
            user=MANAGER,
            credentials=container.volumes[ACCOUNT]["token"].decode(),
        )
        control = mounts.write("control.kubeconfig", access.to_bytes())
        here = {TARGET: str(target), CONTROL: str(control), "address": HOST}
        ports = free_port(), free_port()
        manager = with_flags(container.arguments[1:], {**here, "port": str(ports[0])})
        controller = with_flags(
            [f"--namespace={container.pod.namespace}"],
            {**here, "port": str(ports[1]), "cloud": f"http://{HOST}:{self._cloud_port}/", **STRICT},
        )

        async def answers(path: str) -> int:
            return max([await status_of(port, path) for port in ports])

        container.listen(command_line.port("port", 0), self, answers=answers)
        return await _together(
            run_process(container, [self._programs / MANAGER, *manager]),
            run_process(container, [self._programs / CONTROLLER, *controller]),
        )


async def _together(*programs: Coroutine[None, None, int]) -> int:
    """Run programs until the first one ends; its exit code. Whatever happens, all have ended then."""
    tasks = [asyncio.ensure_future(program) for program in programs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def machine_shoot(folder: Path) -> AsyncIterator[RealShoot]:
    """A shoot on the first of two seeds with such machines. Skips the test where programs are not built."""
    programs, result = machine_programs(), find_assets()
    if result is None:
        pytest.skip(f"there is no real control plane: {why_no_assets()}")
    made: list[MachineSeed] = []

    def new_seed(garden: Garden, name: str) -> MachineSeed:
        seed = MachineSeed(garden, name, folder, result, programs)
        made.append(seed)
        return seed

    try:
        async with real_shoot(folder, new_seed=new_seed) as shoot:
            yield shoot
    finally:
        for seed in made:
            await seed.close()
