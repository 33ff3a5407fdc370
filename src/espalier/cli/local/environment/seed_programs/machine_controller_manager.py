"""machine-controller-manager as a container in this process: the machines of one shoot, on the simulated cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from espalier.api.cloud import AnyItem, CallCloud, CloudRequest
from espalier.api.etcd.timing import Timing
from espalier.cli.local.environment.seed_programs.assembly import client_in
from espalier.cli.local.environment.seed_programs.command_line import CommandLine
from espalier.kube.client import Client
from espalier.runtime.component import assemble
from espalier.runtime.manager import Manager
from espalier.runtime.options import Options
from espalier.shoots.machine_controller import setup
from espalier.shoots.machine_controller.bootstrap_tokens import BootstrapTokens
from espalier.shoots.machine_controller.controller import NAME
from espalier.simulator.connections import during
from espalier.simulator.pods.runtimes.in_process import Container
from espalier.simulator.pods.runtimes.life import Life

PORT = 10258


@dataclass(frozen=True)
class MachineControllers:
    """Creates the programs of machine controller managers."""

    connect: Callable[[Life], Client]
    """A client of the seed, for the lifetime of a container."""
    call: CallCloud
    timing: Timing
    joins_by_token: bool = False
    """True where machines are real, and need a token to join."""

    async def run(self, container: Container) -> int:
        """Manage the machines in the namespace of the command, until the container is stopped."""
        command_line = CommandLine.of(container.arguments)

        async def call(request: CloudRequest) -> list[AnyItem]:
            return await during((container.life,), self.call(request))

        manager = Manager(
            self.connect(container.life),
            clock=container.clock,
            rng=container.random,
            options=Options(namespaces=(command_line.text("namespace"),)),
            component=NAME,
            fill_within=None,
        )
        shoot = client_in(container)
        tokens = BootstrapTokens(shoot, container.clock) if self.joins_by_token else None
        assemble(manager, [setup.component(call, self.timing, tokens, shoot)])

        async def answers(_path: str) -> int:
            return 200 if manager.leading.is_set() else 503

        container.listen(command_line.port("port", PORT), self, answers=answers)
        return await manager.run()
