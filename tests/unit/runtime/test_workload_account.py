"""The manager's account in workload clusters: prepared, renewed, repaired, and left alone where none is to be had."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.core import CERTIFICATE_SIGNING_REQUEST, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, NODE
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key, Resource
from espalier.apiserver.access.rbac import Rbac
from espalier.apiserver.requests.requests import Attributes
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import Forbidden, NotFound, Unreachable
from espalier.kube.rbac import Right
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import ADMIN, Request, Response, Transport, User
from espalier.runtime.leadership.fencing import Fence
from espalier.runtime.virtual import Simulation, run
from espalier.runtime.workload_clusters import workload_account
from espalier.runtime.workload_clusters.remote import RemoteClients
from espalier.runtime.workload_clusters.workload_account import (
    NAME,
    RETRY_SECONDS,
    VALID_SECONDS,
    AccountTransport,
    WorkloadAccount,
)
from espalier.simulator.workload_clusters.transport import user_of
from espalier.simulator.workload_controllers.planners import certificates
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import CertificateRequest
from espalier.simulator.workload_controllers.writes import Change
from tests.support.servers.faults import Blocked

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
RIGHTS = (Right((CONFIG_MAP,), ("list", "watch")),)


class Noted(InProcessTransport):
    """Notes that it was closed, and may not be authenticated."""

    def __init__(self, cluster: WorkloadCluster, user: User) -> None:
        super().__init__(cluster.server, user)
        self._cluster = cluster
        self._name = user.name

    async def request(self, request: Request) -> Response:
        if self._name == self._cluster.unknown:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401}
            return Response(401, msgspec.json.encode(status), {"content-type": "application/json"})
        return await super().request(request)

    async def close(self) -> None:
        self._cluster.closed.append(self._name)


class WorkloadCluster:
    """An API server, with a signer that can be stopped, and a transport of the manager's account to it."""

    def __init__(self, simulation: Simulation) -> None:
        store = MemoryStore()
        self.users: list[str] = []
        self.requested = 0
        """Certificates."""
        self.unknown = ""
        """The user whom the API server does not authenticate."""
        self.closed: list[str] = []
        """Users whose connections were closed."""
        self._rbac = Rbac(store)
        self.server = Server(
            store, now=simulation.clock.now, random=random.Random(1), authorizer=self._authorize, version="v1.36.3"
        )
        self.clock = simulation.clock
        self.authority = Authority.create("workload", now=self.clock.now())
        self.signs = True
        self.administrator = Client(InProcessTransport(self.server, ADMIN))
        pair = self.authority.issue_client("kubernetes-admin", groups=("system:masters",), now=self.clock.now())
        self.kubeconfig = Kubeconfig.of_cluster(
            "workload",
            server="https://workload:6443",
            certificate_authority=self.authority.certificate,
            user="admin",
            credentials=pair,
        ).to_bytes()

    def remotes(self, **settings: Any) -> RemoteClients:
        """Clients as a manager has them."""
        made = WorkloadAccount(self.clock, list(RIGHTS))
        return RemoteClients(lambda content: Client(self.connect(content)), account=made, **settings)

    def account(self, administrator: Transport | None = None) -> Client:
        """A client as the manager has it."""
        made = WorkloadAccount(self.clock, list(RIGHTS))
        first = administrator or self.connect(self.kubeconfig)
        return Client(AccountTransport(made, self.kubeconfig, first, self.connect))

    def connect(self, kubeconfig: bytes) -> Transport:
        certificate = Kubeconfig.parse(kubeconfig).context().client_certificate or b""
        user = user_of(certificate, self.authority.x509)
        assert user is not None
        return Noted(self, user)

    async def sign(self) -> None:
        version = (await self.administrator.list(CERTIFICATE_SIGNING_REQUEST)).resource_version
        async for event in self.administrator.watch(CERTIFICATE_SIGNING_REQUEST, resource_version=version):
            if event.type in ("ADDED", "MODIFIED") and self.signs:
                requests = (event.object.decode(CertificateRequest),)
                snapshot = Snapshot(
                    self.clock.now(),
                    random.Random(1),
                    "10.0.0.0/8",
                    certificate_requests=requests,
                    authority=self.authority,
                )
                for write in certificates.plan(snapshot):
                    assert isinstance(write, Change)
                    await self.administrator.patch(
                        CERTIFICATE_SIGNING_REQUEST,
                        write.key.name,
                        patch=write.patch,
                        type=PatchType.MERGE,
                        subresource="status",
                    )

    def _authorize(self, attributes: Attributes, user: User) -> bool:
        if (attributes.verb, attributes.resource) == ("create", "certificatesigningrequests"):
            self.requested += 1
        if attributes.resource == "configmaps":
            self.users.append(user.name)
        return self._rbac(attributes, user)


