"""The server of the dashboard: who is let in, what is pushed, and what is said in the place of what can't be read."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request
from yarl import URL

from espalier.api.capi.machine import Machine
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, ROLE, ROLE_BINDING
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.dashboard import probe
from espalier.dashboard.guard import COOKIE, HEADERS, Guard
from espalier.dashboard.models.plans import Plan, Planner
from espalier.dashboard.observation import NotRead, Observation, ReadOnly
from espalier.dashboard.pages import MOST_STREAMS
from espalier.dashboard.serving import Dashboard
from espalier.dashboard.views import cluster_view
from espalier.dashboard.views.opened import MOST
from espalier.kube.client import Client, PatchType
from espalier.kube.discovery import Discovery
from espalier.kube.errors import Unreachable
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import ADMIN, Request, Response, Stream, Transport, User
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig
from espalier.runtime.clock import SystemClock
from tests.support.waiting import eventually

NOBODY = User("nobody", ("system:authenticated",))


def body(name: str, **status: Any) -> Tree:
    return {
        "apiVersion": Cluster.resource.api_version,
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "kubernetesVersion": "1.35",
            "controlPlaneConfiguration": {"count": 1},
            "datacenterRef": {"kind": "DockerDatacenterConfig", "name": name},
        },
    }


async def no_plan(_client: Client, _key: Key) -> Plan:
    return Plan(("  Nothing would change.",))


class Broken:
    """A transport that refuses all while it is broken, and without `answers` is silent, as are its watches."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.is_broken = False
        self.answers = asyncio.Event()
        self.answers.set()
        self._streams: list[Stream] = []

    async def request(self, request: Request) -> Response:
        if self.is_broken:
            raise Unreachable("connection refused")
        await self.answers.wait()
        return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        if self.is_broken:
            raise Unreachable("connection refused")
        await self.answers.wait()
        stream = await self._transport.stream(request)
        if not isinstance(stream, Response):
            self._streams.append(stream)
        return stream

    async def close(self) -> None:
        await self._transport.close()

    async def cut(self) -> None:
        self.is_broken = True
        for stream in self._streams:
            await stream.close()


def number_in(page: str) -> int:
    match = re.search(r'data-number="(\d+)"', page)
    assert match is not None
    return int(match[1])


class Served:
    """A dashboard, and a browser of it."""

    def __init__(self, admin: Client, transport: Broken, dashboard: Dashboard, session: aiohttp.ClientSession) -> None:
        self.admin = admin
        self.transport = transport
        self.dashboard = dashboard
        self.session = session
        self.root = ""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.dashboard.port}"

    async def open(self) -> None:
        async with self.session.get(self.dashboard.address) as response:
            assert response.status == 200
            match = re.search(r"url=(/[^\"]+/)\"", await response.text())
            assert match is not None
            self.root = match[1]

    async def page(self, path: str = "") -> str:
        async with self.session.get(f"{self.origin}{self.root}{path}") as response:
            assert response.status == 200
            return await response.text()

    async def number(self, path: str = "") -> int:
        """The number of the last change that a page has."""
        return number_in(await self.page(path))

    async def changes(self, path: str, since: int) -> AsyncGenerator[Tree, None]:
        async with self.session.get(f"{self.origin}{self.root}{path}?since={since}") as response:
            assert response.status == 200
            assert response.headers["Content-Type"].startswith("text/event-stream")
            async for line in response.content:
                if line.startswith(b"data: "):
                    yield msgspec.json.decode(line.removeprefix(b"data: "))


