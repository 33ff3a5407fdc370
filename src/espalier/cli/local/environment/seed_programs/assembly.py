"""The programs of images in a seed of this process, and their endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from espalier.api.gardener import images, names
from espalier.api.resource import Key
from espalier.cli.local.environment.seed_programs.agent import AgentCalls, Agents
from espalier.cli.local.environment.seed_programs.api_server import kube_apiserver
from espalier.cli.local.environment.seed_programs.command_line import CommandLine
from espalier.cli.local.environment.seed_programs.etcd import etcd
from espalier.kube.client import Client
from espalier.kube.errors import Unreachable
from espalier.kube.transports.wire import ADMIN, Endpoint, User
from espalier.shoots.secrets.persisted import Data
from espalier.simulator.connections import Link, Reached, ReachingTransport, during
from espalier.simulator.pods.runtimes.in_process import Container, InProcessProgram
from espalier.simulator.pods.runtimes.pod_network import ConnectionRefused, Listener
from espalier.simulator.seeds import Seed

API_SERVER = "kube-apiserver"
API_SERVER_PORT = 443

Call = Callable[[str, str, bytes, Data | None], Awaitable[bytes]]
"""Calls the agent of a namespace: namespace, path, body."""


@dataclass(frozen=True)
class SeedPrograms:
    """The programs of a seed (`InProcessPrograms`), by the last word of their images; other controllers idle."""

    programs: Mapping[str, InProcessProgram]

    def __call__(self, image: str) -> InProcessProgram | None:
        """The program of an image, whatever registry mirrors it."""
        return self.programs.get(images.program(image)) or _IDLE.get(images.program(image))


def in_process(agents: Agents) -> dict[str, InProcessProgram]:
    """The programs of a control plane that run in this process."""
    return {
        images.program(images.ETCD): etcd,
        images.program(images.AGENT): agents.run,
        images.program(images.KUBE_APISERVER): kube_apiserver,
    }


_PORTS = {"kube-controller-manager": 10257, "kube-scheduler": 10259, "machine-controller-manager": 10258}


async def idle(container: Container) -> int:
    """Do nothing, and be healthy while the shoot's API server answers: for controllers that are not simulated. Real
    ones exit when they can't renew their Lease."""

    async def answers(_path: str) -> int:
        try:
            container.find(API_SERVER, API_SERVER_PORT)
        except ConnectionError:
            return 500
        return 200

    port = CommandLine.of(container.arguments).text("port", str(_PORTS.get(container.name, 80)))
    container.listen(int(port), idle, answers=answers)
    await asyncio.get_running_loop().create_future()
    return 0


_IDLE: Mapping[str, InProcessProgram] = dict.fromkeys(_PORTS, idle)


def client_in(container: Container, user: User = ADMIN) -> Client:
    """A client of the shoot's API server for a program in its control plane, for the lifetime of its container."""

    def reach() -> Reached:
        listener = container.find(API_SERVER, API_SERVER_PORT)
        return Reached(_endpoint(listener), (container.life, listener.life))

    return Client(ReachingTransport(reach, user), user_agent=container.name, rng=container.random)


def agent_calls(seed: Seed, *, link: Link | None = None) -> Call:
    """Calls to the agents of a seed, through a network. They raise `Unreachable` or `CallRefused`."""

    async def call(namespace: str, path: str, body: bytes, files: Data | None) -> bytes:
        try:
            listener = seed.listener(Key(namespace, names.AGENT_SERVICE), names.AGENT_PORT)
        except ConnectionError as error:
            raise Unreachable(str(error), sent=False) from error
        endpoint = listener.endpoint
        if not isinstance(endpoint, AgentCalls):
            raise Unreachable(f"found {type(endpoint).__name__}, expected an agent: wrong port", sent=False)
        lives = (seed.life, listener.life, *((link.life,) if link is not None else ()))
        return await during(lives, endpoint.call(path, body, files))

    return call


def shoot_client(seed: Seed, namespace: str, user: User = ADMIN, *, link: Link | None = None) -> Client:
    """A client of a shoot's API server in a seed: through its Service, wherever its pod is."""
    return Client(ReachingTransport(lambda: reach_shoot(seed, namespace, link), user), rng=seed.new_random())


def reach_shoot(seed: Seed, namespace: str, link: Link | None = None) -> Reached:
    """The API server of a shoot in a seed, as it is now."""
    listener = seed.listener(Key(namespace, API_SERVER), API_SERVER_PORT)
    lives = (seed.life, listener.life, *((link.life,) if link is not None else ()))
    return Reached(_endpoint(listener), lives)


def _endpoint(listener: Listener) -> Endpoint:
    if not isinstance(listener.endpoint, Endpoint):
        raise ConnectionRefused(f"found {type(listener.endpoint).__name__}, expected an API server: wrong port")
    return listener.endpoint