def story(tell: Callable[[WorkloadCluster], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = WorkloadCluster(simulation)
        await cluster.server.start()
        signer = asyncio.create_task(cluster.sign())
        try:
            await tell(cluster)
        finally:
            signer.cancel()
            await cluster.server.close()

    run(main, epoch=EPOCH, seed=1)


def test_requests_are_the_accounts_own() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        client = cluster.account()
        await asyncio.gather(*(client.list(CONFIG_MAP) for _ in range(5)))
        assert set(cluster.users) == {NAME}
        with pytest.raises(Forbidden, match=f'User "{NAME}" cannot list resource "nodes"'):
            await client.list(NODE)
        assert not (await cluster.administrator.list(CERTIFICATE_SIGNING_REQUEST)).items

    story(tell)


@pytest.mark.parametrize("resource", [CLUSTER_ROLE, CLUSTER_ROLE_BINDING], ids=["role", "binding"])
def test_removed_rights_come_back(resource: Resource) -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        client = cluster.account()
        for _ in range(2):
            await client.list(CONFIG_MAP)
            await cluster.administrator.delete(resource, NAME)
            await client.list(CONFIG_MAP)
            await cluster.administrator.get(resource, NAME)
            await asyncio.sleep(RETRY_SECONDS + 1)

    story(tell)


def test_rights_are_not_fought_over() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        async def take_away() -> None:
            await cluster.administrator.patch(CLUSTER_ROLE, NAME, patch={"rules": []}, type=PatchType.MERGE)

        client = cluster.account()
        await client.list(CONFIG_MAP)
        await take_away()
        await client.list(CONFIG_MAP)
        await take_away()
        with pytest.raises(Forbidden):
            await client.list(CONFIG_MAP)
        await asyncio.sleep(RETRY_SECONDS + 1)
        await client.list(CONFIG_MAP)

    story(tell)


def test_an_earlier_managers_rights_are_replaced() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        earlier = {"metadata": {"name": NAME}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
        await cluster.administrator.create(CLUSTER_ROLE, earlier)
        await cluster.account().list(CONFIG_MAP)
        assert (await cluster.administrator.get(CLUSTER_ROLE, NAME)).tree["rules"] == [right.tree for right in RIGHTS]

    story(tell)


def test_equal_rights_are_not_written_again() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        await cluster.account().list(CONFIG_MAP)
        before = [(await cluster.administrator.version(kind, NAME)) for kind in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING)]
        await cluster.account().list(CONFIG_MAP)
        after = [(await cluster.administrator.version(kind, NAME)) for kind in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING)]
        assert after == before

    story(tell)


def test_without_a_signer_the_administrator_goes_on() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        cluster.signs = False
        client = cluster.account()
        await client.list(CONFIG_MAP)
        await client.list(CONFIG_MAP)
        assert cluster.users == ["kubernetes-admin", "kubernetes-admin"]
        assert not (await cluster.administrator.list(CERTIFICATE_SIGNING_REQUEST)).items
        cluster.signs = True
        await asyncio.sleep(RETRY_SECONDS + 1)
        await client.list(CONFIG_MAP)
        assert cluster.users[2:] == [NAME]

    story(tell)


def test_a_certificate_is_renewed_in_time() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        client = cluster.account()
        await client.list(CONFIG_MAP)
        cluster.signs = False
        await asyncio.sleep(VALID_SECONDS * 0.7)
        await client.list(CONFIG_MAP)
        assert set(cluster.users) == {NAME}, "the certificate is still valid"
        await asyncio.sleep(VALID_SECONDS * 0.3)
        await client.list(CONFIG_MAP)
        assert cluster.users[-1] == "kubernetes-admin", "it has expired, and nobody signs another"
        cluster.signs = True
        await asyncio.sleep(RETRY_SECONDS + 1)
        await client.list(CONFIG_MAP)
        assert cluster.users[-1] == NAME

    story(tell)


def test_an_unreachable_cluster_is_told_as_such() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        shut = asyncio.Event()
        shut.set()
        administrator = Blocked("/apis/rbac.authorization.k8s.io", shut)(cluster.connect(cluster.kubeconfig))
        client = cluster.account(administrator)
        with pytest.raises(Unreachable):
            await client.list(CONFIG_MAP)
        shut.clear()
        await client.list(CONFIG_MAP)
        assert cluster.users == [NAME]

    story(tell)


def test_a_cancelled_preparation_leaves_nothing() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        cluster.signs = False
        client = cluster.account()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(workload_account.PATIENCE / 2):
                await client.list(CONFIG_MAP)
        assert not (await cluster.administrator.list(CERTIFICATE_SIGNING_REQUEST)).items
        cluster.signs = True
        await client.list(CONFIG_MAP)
        assert cluster.users == [NAME]

    story(tell)


def test_replaced_connections_close_at_next_renewal() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        client = cluster.account()
        for renewals in range(4):
            await client.list(CONFIG_MAP)
            assert (cluster.requested, cluster.closed) == (renewals + 1, [NAME] * max(0, renewals - 1))
            await asyncio.sleep(VALID_SECONDS * 0.7)
        await client.close()
        assert sorted(cluster.closed) == sorted(["kubernetes-admin", *[NAME] * 4])

    story(tell)


def test_expired_certificate_is_not_requested_at_once() -> None:
    """The clock of a workload cluster may be a day behind, or its authority at its end."""

    async def tell(cluster: WorkloadCluster) -> None:
        cluster.authority = Authority.create("workload", now=cluster.clock.now(), days=1600 / 86400)
        await asyncio.sleep(1700)  # within the five minutes by which certificates are backdated
        client = Client(
            AccountTransport(
                WorkloadAccount(cluster.clock, list(RIGHTS)),
                cluster.kubeconfig,
                InProcessTransport(cluster.server, User("kubernetes-admin", ("system:masters",))),
                cluster.connect,
            )
        )
        for _ in range(5):
            await client.list(CONFIG_MAP)
        assert (cluster.requested, set(cluster.users)) == (1, {"kubernetes-admin"})

    story(tell)


def test_an_evicted_client_leaves_its_certificate() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        remotes, result, other = cluster.remotes(limit=1), identity("one"), identity("other")
        for _ in range(3):
            await remotes.get(result, cluster.kubeconfig).list(CONFIG_MAP)
            await remotes.get(other, cluster.kubeconfig).list(CONFIG_MAP)
        assert (cluster.requested, set(cluster.users)) == (2, {NAME})
        remotes.drop(result)
        await remotes.get(result, cluster.kubeconfig).list(CONFIG_MAP)
        assert cluster.requested == 3
        await remotes.close()

    story(tell)


def test_a_manager_without_its_lease_writes_no_rights() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        fence = Fence(cluster.clock.monotonic)
        remotes = cluster.remotes(fence=fence)
        await remotes.get(identity("one"), cluster.kubeconfig).list(CONFIG_MAP)
        assert (cluster.requested, set(cluster.users)) == (0, {"kubernetes-admin"})
        with pytest.raises(NotFound):
            await cluster.administrator.get(CLUSTER_ROLE, NAME)
        fence.extend(cluster.clock.monotonic() + 60)
        await remotes.get(identity("one"), cluster.kubeconfig).list(CONFIG_MAP)
        assert (cluster.requested, cluster.users[1:]) == (1, [NAME])
        await remotes.close()

    story(tell)


def test_forgotten_account_is_made_again() -> None:
    async def tell(cluster: WorkloadCluster) -> None:
        client = cluster.account()
        await client.list(CONFIG_MAP)
        cluster.unknown = NAME
        await client.list(CONFIG_MAP)
        assert cluster.users == [NAME, "kubernetes-admin"], "a certificate has just been obtained"
        cluster.unknown = ""
        await asyncio.sleep(RETRY_SECONDS + 1)
        await client.list(CONFIG_MAP)
        assert (cluster.requested, cluster.users[2:]) == (2, [NAME])

    story(tell)


def identity(name: str) -> ClusterIdentity:
    return ClusterIdentity.of(Key("default", name))
