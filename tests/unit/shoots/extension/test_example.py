"""The example of docs/extensions.md works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.runtime.component import Component, Host
from espalier.runtime.virtual import Simulation
from espalier.shoots.extension import Extension, controller_of, leases_of
from tests.support.environments.simulated_loop import simulate
from tests.support.gardens.extensions import TIMING, failed, is_gone, new_seed, running, succeeded

PAGE = Path(__file__).parents[4] / "docs" / "extensions.md"
LINES = 26


class Acme:
    """The provider of the example."""

    def __init__(self) -> None:
        self.networks: dict[str, str] = {}
        self.made = 0

    async def list(self, shoot: str) -> list[str]:
        return [network for network, owner in self.networks.items() if owner == shoot]

    async def create(self, shoot: str) -> str:
        self.made += 1
        self.networks[f"net-{self.made}"] = shoot
        return f"net-{self.made}"

    async def delete(self, network: str) -> None:
        del self.networks[network]


def example(acme: Acme) -> Extension[Any]:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= LINES
    names: dict[str, Any] = {}
    exec(code, names)
    made: Extension[Any] = names["extension"](acme)
    return made


def test_the_example_creates_restores_and_deletes() -> None:
    async def story(simulation: Simulation) -> None:
        acme = Acme()
        seed = await new_seed(simulation, [Infrastructure])
        seed.keep_renewing()
        resource = Infrastructure.resource

        def build(host: Host) -> None:
            host.manager.add(controller_of(example(acme), host, leases_of(host, TIMING), TIMING))

        async with running(seed, [Component("acme", build)]):
            await seed.make(resource, "rose", {"type": "acme"}, asks="reconcile")
            tree = await seed.until(resource, "rose", succeeded("Create"))
            assert tree["status"]["state"] == {"network": "net-1"}
            await seed.make(resource, "moved", {"type": "acme"}, asks="restore", state={"network": "net-1"})
            await seed.until(resource, "moved", succeeded("Restore"))
            await seed.make(resource, "wrong", {"type": "acme"}, asks="restore", state={"network": "net-7"})
            await seed.until(resource, "wrong", failed)
            assert acme.made == 1
            await seed.delete(resource, "rose")
            await seed.until(resource, "rose", is_gone)
            assert acme.networks == {}

    simulate(story)
