"""Encryption at rest, as Kubernetes configures it."""

from __future__ import annotations

import base64
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, SECRET
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.apiserver.server import Server
from espalier.apiserver.storage.encryption import CannotDecrypt, Encryption, EncryptionError
from espalier.apiserver.storage.sqlite import SqliteStore, Unusable
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport

CA_KEY = b"-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n"
ENCODED = base64.b64encode(CA_KEY)


def key(name: str, size: int = 32) -> dict[str, str]:
    return {"name": name, "secret": base64.b64encode(random.Random(name).randbytes(size)).decode()}


def provider(name: str, *keys: str) -> dict[str, Any]:
    return {name: {"keys": [key(key_name) for key_name in keys]}} if name != "identity" else {"identity": {}}


def configuration(*providers: dict[str, Any], resources: tuple[str, ...] = ("secrets",)) -> dict[str, Any]:
    rule = {"resources": list(resources), "providers": list(providers)}
    return {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [rule]}


GARDEN = ("secrets", "shootstates.core.gardener.cloud")
PROVIDERS = ("aesgcm", "aescbc")


@pytest.mark.parametrize("name", PROVIDERS)
@given(clear=st.binary(max_size=500))
def test_sealed_data_are_unsealed_to_the_same(name: str, clear: bytes) -> None:
    encryption = Encryption(configuration(provider(name, "one")))
    stored = encryption.encrypt("secrets", b"/a", clear)
    assert stored.startswith(f"k8s:enc:{name}:v1:one:".encode())
    assert encryption.decrypt("secrets", b"/a", stored) == clear
    assert len(clear) < 8 or clear not in stored


@pytest.mark.parametrize("name", PROVIDERS)
@given(st.data())
def test_damaged_data_are_never_read_as_something_else(name: str, data: st.DataObject) -> None:
    encryption = Encryption(configuration(provider(name, "one")))
    stored = bytearray(encryption.encrypt("secrets", b"/a", b"x" * 40))
    label = len(f"k8s:enc:{name}:v1:one:")
    if name == "aescbc":  # it only tells damage of the padding
        stored = stored[: data.draw(st.integers(label, len(stored) - 1))]
    else:
        stored[data.draw(st.integers(label, len(stored) - 1))] ^= 1 + data.draw(st.integers(0, 254))
    if name == "aescbc":
        with suppress(CannotDecrypt):
            assert encryption.decrypt("secrets", b"/a", bytes(stored)) != b"x" * 40
        return
    with pytest.raises(CannotDecrypt, match="/a was encrypted with another key"):
        encryption.decrypt("secrets", b"/a", bytes(stored))


def test_gcm_refuses_an_object_in_place_of_another() -> None:
    encryption = Encryption(configuration(provider("aesgcm", "one")))
    with pytest.raises(CannotDecrypt):
        encryption.decrypt("secrets", b"/b", encryption.encrypt("secrets", b"/a", b"x"))


@pytest.mark.parametrize(
    ("resources", "table", "encrypted"),
    [
        (("secrets",), "secrets", True),
        (("secrets",), "configmaps", False),
        (("shootstates.core.gardener.cloud",), "shootstates.core.gardener.cloud", True),
        (("*.core.gardener.cloud",), "shootstates.core.gardener.cloud", True),
        (("*.core.gardener.cloud",), "secrets", False),
        (("*.",), "configmaps", True),
        (("*.",), "deployments.apps", False),
        (("*.*",), "configmaps", True),
        (("*.*",), "deployments.apps", True),
    ],
)
def test_the_first_rule_for_a_kind_counts(resources: tuple[str, ...], table: str, encrypted: bool) -> None:
    encryption = Encryption(configuration(provider("aesgcm", "one"), resources=resources))
    assert encryption.encrypt(table, b"/a", b"{}").startswith(b"k8s:enc:") is encrypted


