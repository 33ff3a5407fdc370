"""Certificates of a cluster: their list, and the kubeconfig that Cluster API issues again."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.clusters.rollouts import certificates
from espalier.cli.clusters.rollouts.certificates import Certificate
from espalier.cli.kit.failures import Failure, Overdue
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import Conflict, NotFound
from espalier.kube.transports.wire import Request, Response, Transport
from tests.support.objects.capi_site import LABELS, Site
from tests.support.servers.faults import Interceptor

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = Key(SYSTEM_NAMESPACE, "garden-kubeconfig")
CAPI = Key(SYSTEM_NAMESPACE, "garden")


def secret(owner: str, *, days: float, now: datetime = NOW) -> Tree:
    authority = Authority.create("x", now=now)
    pair = authority.issue_client("admin", now=now, days=days)
    kubeconfig = Kubeconfig.of_cluster(
        "garden", server="https://x", certificate_authority=authority.certificate, user="admin", credentials=pair
    )
    owners = [
        {
            "apiVersion": KubeadmControlPlane.resource.api_version,
            "kind": "KubeadmControlPlane",
            "name": "garden",
            "uid": owner,
        }
    ]
    return {
        "metadata": {
            "name": KEY.name,
            "namespace": KEY.namespace,
            "labels": LABELS,
            "ownerReferences": owners if owner else [],
        },
        "type": "cluster.x-k8s.io/secret",
        "data": {"value": base64.b64encode(kubeconfig.to_bytes()).decode()},
    }


async def control_plane(client: Client) -> str:
    return (await client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)).metadata.uid


async def test_a_kubeconfig_is_issued_again() -> None:
    site = await Site.made()
    owner = await control_plane(site.client)
    await site.client.create(SECRET, secret(owner, days=10))

    async def cluster_api() -> None:
        """It looks when the control plane changes."""
        version = (await site.client.list(KubeadmControlPlane.resource)).resource_version
        async for _ in site.client.watch(KubeadmControlPlane.resource, resource_version=version):
            break
        await site.client.create(SECRET, secret(owner, days=365))

    issuing = asyncio.create_task(cluster_api())
    assert await certificates.renew_kubeconfig(site.client, CAPI) > NOW + timedelta(days=300)
    await issuing


async def test_a_kubeconfig_is_put_back_if_none_is_issued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "REISSUED_WITHIN", 0.1)
    site = await Site.made()
    wanted = secret(await control_plane(site.client), days=10)
    await site.client.create(SECRET, wanted)
    with pytest.raises(Overdue, match="the previous kubeconfig is there again"):
        await certificates.renew_kubeconfig(site.client, CAPI)
    restored = (await site.client.get(SECRET, KEY.name, KEY.namespace)).tree
    assert (restored["data"], restored["type"]) == (wanted["data"], wanted["type"])
    assert restored["metadata"]["labels"] == LABELS
    assert restored["metadata"]["ownerReferences"][0]["kind"] == "KubeadmControlPlane"


async def test_a_command_that_is_ended_puts_it_back() -> None:
    site = await Site.made()
    await site.client.create(SECRET, secret(await control_plane(site.client), days=10))
    renewing = asyncio.create_task(certificates.renew_kubeconfig(site.client, CAPI))
    while True:
        await asyncio.sleep(0)
        try:
            await site.client.get(SECRET, KEY.name, KEY.namespace)
        except NotFound:
            break
    renewing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await renewing
    await site.client.get(SECRET, KEY.name, KEY.namespace)


class Overtaken(Interceptor):
    """Somebody else replaces the Secret just before it is deleted."""

    def __init__(self, site: Site, owner: str) -> None:
        self._site, self._owner = site, owner

    async def request(self, transport: Transport, request: Request) -> Response:
        if request.method == "DELETE":
            await self._site.client.delete(SECRET, KEY.name, KEY.namespace)
            await self._site.client.create(SECRET, secret(self._owner, days=99))
        return await transport.request(request)


async def test_a_kubeconfig_that_was_replaced_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "REISSUED_WITHIN", 0.1)
    site = await Site.made()
    owner = await control_plane(site.client)
    await site.client.create(SECRET, secret(owner, days=10))
    client = Client(Overtaken(site, owner)(site.client.transport))
    with pytest.raises(Conflict):
        await certificates.renew_kubeconfig(client, CAPI)
    await site.client.get(SECRET, KEY.name, KEY.namespace)


async def test_a_kubeconfig_of_others_is_not_deleted() -> None:
    site = await Site.made()
    await site.client.create(SECRET, secret("", days=10))
    with pytest.raises(Failure, match="is not of a KubeadmControlPlane"):
        await certificates.renew_kubeconfig(site.client, CAPI)
    await site.client.get(SECRET, KEY.name, KEY.namespace)


async def test_certificates_are_listed_with_their_ends() -> None:
    site = await Site.made()
    await site.client.create(SECRET, secret("", days=10))
    status = {"certificatesExpiryDate": "2027-01-01T00:00:00Z"}
    await site.client.patch(
        Machine.resource,
        "cp-1",
        SYSTEM_NAMESPACE,
        patch={"status": status},
        type=PatchType.MERGE,
        subresource="status",
    )
    listed = await certificates.read(site.client, await site.owner(), await site.target(), None)
    ends = {part.what: part.ends for part in listed}
    assert ends["Machine cp-1: API server, front proxy, etcd"] == datetime(2027, 1, 1, tzinfo=UTC)
    assert ends["kubeconfig of the administrator"] == NOW + timedelta(days=10)
    unread = next(part for part in listed if part.what == "authority of etcd")
    assert (unread.ends, unread.renewal) == (None, "Secret eksa-system/garden-etcd can't be read")
    with pytest.raises(Failure, match=r"Machine cp-1: API server, front proxy, etcd"):
        certificates.check(listed, await site.target(), datetime(2027, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(("days", "refused"), [(-1, True), (0, True), (1, False)])
async def test_ended_certificates_are_renewed_by_hand(days: int, *, refused: bool) -> None:
    target = await (await Site.made()).target()
    listed = [
        Certificate("Machine cp-1: API server", NOW + timedelta(days=days), "", is_of_control_plane=True),
        Certificate("kubeconfig of the administrator", NOW - timedelta(days=1), ""),
    ]
    if refused:
        with pytest.raises(Failure, match=r"\(Machine cp-1: API server\).*kubeadm certs renew all"):
            certificates.check(listed, target, NOW)
    else:
        certificates.check(listed, target, NOW)