@asynccontextmanager
async def served(
    *,
    user: User = ADMIN,
    namespaces: Sequence[str] = (),
    kinds: Any = None,
    garden: bool = False,
    planner: Planner = no_plan,
) -> AsyncIterator[Served]:
    now = lambda: datetime.now(UTC)  # noqa: E731
    server = Server(MemoryStore(), now=now, random=random.Random(1))
    await server.start()
    admin = Client(InProcessTransport(server))
    for kind in (Seed, Shoot) if garden else (Cluster, EKSARelease, Bundles) if kinds is None else kinds:
        await admin.create(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
    transport = Broken(InProcessTransport(server, user))
    client = Client(ReadOnly(transport))
    observation = Observation(client, SystemClock(), tuple(namespaces), await Discovery(admin).resources())
    dashboard = Dashboard(observation, server="api.example:6443", planner=planner)
    try:
        async with (
            dashboard.running(0),
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
        ):
            yield Served(admin, transport, dashboard, session)
    finally:
        await client.close()
        await admin.close()
        await server.close()


async def test_page_opens_with_the_printed_address_alone() -> None:
    async with served() as env:
        for address in ("/", "/?token=", "/?token=wrong", "/?token=%ff%fe"):
            async with env.session.get(f"{env.origin}{address}") as response:
                assert response.status == 403
                assert COOKIE not in response.cookies
        await env.open()
        assert "Clusters" in await env.page()
        cookie = next(iter(env.session.cookie_jar))
        assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", env.root)
        for path in ("", "events/fleet", "static/dashboard.js", "nothing"):
            async with aiohttp.ClientSession() as other, other.get(f"{env.origin}{env.root}{path}") as response:
                assert response.status == 403


async def test_cookie_is_of_no_use_on_another_path() -> None:
    async with served() as env:
        await env.open()
        cookie = next(iter(env.session.cookie_jar)).value
        headers = {"Cookie": f"{COOKIE}={cookie}"}
        async with aiohttp.ClientSession(headers=headers) as other, other.get(f"{env.origin}/other/") as response:
            assert response.status == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Host": "127.0.0.1.evil.example:{port}"}, 421),
        ({"Host": "localhost:{port}"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "script"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "script"}, 200),
    ],
)
async def test_request_of_another_site_is_refused(headers: dict[str, str], status: int) -> None:
    async with served() as env:
        await env.open()
        sent = {name: value.format(port=env.dashboard.port) for name, value in headers.items()}
        cookie = next(iter(env.session.cookie_jar)).value
        sent["Cookie"] = f"{COOKIE}={cookie}"
        async with aiohttp.ClientSession() as other, other.get(f"{env.origin}{env.root}", headers=sent) as response:
            assert response.status == status


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_host_without_a_port_names_port_80(host: str) -> None:
    """Browsers leave the usual port out."""
    request = make_mocked_request("GET", "/", headers={"Host": host})
    assert Guard().refusal(request, 80) is None
    refusal = Guard().refusal(request, 8080)
    assert refusal is not None
    assert refusal.status == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_method_that_could_write_is_refused(method: str) -> None:
    async with served() as env:
        await env.open()
        async with env.session.request(method, f"{env.origin}{env.root}", data=b"x") as response:
            assert response.status == 405
            assert "this page changes nothing" in await response.text()


async def test_every_answer_has_the_policies() -> None:
    async with served() as env:
        await env.open()
        for path in ("/", f"{env.root}", f"{env.root}nothing", f"{env.root}static/dashboard.css", "/else"):
            async with env.session.get(f"{env.origin}{path}") as response:
                assert dict(HEADERS).items() <= dict(response.headers).items()


@pytest.mark.parametrize("name", ["..%2fguard.py", "guard.py", "..%5cguard.py", "dashboard.css%00"])
async def test_no_other_file_is_served(name: str) -> None:
    async with served() as env:
        await env.open()
        async with env.session.get(f"{env.origin}{env.root}static/{name}") as response:
            assert response.status == 404


async def test_changed_and_removed_clusters_are_pushed() -> None:
    async with served() as env:
        await env.open()
        number = await env.number()
        await env.admin.create(Cluster.resource, body("garden"))
        await eventually(env.page, lambda page: "c/default/garden" in page)
        async with asyncio.timeout(20):
            stream = env.changes("events/fleet", number)
            first = await anext(stream)
            assert "c/default/garden" in [put[0] for put in first["put"]]
            await env.admin.create(Cluster.resource, body("meadow"))
            changes = await anext(stream)
            assert [put[0] for put in changes["put"]] == ["c/default/meadow", "summary"]
            await env.admin.delete(Cluster.resource, "garden", "default")
            changes = await anext(stream)
            assert changes["removed"] == ["c/default/garden"]
            await stream.aclose()


async def test_reader_of_an_unknown_state_is_told_to_reload() -> None:
    async with served() as env:
        await env.open()
        async with env.session.get(f"{env.origin}{env.root}events/fleet?since=999999") as response:
            assert b"event: reload" in await response.read()


async def test_head_of_a_stream_has_an_end() -> None:
    async with served() as env:
        await env.open()
        async with asyncio.timeout(10), env.session.head(f"{env.origin}{env.root}events/fleet") as response:
            assert response.status == 200


