"""Credentials in files that environment variables name: the Secret that commands make of them, and whom it permits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from espalier.api.core import NAMESPACE, SECRET, Secret
from espalier.cli.clusters.manifests.preflight import bring_credentials
from espalier.cli.kit.failures import Failure
from espalier.clusters.design.secrets.credentials import NAMESPACES, SERVERS
from espalier.providers.registry import PROVIDERS
from espalier.providers.snow.environment import secrets
from tests.support.providers.snow import (
    AUTHORITY,
    CANARY,
    CREDENTIALS,
    DATACENTER,
    DEVICE,
    MACHINES,
    OTHER_DEVICE,
    PROFILES,
    manifest,
    of,
)
from tests.support.servers.embedded_server import client_of, new_server

CONTENT = {"EKSA_AWS_CREDENTIALS_FILE": PROFILES, "EKSA_AWS_CA_BUNDLES_FILE": AUTHORITY}


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """They name files with this content."""
    for name, content in CONTENT.items():
        (tmp_path / name).write_text(content)
    return {name: str(tmp_path / name) for name in CONTENT}


@pytest.mark.demand(L29="with a cluster")
def test_secret_permits_devices_of_the_manifest(
    variables: dict[str, str],
) -> None:
    async def main() -> None:
        running = new_server()
        await running.start()
        client = client_of(running)
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "eksa-system"}})
        report = await bring_credentials(PROVIDERS, client, manifest(), variables)
        assert report == "Secret eksa-system/snow-credentials has the credentials of the environment"
        made = (await client.get(SECRET, "snow-credentials", "eksa-system")).decode(Secret)
        assert {name: content.decode() for name, content in made.data.items()} == CREDENTIALS
        assert made.metadata.annotations == {SERVERS: "192.0.2.100", NAMESPACES: "team-a"}

        more = manifest("team-b")
        of(more, MACHINES)["devices"] = [OTHER_DEVICE]
        with pytest.raises(Failure, match=rf"no profile \[{OTHER_DEVICE}\], which the manifest names; found {DEVICE}"):
            await bring_credentials(PROVIDERS, client, more, variables)
        Path(variables["EKSA_AWS_CREDENTIALS_FILE"]).write_text(PROFILES + PROFILES.replace(DEVICE, OTHER_DEVICE))
        report = await bring_credentials(PROVIDERS, client, more, variables)
        assert report.endswith("and is no longer for namespace team-a, which no cluster uses")
        changed = (await client.get(SECRET, "snow-credentials", "eksa-system")).decode(Secret)
        assert changed.metadata.annotations == {SERVERS: "192.0.2.100,192.0.2.101", NAMESPACES: "team-b"}

    asyncio.run(main())


def test_secret_has_name_that_datacenter_references() -> None:
    trees = manifest()
    of(trees, DATACENTER)["identityRef"]["name"] = "of-team-a"
    (secret,) = secrets(CONTENT, trees)
    assert secret["metadata"]["name"] == "of-team-a"
    assert sorted(secret["data"]) == ["ca-bundle", "credentials"]


def test_devices_with_another_secret_are_not_permitted() -> None:
    other = manifest("team-b")
    of(other, DATACENTER)["identityRef"]["name"] = "of-team-b"
    of(other, MACHINES)["devices"] = [OTHER_DEVICE]
    both = {"EKSA_AWS_CREDENTIALS_FILE": PROFILES + PROFILES.replace(DEVICE, OTHER_DEVICE)}
    (secret,) = secrets(CONTENT | both, [*manifest(), *other])
    assert secret["metadata"]["annotations"] == {SERVERS: DEVICE, NAMESPACES: "team-a"}


@pytest.mark.parametrize("name", CONTENT)
def test_nothing_is_written_without_profiles(name: str) -> None:
    assert list(secrets({variable: value for variable, value in CONTENT.items() if variable != name}, manifest())) == []


def test_clusters_of_other_providers_need_no_secret() -> None:
    assert list(secrets(CONTENT, [{"kind": "DockerDatacenterConfig"}])) == []


UNUSABLE: dict[str, tuple[bytes | None, str]] = {
    "absent": (None, "No such file or directory"),
    "not text": (b"\xff" + CANARY.encode(), "it is not text"),
    "large": (CANARY.encode() * 50_000, "it has more than 1048576 bytes, the most that a Secret has"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_invalid_file_is_named_and_not_quoted(variables: dict[str, str], tmp_path: Path, name: str) -> None:
    content, reason = UNUSABLE[name]
    path = tmp_path / "profiles"
    if content is not None:
        path.write_bytes(content)
    wrong = variables | {"EKSA_AWS_CREDENTIALS_FILE": str(path)}
    with pytest.raises(Failure) as caught:
        asyncio.run(bring_credentials(PROVIDERS, client_of(new_server()), manifest(), wrong))
    message = str(caught.value)
    assert message == (
        f"EKSA_AWS_CREDENTIALS_FILE names {path}, which can't be used: {reason}; correct the variable, or unset it"
    )
