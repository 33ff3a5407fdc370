"""From a URL and files of credentials to a store: what is understood, and what is refused in which words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from espalier.etcdbackup.stores import clients, credentials
from espalier.etcdbackup.stores.credentials import CredentialFiles
from espalier.etcdbackup.stores.errors import Refused
from espalier.etcdbackup.stores.location import Kind, Location, parse
from espalier.etcdbackup.stores.opening import open_store

UNDERSTOOD = {
    "s3://bucket/shoot--a--b/etcd-main": Location(Kind.S3, "bucket", "shoot--a--b/etcd-main"),
    "s3://bucket": Location(Kind.S3, "bucket"),
    "gs://bucket/a/": Location(Kind.GCS, "bucket", "a"),
    "gcs://bucket/a": Location(Kind.GCS, "bucket", "a"),
    "az://container/a": Location(Kind.AZURE, "container", "a"),
    "abs://container/a": Location(Kind.AZURE, "container", "a"),
    "file:///var/backups/a%20b": Location(Kind.LOCAL, "/var/backups/a b"),
}


@pytest.mark.parametrize("url", UNDERSTOOD)
def test_a_url_is_a_location(url: str) -> None:
    assert parse(url) == UNDERSTOOD[url]


@pytest.mark.parametrize(
    "url",
    ["", "bucket/a", "/var/backups", "s3:///a", "swift://a/b", "file://host/a", "file://relative", "file:///a/../b",
     "s3://bucket/a//b", "s3://bucket/a/../b", "s3://bucket/a?region=b", "s3://bucket/a#b"],
)  # fmt: skip
def test_any_other_is_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(ValueError, match=r"STORE: found .*allowed"):
        parse(url)


def test_password_in_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="credentials come from files") as refused:
        parse("s3://key:rosebud@bucket/a")
    assert "rosebud" not in str(refused.value)


def test_a_url_is_said_as_it_is_parsed() -> None:
    for location in UNDERSTOOD.values():
        if location.kind is not Kind.LOCAL:
            assert parse(str(location)) == location


def files(folder: Path, **values: str) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    for name, value in values.items():
        (folder / name).write_text(value)
    return {"AWS_APPLICATION_CREDENTIALS": str(folder)}


async def refused(url: str, environ: dict[str, str], **options: bool) -> str:
    with pytest.raises(Refused) as raised:
        await open_store(url, environ, **options).head("a")  # type: ignore[arg-type]
    return str(raised.value)


async def test_folder_of_files_and_one_of_json_say_same(tmp_path: Path) -> None:
    files(tmp_path / "folder", accessKeyID="a", secretAccessKey="b\n", region="c", s3ForcePathStyle="true")
    tree = {"accessKeyID": "a", "secretAccessKey": "b", "region": "c", "s3ForcePathStyle": True, "other": [1]}
    (tmp_path / "aws.json").write_text(json.dumps(tree))
    of_folder = CredentialFiles(Kind.S3, tmp_path / "folder").load().values
    assert CredentialFiles(Kind.S3, tmp_path / "aws.json").load().values == of_folder


async def test_missing_parts_of_credentials_are_named(tmp_path: Path) -> None:
    environ = files(tmp_path / "aws", accessKeyID="a")
    assert "aws: found no secretAccessKey and no region; add it" in await refused("s3://bucket/a", environ)
    files(tmp_path / "aws", secretAccessKey="rosebud", region="c", s3ForcePathStyle="maybe", endpoint="http://a")
    assert "s3ForcePathStyle: found 'maybe'; allowed are true and false" in await refused("s3://bucket/a", environ)
    files(tmp_path / "aws", s3ForcePathStyle="true", endpoint="ftp://a")
    assert "found the endpoint 'ftp://a'; allowed is an http" in await refused("s3://bucket/a", environ)
    beside = files(tmp_path / "gcs", **{"serviceaccount.json": "{}", "endpoint": "ftp://b"})
    beside = {"GOOGLE_APPLICATION_CREDENTIALS": beside["AWS_APPLICATION_CREDENTIALS"]}
    assert "found the endpoint 'ftp://b'" in await refused("gs://bucket/a", beside), "as of any store"
    files(tmp_path / "aws", endpoint="http://127.0.0.1:1", sseCustomerKey="short")
    assert "sseCustomerKey: it has another length; allowed are 32 bytes" in await refused("s3://bucket/a", environ)
    files(tmp_path / "aws", sseCustomerKey="", trustedCaCert="no certificate")
    assert "its client can't be made" in await refused("s3://bucket/a", environ)
    environ = {"AZURE_APPLICATION_CREDENTIALS": environ["AWS_APPLICATION_CREDENTIALS"]}
    assert "found no storageAccount and no storageKey" in await refused("az://container/a", environ)


@pytest.mark.parametrize(
    ("values", "emulator", "endpoint"),
    [
        ({}, "", ""),
        ({"domain": "blob.example.org"}, "", "https://apples.blob.example.org"),
        ({"domain": "localhost:10000", "emulatorEnabled": "true"}, "", "http://localhost:10000/apples"),
        ({}, "http://localhost:10001/", "http://localhost:10001/apples"),
    ],
)
def test_the_endpoint_of_azure_is_of_its_domain(
    tmp_path: Path, values: dict[str, str], emulator: str, endpoint: str
) -> None:
    """Without one it is the provider's."""
    files(tmp_path / "azure", storageAccount="apples", storageKey="a", **values)
    document = CredentialFiles(Kind.AZURE, tmp_path / "azure").load()
    environ = {"AZURE_STORAGE_API_ENDPOINT": emulator}
    assert clients._Settings(parse("az://container/a"), document, environ, "").endpoint == endpoint


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "\x00", '{"type": 1'])
async def test_files_without_credentials_are_named_unquoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    assert "file.json" in await refused("s3://bucket/a", {"AWS_APPLICATION_CREDENTIALS_JSON": str(path)})
    await refused("gs://bucket/a", {"GOOGLE_APPLICATION_CREDENTIALS": str(path)})