async def test_more_readers_than_allowed_are_refused() -> None:
    async with served() as env:
        await env.open()
        url = f"{env.origin}{env.root}events/fleet?since={await env.number()}"
        connector = aiohttp.TCPConnector(limit=0)
        headers = {"Cookie": f"{COOKIE}={next(iter(env.session.cookie_jar)).value}"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as many:
            readers = [await many.get(url) for _ in range(MOST_STREAMS)]
            async with many.get(url) as response:
                assert response.status == 503
            for reader in readers:
                reader.close()
            statuses = []

            async def status() -> int:
                async with many.get(url) as response:
                    statuses.append(response.status)
                    return response.status

            assert await eventually(status, lambda value: value == 200) == 200


async def test_unlistable_kind_is_named_in_its_place() -> None:
    async with served(user=NOBODY) as env:
        await env.open()
        page = await eventually(env.page, lambda page: "you may not list" in page)
        assert "Clusters are not shown: you may not list clusters.anywhere.eks.amazonaws.com in all namespaces" in page
        assert page.count("start `espalier dashboard` with --namespace") == 1
        dates = "eksareleases.anywhere.eks.amazonaws.com and bundles.anywhere.eks.amazonaws.com in all namespaces."
        assert f"Dates of support are not shown: you may not list {dates}" in page
        assert page.count("Dates of support") == 1
        assert '<span id="count" role="status" data-noun="cluster"></span>' in page
    async with served(user=NOBODY, namespaces=["orchard"]) as env:
        await env.open()
        page = await eventually(env.page, lambda page: "you may not list" in page)
        assert "you may not list clusters.anywhere.eks.amazonaws.com in namespace orchard." in page
        assert "bundles.anywhere.eks.amazonaws.com in namespace eksa-system." in page
        assert "--namespace" not in page


async def test_absent_kind_is_named_in_its_place() -> None:
    async with served(kinds=()) as env:
        await env.open()
        await eventually(env.page, lambda page: "does not serve Clusters" in page)
        async with env.session.get(f"{env.origin}{env.root}clusters/default/garden") as response:
            assert (response.status, "does not serve Clusters" in await response.text()) == (404, True)


async def test_lost_api_server_has_a_banner_until_it_is_back() -> None:
    async with served() as env:
        await env.admin.create(Cluster.resource, body("garden"))
        await env.open()
        await eventually(env.page, lambda page: "c/default/garden" in page)
        await env.transport.cut()
        page = await eventually(env.page, lambda page: "has not answered since" in page)
        assert "c/default/garden" in page
        await env.admin.create(Cluster.resource, body("meadow"))
        env.transport.is_broken = False
        await eventually(env.page, lambda page: "c/default/meadow" in page and "has not answered" not in page)


async def test_silent_api_server_has_a_banner_on_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "DEADLINE", 0.1)
    monkeypatch.setattr(probe, "PERIOD", 0.1)
    silent = "has not answered since"
    async with served() as env:
        await env.admin.create(Cluster.resource, body("garden"))
        await env.open()
        await eventually(lambda: env.page("clusters/default/garden"), lambda page: "being read" not in page)
        env.transport.answers.clear()
        page = await eventually(env.page, lambda page: silent in page)
        assert "no answer within 0.1 seconds" in page
        assert "c/default/garden" in page
        await eventually(lambda: env.page("clusters/default/garden"), lambda page: silent in page)
        page = await eventually(lambda: env.page("clusters/default/meadow"), lambda page: silent in page)
        assert "being read" not in page
        assert "Clusters are read once the API server answers" in page
        await env.admin.create(Cluster.resource, body("meadow"))
        env.transport.answers.set()
        await eventually(env.page, lambda page: "c/default/meadow" in page and silent not in page)
        await eventually(
            lambda: env.page("clusters/default/meadow"), lambda page: "once the API" not in page and silent not in page
        )


async def test_shoots_have_the_banner_of_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "DEADLINE", 0.1)
    monkeypatch.setattr(probe, "PERIOD", 0.1)
    async with served(garden=True) as env:
        await env.open()
        env.transport.answers.clear()
        await eventually(lambda: env.page("shoots"), lambda page: "has not answered since" in page)


async def test_nothing_is_sent_but_reads() -> None:
    async with served() as env:
        reader = Client(ReadOnly(env.transport))
        with pytest.raises(NotRead, match="POST"):
            await reader.create(Cluster.resource, body("garden"))
        with pytest.raises(NotRead, match="DELETE"):
            await reader.delete(Cluster.resource, "garden", "default")


async def test_server_ends_at_once_while_pages_are_followed() -> None:
    async with served() as env:
        await env.open()
        number = await env.number()
        response = await env.session.get(f"{env.origin}{env.root}events/fleet?since={number}")
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 4
    response.close()


