"""Credentials that environment variables give: the Secret that commands make of them, and whom it permits."""

from __future__ import annotations

import asyncio
import json

import pytest

from espalier.api.core import NAMESPACE, SECRET, Secret
from espalier.cli.clusters.manifests.preflight import bring_credentials
from espalier.clusters.design.secrets.credentials import NAMESPACES, SERVERS
from espalier.providers.nutanix.environment import secrets
from espalier.providers.registry import PROVIDERS
from tests.support.providers.nutanix import account, manifest, of
from tests.support.servers.embedded_server import client_of, new_server

MAKER = {"EKSA_NUTANIX_USERNAME": "maker", "EKSA_NUTANIX_PASSWORD": "canary"}
READER = {"EKSA_NUTANIX_CP_USERNAME": "reader", "EKSA_NUTANIX_CP_PASSWORD": "other"}


@pytest.mark.demand(L29="with a cluster")
def test_secret_permits_earlier_servers_as_well() -> None:
    async def main() -> None:
        running = new_server()
        await running.start()
        client = client_of(running)
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "eksa-system"}})
        report = await bring_credentials(PROVIDERS, client, manifest(), MAKER | READER)
        assert report == "Secret eksa-system/nutanix-credentials has the credentials of the environment"
        made = (await client.get(SECRET, "nutanix-credentials", "eksa-system")).decode(Secret)
        accounts = {name: json.loads(content) for name, content in made.data.items()}
        assert accounts == {
            "credentials": json.loads(account("maker", "canary")),
            "credentialsCP": json.loads(account("reader", "other")),
        }
        assert made.metadata.annotations == {SERVERS: "prism.example.com:9440", NAMESPACES: "team-a"}

        more = manifest("team-b")
        of(more, "NutanixDatacenterConfig")["insecure"] = True
        await bring_credentials(PROVIDERS, client, more, MAKER | READER)
        changed = (await client.get(SECRET, "nutanix-credentials", "eksa-system")).decode(Secret)
        servers = "insecure:prism.example.com:9440,prism.example.com:9440"
        assert changed.metadata.annotations == {SERVERS: servers, NAMESPACES: "team-a,team-b"}

    asyncio.run(main())


def test_secret_has_name_that_datacenter_references() -> None:
    trees = manifest()
    of(trees, "NutanixDatacenterConfig")["credentialRef"]["name"] = "of-team-a"
    (secret,) = secrets(MAKER, trees)
    assert secret["metadata"]["name"] == "of-team-a"
    assert sorted(secret["data"]) == ["credentials"]


def test_servers_with_another_secret_are_not_permitted() -> None:
    other = manifest("team-b")
    of(other, "NutanixDatacenterConfig").update({"credentialRef": {"kind": "Secret", "name": "of-team-b"}, "port": 1})
    (secret,) = secrets(MAKER, [*manifest(), *other])
    assert secret["metadata"]["annotations"] == {SERVERS: "prism.example.com:9440", NAMESPACES: "team-a"}


@pytest.mark.parametrize("name", MAKER)
def test_without_user_or_password_nothing_is_written(name: str) -> None:
    given = MAKER | READER
    assert list(secrets({variable: value for variable, value in given.items() if variable != name}, manifest())) == []


def test_clusters_of_other_providers_need_no_secret() -> None:
    assert list(secrets(MAKER, [{"kind": "DockerDatacenterConfig"}])) == []
