"""Secrets that commands make of environment variables: whole, and without taking anything from other clusters."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

import pytest

from espalier.api.core import CONFIG_MAP, NAMESPACE, SECRET, Secret
from espalier.api.meta import Tree
from espalier.cli.clusters.manifests import documents
from espalier.cli.clusters.manifests.documents import apply_all
from espalier.cli.clusters.manifests.preflight import bring_credentials
from espalier.cli.kit.failures import Failure
from espalier.kube.errors import Invalid
from espalier.providers.registry import PROVIDERS
from tests.support.providers import cloudstack, nutanix, snow, vsphere
from tests.support.servers.embedded_server import client_of, new_server

TOGETHER = {kind for kind, provider in PROVIDERS.items() if provider.joint_variables}
MANIFESTS = {"NutanixDatacenterConfig": nutanix.manifest, "VSphereDatacenterConfig": vsphere.manifest}
AUTHORITY = snow.AUTHORITY
PROFILE = "[DEVICE]\naws_access_key_id = canary\naws_secret_access_key = canary\n"
PAIRS = [
    (kind, group, given)
    for kind, provider in PROVIDERS.items()
    for group in provider.joint_variables
    for given in group
]


def test_providers_tell_which_variables_go_together() -> None:
    assert {"VSphereDatacenterConfig", "NutanixDatacenterConfig", "SnowDatacenterConfig"} == TOGETHER


@pytest.mark.parametrize(("kind", "group", "given"), PAIRS, ids=lambda item: item if isinstance(item, str) else "")
def test_missing_variables_of_an_account_are_named(kind: str, group: tuple[str, ...], given: str) -> None:
    with pytest.raises(Failure) as caught:
        asyncio.run(bring_credentials(PROVIDERS, client_of(new_server()), [{"kind": kind}], {given: "canary"}))
    missing = [name for name in group if name != given]
    assert str(caught.value) == f"{given} is set, and {', '.join(missing)} is not: set it as well, or neither"


@pytest.mark.parametrize("kind", MANIFESTS)
def test_missing_account_stays_for_its_clusters(kind: str) -> None:
    """The second cluster is made from an environment without the account of cloud controllers."""
    manifest = MANIFESTS[kind]
    together = PROVIDERS[kind].joint_variables

    async def main() -> None:
        running = new_server()
        await running.start()
        client = client_of(running)
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "eksa-system"}})

        async def bring(namespace: str, variables: Iterable[str], value: str) -> Mapping[str, bytes]:
            await bring_credentials(PROVIDERS, client, manifest(namespace), dict.fromkeys(variables, value))
            (secret,) = (await client.list(SECRET, "eksa-system")).items
            return secret.decode(Secret).data

        before = await bring("team-a", chain.from_iterable(together), "first")
        after = await bring("team-b", together[0], "second")
        assert before.keys() == after.keys()
        assert {name for name in before if before[name] != after[name]} == {name for name in before if "CP" not in name}

    asyncio.run(main())


def test_credentials_are_written_after_the_manifest() -> None:
    async def main() -> None:
        running = new_server()
        await running.start()
        client = client_of(running)
        written = []

        async def bring() -> None:
            written.append("credentials")

        metadata = {"name": "a", "namespace": "default"}
        taken, refused = {"metadata": metadata}, {"metadata": metadata, "data": {"a/b": "no key"}}
        with pytest.raises(Invalid):
            await apply_all(client, [(CONFIG_MAP, refused)], dry_run=False, first=bring)
        await apply_all(client, [(CONFIG_MAP, taken)], dry_run=True, first=bring)
        assert written == []
        await apply_all(client, [(CONFIG_MAP, taken)], dry_run=False, first=bring)
        assert written == ["credentials"]

    asyncio.run(main())


KEYS = "api-url = https://c.example/client/api\napi-key = canary\nsecret-key = canary\n"
CLOUDSTACK = "EKSA_CLOUDSTACK_B64ENCODED_SECRET"


def encoded(text: str) -> dict[str, str]:
    return {CLOUDSTACK: base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({CLOUDSTACK: "canary!"}, "not base64-encoded text"),
        ({CLOUDSTACK: base64.b64encode(b"\xff\xfe").decode()}, "not base64-encoded text"),
        ({CLOUDSTACK: "a" * (1 << 21)}, "found 2097152 bytes, the limit is 1048576"),
        (encoded("canary"), "line 1 is neither the name of a profile"),
        (encoded(f"[global]\n{KEYS}canary\n"), "line 5 is neither the name of a profile"),
        (encoded("# nothing\n"), "found no profile"),
        (encoded(f"[other]\n{KEYS}"), "no profile [global], which the manifest names; found other"),
        (encoded(f"[Global]\n{KEYS.replace('secret-key', 'key')}"), "profile [global] lacks secret-key"),
    ],
)
def test_unreadable_cloudstack_keys_are_refused(environment: dict[str, str], message: str) -> None:
    assert brought_of(cloudstack.manifest(), environment).startswith(f"{CLOUDSTACK}: {message}")


@pytest.mark.parametrize(
    ("credentials", "bundles", "message"),
    [
        ("canary", AUTHORITY, "EKSA_AWS_CREDENTIALS_FILE: line 1 is neither"),
        ("[DEVICE]\naws_access_key_id = canary\ncanary\n", AUTHORITY, "EKSA_AWS_CREDENTIALS_FILE: line 3 is neither"),
        ("[a]\naws_access_key_id = canary\n", AUTHORITY, "EKSA_AWS_CREDENTIALS_FILE: no profile [DEVICE]"),
        ("[DEVICE]\naws_access_key_id = canary\n", AUTHORITY, "EKSA_AWS_CREDENTIALS_FILE: profile [DEVICE] lacks"),
        (PROFILE, "canary", "EKSA_AWS_CA_BUNDLES_FILE: found no certificate"),
        (PROFILE, f"# one\n{AUTHORITY}# two\n{AUTHORITY[:40]}", "has no end"),
        (
            PROFILE,
            AUTHORITY.replace("M", "!", 1),
            "EKSA_AWS_CA_BUNDLES_FILE: the certificate that begins in line 1 can't be parsed",
        ),
        (PROFILE, AUTHORITY.replace("CERTIFICATE", "PRIVATE KEY"), "line 1 has -----BEGIN PRIVATE KEY-----"),
    ],
)
def test_files_of_snow_are_refused_by_line(tmp_path: Path, credentials: str, bundles: str, message: str) -> None:
    environment = {}
    for name, text in (("EKSA_AWS_CREDENTIALS_FILE", credentials), ("EKSA_AWS_CA_BUNDLES_FILE", bundles)):
        (tmp_path / name).write_text(text.replace("DEVICE", snow.DEVICE))
        environment[name] = str(tmp_path / name)
    assert message.replace("DEVICE", snow.DEVICE) in brought_of(snow.manifest(), environment)


def brought_of(manifest: list[Tree], environment: dict[str, str]) -> str:
    """Why nothing is brought. No API server is asked."""
    with pytest.raises(Failure) as refused:
        asyncio.run(bring_credentials(PROVIDERS, client_of(new_server()), manifest, environment))
    assert "canary" not in str(refused.value)
    return str(refused.value)


MIRROR = {"endpoint": "192.0.2.50", "authenticate": True}
ACCOUNT = {"REGISTRY_USERNAME": "puller", "REGISTRY_PASSWORD": "canary"}


def with_mirror(**mirror: object) -> list[Tree]:
    trees = vsphere.manifest()
    trees[0]["spec"]["registryMirrorConfiguration"] = {**MIRROR, **mirror}
    return trees


@pytest.mark.parametrize("missing", ACCOUNT)
def test_half_an_account_of_a_mirror_is_refused(missing: str) -> None:
    given = {name: value for name, value in ACCOUNT.items() if name != missing}
    assert f"is set, and {missing} is not" in brought_of(with_mirror(), given)


def test_no_account_is_written_for_a_mirror_without() -> None:
    made = PROVIDERS["VSphereDatacenterConfig"].environment_secrets(ACCOUNT, with_mirror(authenticate=False))
    assert list(made) == []


def test_the_certificate_of_a_mirror_comes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = tmp_path / "cluster.yaml"
    manifest.write_text("\n---\n".join(json.dumps(item) for item in with_mirror()))
    authority = tmp_path / "ca.crt"
    authority.write_text(AUTHORITY)
    monkeypatch.setenv("EKSA_REGISTRY_MIRROR_CA", str(authority))
    result, problems, _ = documents.examined([str(manifest)])
    assert problems == []
    assert result[0].tree["spec"]["registryMirrorConfiguration"]["caCertContent"] == AUTHORITY
    assert "EKSA_REGISTRY_MIRROR_CA" in result[0].notes[0].message

    manifest.write_text("\n---\n".join(json.dumps(item) for item in with_mirror(caCertContent="own")))
    result, _, _ = documents.examined([str(manifest)])
    assert result[0].tree["spec"]["registryMirrorConfiguration"]["caCertContent"] == "own"

    manifest.write_text("\n---\n".join(json.dumps(item) for item in with_mirror()))
    monkeypatch.setenv("EKSA_REGISTRY_MIRROR_CA", str(tmp_path / "nothing"))
    with pytest.raises(Failure, match=r"EKSA_REGISTRY_MIRROR_CA names \S+/nothing, which can't be used"):
        documents.examined([str(manifest)])


def test_refusal_after_a_namespace_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """The command has its exit code, and says what is there."""

    async def main() -> None:
        running = new_server()
        await running.start()
        spaces: list[Tree] = [{"metadata": {"name": name}} for name in ("moors", "meadows")]
        refused: Tree = {"metadata": {"name": "a", "namespace": "moors"}, "data": {"a/b": "no key"}}
        prepared = [*((NAMESPACE, space) for space in spaces), (CONFIG_MAP, refused)]
        with pytest.raises(Invalid, match="a/b"):
            await apply_all(client_of(running), prepared, dry_run=False)

    asyncio.run(main())
    assert capsys.readouterr().err == "created, and nothing else: Namespace moors, Namespace meadows\n"