def test_an_earlier_key_reads_and_the_first_one_writes() -> None:
    old = Encryption(configuration(provider("aescbc", "old")))
    both = Encryption(configuration(provider("aesgcm", "new"), provider("aescbc", "old"), provider("identity")))
    stored = old.encrypt("secrets", b"/a", b"{}")
    assert both.decrypt("secrets", b"/a", stored) == b"{}"
    assert both.decrypt("secrets", b"/a", b"{}") == b"{}"
    assert both.is_stale("secrets", stored)
    assert both.is_stale("secrets", b"{}")
    assert not both.is_stale("secrets", both.encrypt("secrets", b"/a", b"{}"))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, "the encryption configuration is invalid"),
        ({"resources": []}, "the encryption configuration is invalid"),
        ({**configuration(provider("identity")), "kind": "Secret"}, "found kind 'Secret'"),
        (configuration({"aesgcm": {"keys": []}}), "the encryption configuration is invalid"),
        (
            configuration({"kms": {"name": "x"}}),
            r"resources\[0\].providers\[0\]: kms is not supported; allowed: aesgcm",
        ),
        (configuration({}), "found nothing; allowed: exactly one provider"),
        (configuration({**provider("identity"), **provider("aescbc", "x")}), "found aescbc and identity"),
        (configuration({"aescbc": {"keys": [{"name": "x", "secret": "?"}]}}), r"keys\[0\].secret: not base64-encoded"),
        (configuration({"aescbc": {"keys": [key("x", 17)]}}), "found 17 bytes; allowed: 16, 24, 32"),
        (configuration({"secretbox": {"keys": [key("x", 32)]}}), "secretbox is not supported; allowed: aesgcm"),
        (configuration({"aesgcm": {"keys": [{**key("x"), "name": "a:b"}]}}), "has a colon"),
    ],
)
def test_unusable_configuration_is_refused_by_field(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(EncryptionError, match=message) as caught:
        Encryption(tree)
    assert key("x")["secret"] not in str(caught.value)


def test_the_configuration_is_read_as_yaml(tmp_path: Path) -> None:
    file = tmp_path / "encryption.yaml"
    file.write_bytes(msgspec.yaml.encode(configuration(provider("aesgcm", "one"))))
    assert Encryption.read(file).encrypt("secrets", b"/a", b"{}").startswith(b"k8s:enc:aesgcm")
    file.write_text("- : [")
    with pytest.raises(EncryptionError, match="is not a valid encryption configuration"):
        Encryption.read(file)


@asynccontextmanager
async def opened(path: Path, *providers: dict[str, Any]) -> AsyncIterator[Client]:
    encryption = Encryption(configuration(*providers, resources=GARDEN)) if providers else None
    server = Server(SqliteStore(path, encryption), now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()
    try:
        yield Client(InProcessTransport(server))
    finally:
        await server.close()


def shoot_state(name: str = "x") -> dict[str, Any]:
    secret = {"name": "ca", "data": {"ca.key": ENCODED.decode()}}
    return {"metadata": {"name": name, "namespace": "default"}, "gardenlet": {"secrets": [secret]}}


def raw_bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


def in_clear(path: Path) -> bool:
    raw = raw_bytes(path)
    return any(text in raw for text in (CA_KEY, ENCODED, ENCODED[8:40], base64.b64encode(ENCODED)))


@pytest.mark.demand("G19")
@pytest.mark.parametrize("name", PROVIDERS)
async def test_no_key_of_shoot_state_is_in_file_of_store(tmp_path: Path, name: str) -> None:
    """G19."""
    path = tmp_path / "garden.db"
    async with opened(path, provider(name, "one")) as client:
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(ShootState))
        made = await client.create(ShootState.resource, shoot_state())
        await client.create(CONFIG_MAP, {"metadata": {"name": "plain", "namespace": "default"}, "data": {"a": "b"}})
        assert not in_clear(path)
    assert not in_clear(path)
    with sqlite3.connect(path) as connection:
        bodies = dict(connection.execute("SELECT name, body FROM log"))
    assert bodies["x"].startswith(f"k8s:enc:{name}:v1:one:".encode())
    assert bodies["plain"].startswith(b"{")
    async with opened(path, provider(name, "one")) as client:
        assert (await client.get(ShootState.resource, "x", "default")).raw == made.raw


@pytest.mark.demand("G19")
async def test_plain_data_are_encrypted_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "garden.db"
    async with opened(path) as client:
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(ShootState))
        await client.create(ShootState.resource, shoot_state())
        await client.create(
            SECRET, {"metadata": {"name": "s", "namespace": "default"}, "data": {"k": ENCODED.decode()}}
        )
    assert in_clear(path)
    async with opened(path, provider("aesgcm", "one"), provider("identity")) as client:
        assert not in_clear(path)
        assert (await client.get(ShootState.resource, "x", "default")).tree["gardenlet"] == shoot_state()["gardenlet"]


async def test_keys_are_exchanged_by_a_start_with_both(tmp_path: Path) -> None:
    path = tmp_path / "garden.db"
    async with opened(path, provider("aescbc", "old")) as client:
        await client.create(
            SECRET, {"metadata": {"name": "s", "namespace": "default"}, "data": {"k": ENCODED.decode()}}
        )
    async with opened(path, provider("aesgcm", "new"), provider("aescbc", "old")):
        pass
    async with opened(path, provider("aesgcm", "new")) as client:
        assert (await client.get(SECRET, "s", "default")).tree["data"] == {"k": ENCODED.decode()}
    async with opened(path, provider("identity"), provider("aesgcm", "new")):
        pass
    async with opened(path) as client:
        assert (await client.get(SECRET, "s", "default")).tree["data"] == {"k": ENCODED.decode()}


@pytest.mark.parametrize("providers", [(), ({"aesgcm": {"keys": [key("other")]}},)])
async def test_missing_key_starts_and_changes_nothing(tmp_path: Path, providers: tuple[dict[str, Any], ...]) -> None:
    path = tmp_path / "garden.db"
    async with opened(path, provider("aesgcm", "one")) as client:
        await client.create(
            SECRET, {"metadata": {"name": "s", "namespace": "default"}, "data": {"k": ENCODED.decode()}}
        )
    with sqlite3.connect(path) as connection:
        before = connection.execute("SELECT * FROM log").fetchall()
    message = "/registry/secrets/default/s is stored with provider aesgcm and key 'one'"
    with pytest.raises(Unusable, match=message):
        async with opened(path, *providers):
            pass
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT * FROM log").fetchall() == before
