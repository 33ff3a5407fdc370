"""The step "set up GitOps" is killed at each of its writes and pushes, and the same command goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from espalier.api.core import DEPLOYMENT
from espalier.api.flux import GIT_REPOSITORY, KUSTOMIZATION, GitRepositorySpec
from espalier.api.flux import NAMESPACE as FLUX
from espalier.api.meta import Tree
from espalier.cli.local.environment.flux import fetched
from espalier.cli.management.components import components
from espalier.gitops.installation import Installation, install
from espalier.gitops.layout import base_of
from espalier.gitops.repository import Author, Published
from espalier.gitops.target import Credentials, Target
from espalier.kube.client import Client
from espalier.kube.errors import Unreachable
from espalier.management import installing
from espalier.management import record as records
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.flux.sources import Fetched
from tests.support.environments.bootstraps import (
    MANAGEMENT,
    RELEASE,
    Bootstrap,
    Quiet,
    bootstrap,
    machines,
    manifest,
)
from tests.support.environments.cluster_lives import EPOCH
from tests.support.environments.git_fleet import conditions_of
from tests.support.environments.managed_environment import RELEASES
from tests.support.servers.dying import Dying
from tests.support.servers.git_server import GitServer, git_server

pytestmark = pytest.mark.embedded

PASSWORD = "s3cret"


async def at_once(spec: GitRepositorySpec, secret: Mapping[str, bytes]) -> Fetched:
    """A simulation has no threads."""
    return fetched(spec, secret)


def installation(server: GitServer, time: int) -> Installation:
    """As the command makes it, each time that it is given."""
    target = Target(server.url, "main", base_of(MANAGEMENT.name), FLUX)
    trees = manifest(MANAGEMENT, managed_by=MANAGEMENT.name)
    flux = components.simulated_flux(RELEASE, FLUX, RELEASES)
    author = Author("espalier", "espalier@localhost", time)
    return Installation(target, Credentials("flux", PASSWORD), MANAGEMENT.name, trees, flux, author)


class Killed(Unreachable):
    """The command died beside its push."""


@pytest.mark.parametrize("more", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_a_killed_setup_of_git_goes_on(tmp_path: Path, more: int) -> None:
    """Nothing is pushed twice, and nothing by force."""
    pushes: list[str] = []

    async def main(simulation: Simulation) -> None:
        with git_server(tmp_path, password=PASSWORD) as server:
            server.git("config", "receive.denyNonFastForwards", "true")
            theirs = server.commit("readme.md", "of others")
            async with machines(simulation.clock, fetch=at_once) as hosts, bootstrap(hosts) as env:
                deaths = await killed_until_done(env, server, pushes, more)
                assert deaths > 4
                await holds(env, server, theirs)

    run(main, epoch=EPOCH, seed=1)
    assert pushes[:2] == ["killed before", "killed after"]


async def killed_until_done(env: Bootstrap, server: GitServer, pushes: list[str], more: int) -> int:
    deaths = 0

    async def push(publish: Callable[[], Published]) -> Published:
        if not pushes:
            pushes.append("killed before")
            raise Killed("dead", sent=False)
        published = publish()
        if len(pushes) == 1:
            pushes.append("killed after")
            raise Killed("dead")
        pushes.append(published.commit)
        return published

    async def apply(client: Client, trees: Sequence[Tree]) -> None:
        await installing.apply(client, trees)
        await installing.until_running(client, installing.deployments(trees), Quiet())

    async def set_up(cluster: Client) -> None:
        dying = Dying(1 + more * deaths)
        cluster.transport = dying(cluster.transport)
        await install(cluster, installation(server, 1_767_225_600 + deaths), apply, in_thread=push, patience=120)

    env.set_up_git_ops = set_up
    while deaths < 200:
        try:
            await env.create()
        except Unreachable:
            deaths += 1
        else:
            break
    return deaths


async def holds(env: Bootstrap, server: GitServer, theirs: str) -> None:
    """One commit, on what others pushed; Flux runs, and has applied it."""
    assert server.git("rev-list", "main").split() == [server.head(), theirs]
    cluster = env.connect(env.written[-1])
    revision = f"main@sha1:{server.head()}"
    source = await cluster.get(GIT_REPOSITORY, FLUX, FLUX)
    assert source.tree["status"]["artifact"]["revision"] == revision
    for name in (FLUX, MANAGEMENT.name):
        kustomization = await cluster.get(KUSTOMIZATION, name, FLUX)
        assert kustomization.tree["status"]["lastAppliedRevision"] == revision
        assert conditions_of(kustomization) == {"Ready": ("True", "ReconciliationSucceeded")}
    running = {item.name: item.tree["status"]["readyReplicas"] for item in (await cluster.list(DEPLOYMENT, FLUX)).items}
    assert running == {"source-controller": 1, "kustomize-controller": 1}
    assert await records.managed(cluster) == (MANAGEMENT, records.RUNNING)
