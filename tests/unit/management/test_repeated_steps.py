"""Steps of a management cluster that are made again, after a command was killed or refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.core import CONFIG_MAP, NAMESPACE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import (
    MANAGEMENT_CLUSTER,
    MANAGEMENT_UPGRADING,
    MOVE_ANNOTATION,
    SYSTEM_NAMESPACE,
)
from espalier.api.resource import Key
from espalier.cli.local.environment.management import install_definitions
from espalier.kube.client import Client
from espalier.kube.errors import Unreachable
from espalier.kube.transports.wire import Request
from espalier.management import record as records
from espalier.management import removal
from espalier.management.removal import Removal
from espalier.management.steps import Refused
from espalier.management.upgrading import Upgrade
from espalier.moving.record import Record
from tests.support.environments.bootstraps import Quiet
from tests.support.environments.empty_api_servers import MANAGEMENT, creation, named, with_servers
from tests.support.objects.moved_clusters import NoRules

HERE = "source"


async def stored(client: Client, record: Record | None = None) -> None:
    """The Cluster, in a move of this record."""
    await install_definitions([Cluster], client)
    await client.apply(NAMESPACE, {"metadata": {"name": MANAGEMENT.namespace}})
    annotations = {MOVE_ANNOTATION: record.text} if record is not None else {}
    metadata = {"name": MANAGEMENT.name, "namespace": MANAGEMENT.namespace, "annotations": annotations}
    await client.create(Cluster.resource, {"metadata": metadata})


async def no_end(_client: Client) -> None:
    raise AssertionError("nothing was deleted that could end")


def removed(bootstrap: Client, connect: Callable[[bytes], Client]) -> Removal:
    return Removal(MANAGEMENT, bootstrap, connect, NoRules(), Quiet(), no_end)


async def returned(bootstrap: Client, cluster: Client) -> None:
    await removal.returned(bootstrap, cluster, MANAGEMENT, NoRules(), Quiet())


class Moves:
    """The calls of `removal`, noted: moves from one side to another, and a move taken back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sides: tuple[Client, Client], *suspended: Key) -> None:
        self.made: list[str] = []
        self.names = dict(zip(map(id, sides), ("bootstrap", "cluster"), strict=True))
        self.refuses = False

        async def share(*_arguments: object) -> None: ...

        async def suspend(*_arguments: object) -> list[Key]:
            return [*suspended]

        def mover(*_arguments: object) -> Any:
            return SimpleNamespace(take_back=self.take_back)

        for name, value in (("moved", self.moved), ("share_configuration", share), ("suspend", suspend)):
            monkeypatch.setattr(removal, name, value)
        monkeypatch.setattr(removal, "Mover", mover)

    async def moved(self, source: Client, target: Client, *_arguments: object) -> None:
        if self.refuses:
            raise Refused("a reason")
        self.made.append(f"{self.names[id(source)]} to {self.names[id(target)]}")

    async def take_back(self, _keys: list[Key]) -> None:
        self.made.append("taken back")


@pytest.mark.parametrize(("state", "after"), [("", records.CREATING), (records.RUNNING, records.RUNNING)])
def test_installed_espalier_keeps_the_state_it_reached(state: str, after: str) -> None:
    async def story(bootstrap: Client, cluster: Client) -> None:
        for client in (bootstrap, cluster):
            await named(client, MANAGEMENT.name)
        if state:
            await records.mark(cluster, state)
        await records.keep_kubeconfig(bootstrap, MANAGEMENT, b"its kubeconfig")
        await creation(bootstrap, cluster).actions["espalier"]()
        assert await records.managed(cluster) == (MANAGEMENT, after)

    with_servers(story)


