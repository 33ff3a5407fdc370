"""Credentials that environment variables give: the Secret that commands make of them, and whom it permits."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.core import NAMESPACE, SECRET, Secret
from espalier.cli.clusters.manifests.preflight import bring_credentials
from espalier.cli.kit.failures import Failure
from espalier.clusters.design.secrets.credentials import NAMESPACES, SERVERS
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden
from espalier.providers.registry import PROVIDERS
from espalier.providers.vsphere.environment import secrets
from espalier.providers.vsphere.references import VARIABLES
from tests.support.providers.vsphere import manifest, of
from tests.support.servers.embedded_server import client_of, new_server

GIVEN = dict(zip(VARIABLES.values(), ("maker", "canary", "reader", "other"), strict=True))


async def server() -> Client:
    running = new_server()
    await running.start()
    client = client_of(running)
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "eksa-system"}})
    return client


async def stored_secret(client: Client) -> Secret:
    return (await client.get(SECRET, "vsphere-credentials", "eksa-system")).decode(Secret)


@pytest.mark.demand(L29="with a cluster")
def test_secret_permits_earlier_servers_as_well() -> None:
    async def main() -> None:
        client = await server()
        report = await bring_credentials(PROVIDERS, client, manifest(), GIVEN)
        assert report == "Secret eksa-system/vsphere-credentials has the credentials of the environment"
        made = await stored_secret(client)
        assert made.data == {
            "username": b"maker",
            "password": b"canary",
            "usernameCP": b"reader",
            "passwordCP": b"other",
        }
        assert made.metadata.annotations == {SERVERS: "vcenter.example.com", NAMESPACES: "team-a"}

        more = manifest("team-b")
        of(more, "VSphereDatacenterConfig")["insecure"] = True
        await bring_credentials(PROVIDERS, client, more, GIVEN)
        changed = await stored_secret(client)
        permitted = {SERVERS: "insecure:vcenter.example.com,vcenter.example.com", NAMESPACES: "team-a,team-b"}
        assert changed.metadata.annotations == permitted

    asyncio.run(main())


@pytest.mark.parametrize("name", ["EKSA_VSPHERE_USERNAME", "EKSA_VSPHERE_PASSWORD"])
def test_without_user_or_password_nothing_is_written(name: str) -> None:
    assert list(secrets({variable: value for variable, value in GIVEN.items() if variable != name}, manifest())) == []


def test_clusters_of_other_providers_need_no_secret() -> None:
    async def main() -> str:
        return await bring_credentials(PROVIDERS, await server(), [{"kind": "DockerDatacenterConfig"}], GIVEN)

    assert asyncio.run(main()) == ""


def test_forbidden_write_is_reported_without_password() -> None:
    class Refusing(Client):
        async def get(self, *_arguments: object, **_more: object) -> object:  # type: ignore[override]
            raise Forbidden.of("secrets is forbidden")

    async def main() -> None:
        client = await server()
        client.__class__ = Refusing
        await bring_credentials(PROVIDERS, client, manifest(), GIVEN)

    with pytest.raises(Failure) as raised:
        asyncio.run(main())
    assert "Secret eksa-system/vsphere-credentials may not be written" in str(raised.value)
    assert "canary" not in str(raised.value)