async def test_page_of_a_cluster_has_its_plan_and_follows_it() -> None:
    async with served() as env:
        await env.admin.create(Cluster.resource, body("garden"))
        await env.open()
        page = await eventually(
            lambda: env.page("clusters/default/garden"), lambda page: "Nothing would change." in page
        )
        assert "No manager has reported any yet." in page
        async with asyncio.timeout(20):
            stream = env.changes("events/clusters/default/garden", number_in(page))
            await env.admin.patch(
                Cluster.resource,
                "garden",
                "default",
                patch={"spec": {"kubernetesVersion": "1.36"}},
                type=PatchType.MERGE,
            )
            changes = await anext(stream)
            assert [put[0] for put in changes["put"]] == ["s0-head", "s7-objects"]
            assert "1.36" in changes["put"][0][2]
            await env.admin.delete(Cluster.resource, "garden", "default")
            changes = await anext(stream)
            assert "There is no cluster garden in namespace default" in changes["put"][0][2]
            await stream.aclose()


@pytest.mark.parametrize("error", [Unreachable("connection refused"), TimeoutError(), ValueError("<b>unexpected</b>")])
async def test_failed_plan_is_made_again(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the cluster does not change any more."""
    monkeypatch.setattr(cluster_view, "PLAN_AGAIN", 0.05)
    errors = [error]
    goes_on = asyncio.Event()

    async def planner(_client: Client, _key: Key) -> Plan:
        if errors:
            raise errors.pop()
        await goes_on.wait()
        return Plan(("  Nothing would change.",))

    async with served(planner=planner) as env:
        await env.admin.create(Cluster.resource, body("garden"))
        await env.open()
        path = "clusters/default/garden"
        page = await eventually(lambda: env.page(path), lambda page: "The plan is not shown" in page)
        assert "<b>unexpected" not in page
        goes_on.set()
        await eventually(lambda: env.page(path), lambda page: "Nothing would change." in page)


async def test_page_that_can_not_be_rendered_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that nobody expected, and the page was not open before."""

    def unexpected(*_: object) -> None:
        raise ValueError("<b>unexpected</b>")

    monkeypatch.setattr("espalier.dashboard.models.cluster.page_of", unexpected)
    async with served() as env:
        await env.admin.create(Cluster.resource, body("garden"))
        await env.open()
        page = await env.page("clusters/default/garden")
        assert "This page could not be rendered" in page
        assert "&lt;b&gt;unexpected" in page


@pytest.mark.parametrize("path", ["default/nobody", "Default/x", "default/..%2f..", "a%20b/c", f"default/{'x' * 300}"])
async def test_page_of_no_cluster_says_so(path: str) -> None:
    async with served() as env:
        await env.open()
        async with env.session.get(URL(f"{env.origin}{env.root}clusters/{path}", encoded=True)) as response:
            assert response.status == 404


async def test_only_the_namespace_that_is_shown_is_read() -> None:
    async with served(namespaces=["orchard"]) as env:
        await env.admin.create(Cluster.resource, body("garden"))
        await env.open()
        async with env.session.get(f"{env.origin}{env.root}clusters/default/garden") as response:
            assert response.status == 404
        assert "garden" not in await env.page()


async def test_more_clusters_than_allowed_are_not_watched() -> None:
    async with served() as env:
        await env.open()
        names = [f"garden-{number}" for number in range(MOST + 1)]
        for name in names:
            await env.admin.create(Cluster.resource, body(name))
        readers = []
        for name in names[:MOST]:
            number = await env.number(f"clusters/default/{name}")
            path = f"{env.root}events/clusters/default/{name}?since={number}"
            readers.append(await env.session.get(f"{env.origin}{path}"))
        async with env.session.get(f"{env.origin}{env.root}clusters/default/{names[MOST]}") as response:
            assert response.status == 503
            assert "8 clusters are open already" in await response.text()
        readers[0].close()

        async def status() -> int:
            async with env.session.get(f"{env.origin}{env.root}clusters/default/{names[MOST]}") as response:
                return response.status

        await eventually(status, lambda value: value == 200)
        for reader in readers:
            reader.close()


def shoot(name: str, **spec: Any) -> Tree:
    return {
        "apiVersion": Shoot.resource.api_version,
        "kind": "Shoot",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"provider": {"type": "local"}, "kubernetes": {"version": "1.35.4"}, "seedName": "east", **spec},
    }