def test_cluster_at_its_bootstrap_need_not_answer() -> None:
    """It was returned already, and may be gone."""

    async def story(bootstrap: Client, cluster: Client) -> None:
        async def request(_request: Request) -> None:
            raise Unreachable("nobody listens")

        cluster.transport = SimpleNamespace(request=request, close=cluster.transport.close)
        await stored(bootstrap)
        await named(bootstrap, "laptop")
        await records.keep_kubeconfig(bootstrap, MANAGEMENT, b"its kubeconfig")
        await removed(bootstrap, lambda _: cluster.without_repeats()).actions["return"]()

    with_servers(story)


def test_deleted_cluster_is_not_waited_for() -> None:
    async def story(bootstrap: Client, cluster: Client) -> None:
        await install_definitions([Cluster], bootstrap)
        await removed(bootstrap, lambda _: cluster).actions["delete"]()

    with_servers(story)


@pytest.mark.parametrize(
    ("here", "there", "moves"),
    [
        pytest.param(None, True, ["cluster to bootstrap"], id="not moved yet"),
        pytest.param(Record(1, HERE, "t"), True, ["taken back"], id="created, being copied"),
        pytest.param(
            Record(1, HERE, "t", "handed-over"), True, ["bootstrap to cluster", "cluster to bootstrap"], id="created"
        ),
        pytest.param(Record(1, "other", HERE), True, ["cluster to bootstrap"], id="being returned"),
        pytest.param("at rest", True, [], id="returned, and left there"),
        pytest.param(Record(1, "other", HERE), False, [], id="gone there"),
    ],
)
def test_interrupted_return_goes_on_where_it_stopped(
    here: Record | str | None, there: bool, moves: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(bootstrap: Client, cluster: Client) -> None:
        for client in (bootstrap, cluster):
            await client.apply(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
        uid = (await bootstrap.get(NAMESPACE, SYSTEM_NAMESPACE)).metadata.uid
        if isinstance(here, Record):
            source = uid if here.source == HERE else here.source
            await stored(bootstrap, Record(here.epoch, source, here.target, here.state))
        elif here is not None:
            await stored(bootstrap)
        if there:
            await stored(cluster)
        calls = Moves(monkeypatch, (bootstrap, cluster))
        await returned(bootstrap, cluster)
        assert calls.made == moves

    with_servers(story)


@pytest.mark.parametrize("suspended", [[], [Key("flux-system", "fleet")]], ids=["no Flux", "Flux"])
def test_refused_return_tells_of_a_suspended_flux(suspended: list[Key], monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(bootstrap: Client, cluster: Client) -> None:
        for client in (bootstrap, cluster):
            await client.apply(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
        await stored(cluster)
        Moves(monkeypatch, (bootstrap, cluster), *suspended).refuses = True
        with pytest.raises(Refused) as refused:
            await returned(bootstrap, cluster)
        assert refused.value.problems[0] == "a reason"
        assert ["flux-system/fleet" in problem for problem in refused.value.problems[1:]] == [True] * len(suspended)

    with_servers(story)


class Settling:
    """A judge for whom a cluster is settled when it is asked for the second time."""

    asked = 0

    def is_settled(self, _at: object, _key: Key) -> bool:
        self.asked += 1
        return self.asked > 1


@pytest.mark.parametrize("acts", [True, False])
def test_change_is_waited_for_if_a_manager_makes_it(acts: bool) -> None:
    calls: list[str] = []

    def noted(what: str) -> Callable[[], Awaitable[None]]:
        async def note() -> None:
            calls.append(what)

        return note

    async def story(_bootstrap: Client, cluster: Client) -> None:
        await named(cluster, MANAGEMENT.name)
        judge, wait = Settling(), noted("wait") if acts else None
        work = Upgrade(MANAGEMENT, "v0.26.0", cluster, [], [], Quiet(), noted("write"), wait, judge)
        await work.actions["change"]()
        config_map = await cluster.get(CONFIG_MAP, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE)
        assert MANAGEMENT_UPGRADING in str(config_map.tree)
        assert calls == ["write", *["wait"] * (2 if acts else 0)]

    with_servers(story)
