"""Keys that an environment variable gives: the Secrets that commands make of them, and whom they permit."""

from __future__ import annotations

import asyncio
import base64

import pytest

from espalier.api.core import NAMESPACE, SECRET, Secret
from espalier.cli.clusters.manifests.preflight import bring_credentials
from espalier.clusters.design.secrets.credential_files import Unreadable
from espalier.clusters.design.secrets.credentials import NAMESPACES, SERVERS
from espalier.providers.cloudstack.environment import MOST, secrets
from espalier.providers.cloudstack.references import VARIABLE
from espalier.providers.registry import PROVIDERS
from tests.support.providers.cloudstack import API, SERVER, manifest, of, zone
from tests.support.servers.embedded_server import client_of, new_server

PROFILES = f"""\
[Global]
api-url = {API}
api-key = key%of
secret-key = canary

[north]
api-url = https://north.example.com/client/api
api-key = other
secret-key = other-canary
verify-ssl = false

[of-nobody]
api-url = {API}
api-key = a
secret-key = b
"""


def given(text: str) -> dict[str, str]:
    return {VARIABLE: base64.b64encode(text.encode()).decode()}


def in_two_zones(namespace: str) -> list[dict[str, object]]:
    trees = manifest(namespace)
    north = {"credentialsRef": "North", "managementApiEndpoint": "https://north.example.com/client/api"}
    of(trees, "CloudStackDatacenterConfig")["availabilityZones"].append(zone("az-2", **north))
    return trees


@pytest.mark.demand(L29="with a cluster")
def test_secrets_permit_earlier_servers_as_well() -> None:
    async def main() -> None:
        running = new_server()
        await running.start()
        client = client_of(running)
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "eksa-system"}})
        report = await bring_credentials(PROVIDERS, client, in_two_zones("team-a"), given(PROFILES))
        assert report == (
            "Secret eksa-system/global has the credentials of the environment, "
            "Secret eksa-system/north has the credentials of the environment"
        )
        await bring_credentials(PROVIDERS, client, manifest("team-b"), given(PROFILES))
        stored_secrets = [
            (await client.get(SECRET, name, "eksa-system")).decode(Secret) for name in ("global", "north")
        ]
        first, north = stored_secrets
        assert first.data == {
            "api-url": API.encode(),
            "api-key": b"key%of",
            "secret-key": b"canary",
            "verify-ssl": b"true",
        }
        assert first.metadata.annotations == {SERVERS: SERVER, NAMESPACES: "team-a,team-b"}
        assert north.data["verify-ssl"] == b"false"
        assert north.metadata.annotations == {SERVERS: "north.example.com", NAMESPACES: "team-a"}
        assert [object_.name for object_ in (await client.list(SECRET, "eksa-system")).items] == ["global", "north"]

    asyncio.run(main())


@pytest.mark.parametrize("field", ["api-url", "api-key", "secret-key"])
def test_a_profile_that_lacks_something_is_refused(field: str) -> None:
    text = "\n".join(line for line in PROFILES.splitlines() if not line.startswith(field))
    with pytest.raises(Unreadable, match=rf"profile \[global\] lacks {field}"):
        list(secrets(given(text), in_two_zones("team-a")))


@pytest.mark.parametrize("text", ["no profile", "[global", "[global]\napi-url", "\x00", "[a]\n[a]\n", "x" * 2 * MOST])
def test_an_invalid_file_of_profiles_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match=f"^{VARIABLE}: "):
        list(secrets(given(text), manifest()))


def test_a_file_that_is_too_long_is_not_read() -> None:
    with pytest.raises(Unreadable, match=f"the limit is {MOST}"):
        list(secrets(given(PROFILES + "#" * MOST), in_two_zones("team-a")))


def test_invalid_base64_is_refused() -> None:
    for value in ("[global]", base64.b64encode(b"\xff\xfe").decode()):
        with pytest.raises(Unreadable, match="not base64"):
            list(secrets({VARIABLE: value}, manifest()))
    assert list(secrets({}, manifest())) == []
    assert list(secrets({VARIABLE: ""}, manifest())) == []


def test_clusters_of_other_providers_need_no_secret() -> None:
    assert list(secrets(given(PROFILES), [{"kind": "DockerDatacenterConfig"}])) == []


def test_variable_stands_for_any_profile_offline() -> None:
    first, north = secrets({VARIABLE: f"${VARIABLE}"}, in_two_zones("team-a"))
    assert base64.b64decode(first["data"]["api-url"]).decode() == API
    assert base64.b64decode(first["data"]["secret-key"]).decode() == f"${VARIABLE}"
    assert (first["metadata"]["name"], north["metadata"]["name"]) == ("global", "north")
