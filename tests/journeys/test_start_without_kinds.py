"""A manager starts whichever providers of Cluster API are installed, and says which kinds it lacks and who has them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.kube.errors import ServerFailure
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, ManagedEnvironment, managed_environment
from tests.support.providers.provider_lives import LIVES
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CORE = "clusters.cluster.x-k8s.io"
GROUPS = ("cluster.x-k8s.io", ".cluster.x-k8s.io", ".tinkerbell.org")
"""The ends of the groups that Cluster API and its providers define."""
ALL = tuple(PROVIDERS)
INSTALLED: dict[str, tuple[str, ...]] = {"none": (), **{kind: (kind,) for kind in ALL}, "all": ALL}

Tell = Callable[[ManagedEnvironment], Awaitable[None]]


def kinds_of(datacenter: str) -> tuple[str, ...]:
    """The CRDs of a Cluster API provider."""
    known = PROVIDERS[datacenter].infrastructure
    return tuple(item.group_resource for item in (known.cluster, known.machine, known.machine_template))


def story(tell: Tell, *, without: Iterable[str], simulates: bool = True) -> None:
    """Of a manager that starts where these CRDs are not installed."""

    async def main(simulation: Simulation) -> None:
        async def uninstall(client: Client) -> None:
            for name in without:
                await client.delete(CUSTOM_RESOURCE_DEFINITION, name)

        async with managed_environment(simulation.clock, before_start=uninstall, simulates=simulates) as env:
            await tell(env)

    run(main, epoch=EPOCH, seed=1)


async def definitions(client: Client) -> dict[str, Tree]:
    return {item.name: item.tree for item in (await client.list(CUSTOM_RESOURCE_DEFINITION)).items}


async def define(client: Client, name: str, definition: Tree) -> None:
    metadata = {"name": name, "labels": definition["metadata"].get("labels", {})}
    tree = {key: definition[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": metadata}
    await client.create(CUSTOM_RESOURCE_DEFINITION, tree)


@pytest.mark.parametrize("installed", sampled(INSTALLED, 0, 2, 7))
def test_the_manager_starts_with_these_providers(installed: str) -> None:
    absent = [name for kind in ALL if kind not in INSTALLED[installed] for name in kinds_of(kind)]

    async def tell(env: ManagedEnvironment) -> None:
        with capture_logs() as logs:
            async with asyncio.timeout(CALM):
                await env.manager.leading.wait()
            await asyncio.sleep(CALM)
        assert env.manager.unready == ""
        assert env.manager.notices["kinds"]() == ""
        told = [log for log in logs if log["event"] == "optional kinds are not served"]
        assert len(told) == bool(absent)
        watched = [name for name in absent if "machines." not in name]
        assert [name for item in told for name in watched if name not in item["reason"]] == []
        assert [log for log in logs if log["event"] in ("watch interrupted", "not ready")] == []

    story(tell, without=absent)


@pytest.mark.parametrize("installed", sampled(ALL, 0))
def test_cluster_becomes_ready_with_its_provider_alone(installed: str) -> None:
    absent = [name for kind in ALL if kind != installed for name in kinds_of(kind)]
    life = next(live for live in LIVES if live.datacenter == installed)

    async def tell(env: ManagedEnvironment) -> None:
        await env.manager.leading.wait()
        await life.before(env)
        steps = life.steps(env)
        await steps.apply()
        await env.until_ready(steps.key)

    story(tell, without=absent)


def test_webhook_says_what_readyz_says_without_capi() -> None:
    """And the log says it once, in one line, until somebody installs Cluster API."""
    removed: dict[str, Tree] = {}

    async def tell(env: ManagedEnvironment) -> None:
        with capture_logs() as logs:
            await asyncio.sleep(CALM)
        assert not env.manager.leading.is_set()
        why = env.manager.unready
        assert why.startswith("not listed yet: ")
        assert CORE in why
        assert "install Cluster API and its providers in a version that serves it, as `clusterctl init` does" in why
        with pytest.raises(ServerFailure) as refused:
            await env.apply()
        assert f"the manager is not ready: {why}" in str(refused.value)
        told = [log["event"] for log in logs if log["log_level"] == "warning"]
        assert told == ["not ready"]
        for name, definition in removed.items():
            await define(env.client, name, definition)
        async with asyncio.timeout(CALM):
            await env.manager.leading.wait()
        assert env.manager.unready == ""
        await env.apply()

    async def main(simulation: Simulation) -> None:
        async def uninstall(client: Client) -> None:
            for name, definition in (await definitions(client)).items():
                if definition["spec"]["group"].endswith(GROUPS):
                    removed[name] = definition
                    await client.delete(CUSTOM_RESOURCE_DEFINITION, name)

        async with managed_environment(simulation.clock, before_start=uninstall, simulates=False) as env:
            await tell(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("name", [CORE, "dockerclusters.infrastructure.cluster.x-k8s.io"])
def test_a_definition_that_goes_and_comes_is_noticed(name: str) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.manager.leading.wait()
        definition = (await definitions(env.client))[name]
        with capture_logs() as logs:
            await env.client.delete(CUSTOM_RESOURCE_DEFINITION, name)
            await asyncio.sleep(CALM)
            assert env.manager.unready == ""
            assert (name in env.manager.notices["kinds"]()) is (name == CORE)
            await define(env.client, name, definition)
            await asyncio.sleep(CALM)
            assert env.manager.notices["kinds"]() == ""
        kind = "" if name == CORE else "optional "
        again = "all required kinds are served" if name == CORE else "all optional kinds are served"
        assert [log["event"] for log in logs if "served" in log["event"]] == [f"{kind}kinds are not served", again]
        assert all(name in log["reason"] for log in logs if log["event"].endswith("not served"))
        assert "watch interrupted" not in [log["event"] for log in logs]
        await env.apply()
        await env.until_ready()

    story(tell, without=())