async def test_garden_shows_shoots_first_and_follows_them() -> None:
    async with served(garden=True) as env:
        await env.admin.create(Shoot.resource, shoot("apple"))
        await env.open()
        page = await eventually(env.page, lambda page: "h/default/apple" in page)
        assert "<h1>Shoots</h1>" in page
        assert "Clusters" not in page
        async with asyncio.timeout(20):
            stream = env.changes("events/shoots", number_in(page))
            await env.admin.create(Shoot.resource, shoot("pear"))
            changes = await anext(stream)
            assert [put[0] for put in changes["put"]] == ["h/default/pear", "summary"]
            await stream.aclose()


async def test_page_of_a_shoot_follows_its_moves() -> None:
    async with served(garden=True) as env:
        await env.admin.create(Shoot.resource, shoot("apple"))
        await env.admin.patch(
            Shoot.resource,
            "apple",
            "default",
            patch={"status": {"seedName": "east"}},
            type=PatchType.MERGE,
            subresource="status",
        )
        await env.open()
        await eventually(env.page, lambda page: "h/default/apple" in page)
        page = await env.page("shoots/default/apple")
        assert "No move has happened" in page
        await env.admin.patch(
            Shoot.resource, "apple", "default", patch={"spec": {"seedName": "west"}}, type=PatchType.MERGE
        )
        await eventually(
            lambda: env.page("shoots/default/apple"), lambda page: "a move from east to west is requested" in page
        )
        async with env.session.get(f"{env.origin}{env.root}shoots/default/nobody") as response:
            assert response.status == 404


async def test_seeds_that_may_not_be_listed_leave_the_rest() -> None:
    async with served(garden=True, user=NOBODY) as env:
        await env.open()
        page = await eventually(env.page, lambda page: page.count("you may not list") == 3)
        assert "Seeds are not shown: you may not list seeds.core.gardener.cloud" in page
        assert "Leases of seeds are not shown" in page
        assert '<span id="count" role="status" data-noun="shoot"></span>' in page


async def test_page_of_an_unlistable_shoot_says_so() -> None:
    async with served(garden=True, user=NOBODY) as env:
        await env.admin.create(Shoot.resource, shoot("apple"))
        await env.open()
        page = await env.page("shoots/default/apple")
        assert "Shoots are not shown: you may not list shoots.core.gardener.cloud" in page
        assert "There is no shoot" not in page


async def test_page_of_a_cluster_names_unlistable_kinds() -> None:
    """Somebody who may read Clusters of a namespace, and nothing of the system's."""
    async with served(user=NOBODY, namespaces=["default"], kinds=(Cluster, Machine, NodeUpgrade)) as env:
        group = "rbac.authorization.k8s.io"
        rules = [{"apiGroups": [Cluster.resource.group], "resources": ["clusters"], "verbs": ["get", "list", "watch"]}]
        metadata = {"name": "reader", "namespace": "default"}
        await env.admin.create(
            ROLE,
            {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        )
        await env.admin.create(
            ROLE_BINDING,
            {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
                "subjects": [{"kind": "User", "apiGroup": group, "name": NOBODY.name}],
            },
        )
        await env.admin.create(Cluster.resource, body("garden"))
        await env.open()
        page = await eventually(
            lambda: env.page("clusters/default/garden"), lambda page: page.count("you may not list") == 3
        )
        assert "<h1>garden</h1>" in page
        for sentence in ("Machines are not shown", "NodeUpgrades are not shown", "Events are not shown"):
            assert f"{sentence}: you may not list" in page


async def test_object_that_a_cluster_names_is_its_obstacle() -> None:
    """As `espalier describe cluster` says it: a datacenter config whose check has failed."""
    async with served(kinds=(Cluster, VSphereDatacenterConfig)) as env:
        tree = body("garden")
        tree["spec"]["datacenterRef"]["kind"] = "VSphereDatacenterConfig"
        await env.admin.create(Cluster.resource, tree)
        await env.open()
        await eventually(lambda: env.page("clusters/default/garden"), lambda page: "1 object" in page)
        metadata = {"name": "garden", "namespace": "default"}
        kind = VSphereDatacenterConfig.resource
        spec = {"datacenter": "dc", "network": "/dc/network/a", "server": "vcenter", "insecure": True}
        tree = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        await env.admin.create(kind, tree)
        status = {"status": {"specValid": False, "failureReason": "NoSuchThing", "failureMessage": "it has no network"}}
        await env.admin.patch(kind, "garden", "default", patch=status, type=PatchType.MERGE, subresource="status")
        page = await eventually(lambda: env.page("clusters/default/garden"), lambda page: "it has no network" in page)
        assert "Blocked by <b>VSphereDatacenterConfig garden</b>: NoSuchThing: it has no network" in page