async def test_files_of_the_wrong_kind_are_named(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"\xff" * 10)
    assert "binary: it is not text" in await refused("s3://bucket/a", {"AWS_APPLICATION_CREDENTIALS": str(path)})
    path.write_bytes(b" " * (credentials.LARGEST + 1))
    assert "binary: more than" in await refused("s3://bucket/a", {"AWS_APPLICATION_CREDENTIALS": str(path)})
    assert "none: the credentials can't be read: No such file" in await refused(
        "s3://bucket/a", {"AWS_APPLICATION_CREDENTIALS": str(tmp_path / "none")}
    )


def test_the_source_of_a_copy_has_variables_of_its_own(tmp_path: Path) -> None:
    environ = {"AWS_APPLICATION_CREDENTIALS": "/target", "SOURCE_AWS_APPLICATION_CREDENTIALS": "/source"}
    assert credentials.find(Kind.S3, environ).path == Path("/target")
    assert credentials.find(Kind.S3, environ, source=True).path == Path("/source")
    assert credentials.find(Kind.S3, {}, source=True).path is None


async def test_credentials_of_the_target_stay_from_source(tmp_path: Path) -> None:
    environ = files(tmp_path / "aws", accessKeyID="a", secretAccessKey="b", region="c")
    with pytest.raises(Refused, match=r"SOURCE_AWS_APPLICATION_CREDENTIALS is not"):
        open_store("s3://bucket/a", environ, source=True)


async def test_a_secret_that_kubernetes_swaps_is_seen(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "region").write_text(f"region-{version}")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "region").symlink_to("..data/region")
    credential_files = CredentialFiles(Kind.S3, tmp_path)
    first = credential_files.load()
    assert (first.values, first.stamp) == ({"region": "region-1"}, credential_files.stamp())
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert credential_files.stamp() != first.stamp
    assert credential_files.load().values == {"region": "region-2"}
