"""Clusters in a Git repository: the same stories with Flux's own controllers, and with what stands in for them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from espalier.api.core import NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.flux import KINDS, GitRepositorySpec
from espalier.cli.local.environment.flux import ACCOUNT, fetched
from espalier.cli.local.environment.management import install_definitions
from espalier.gitops.layout import FLUX_NAMESPACE
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.runtime.component import assemble
from espalier.runtime.manager import Manager
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.flux import setup as stand_in
from espalier.simulator.flux.sources import Fetched
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.cluster_lives import EPOCH
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.flux import definitions, real_flux, why_no_flux
from tests.support.environments.git_fleet import PASSWORD, Fleet, flux_components
from tests.support.environments.managed_environment import managed_environment
from tests.support.environments.managing import led_by
from tests.support.environments.real_api_server import delete_all, managed_on
from tests.support.histories import gitops_stories
from tests.support.servers.git_server import git_server

PATIENCE = 1800.0

Story = Callable[[Fleet], Awaitable[None]]
STORIES: Mapping[str, Story] = gitops_stories.STORIES


async def at_once(spec: GitRepositorySpec, secret: Mapping[str, bytes]) -> Fetched:
    """A simulation has no threads."""
    return fetched(spec, secret)


@pytest.mark.demand(
    "L40", "L41", "L42", "L43", "L44", L69="by GitOps", L71="the three steps of the workload cluster, by pushes"
)
@pytest.mark.embedded
@pytest.mark.parametrize("name", STORIES)
def test_the_stand_in_and(name: str, tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        with git_server(tmp_path, password=PASSWORD) as server:
            async with managed_environment(simulation.clock) as env:
                await env.client.apply(NAMESPACE, {"metadata": {"name": FLUX_NAMESPACE}})
                await install_definitions(KINDS, env.client)
                client = Client(InProcessTransport(env.server, ACCOUNT), user_agent="flux")
                manager = Manager(client, clock=simulation.clock, rng=random.Random(1))
                assemble(manager, [stand_in.component(at_once)])
                async with led_by(manager):
                    fleet = Fleet(env, server, step=1, interval="2m0s", patience=900)
                    fleet.components = flux_components([crd_of(kind) for kind in KINDS])
                    await STORIES[name](fleet)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand(
    "L40", "L41", "L42", "L43", "L44", L69="by GitOps", L71="the three steps of the workload cluster, by pushes"
)
@pytest.mark.envtest
@pytest.mark.capi
@pytest.mark.often("scenario", "adoption", "edits", "refused")
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", STORIES)
async def test_flux_and(name: str, control_plane: ControlPlane, tmp_path: Path) -> None:
    if lacking := why_no_flux():
        pytest.skip(lacking)
    with git_server(tmp_path, password=PASSWORD) as server:
        async with (
            asyncio.timeout(PATIENCE),
            managed_on(control_plane, MemoryStores()) as env,
            real_flux(control_plane, env.client, tmp_path / "flux"),
        ):
            fleet = Fleet(env, server, step=0.2, components=flux_components(list(definitions())))
            try:
                await STORIES[name](fleet)
            finally:
                await fleet.leave()
                await delete_all(env)
