"""The endpoint of a bucket: from the Seed through its bucket to the Secrets of agents."""

from __future__ import annotations

import pytest

from espalier.api.core import SECRET, Secret
from espalier.api.gardener.extensions.extension_backups import BackupBucket, BackupEntry
from espalier.api.meta import ObjectMeta
from espalier.runtime.virtual import Simulation
from espalier.shoots.bucket_providers import endpoint_fault, url_fault
from tests.support.environments.simulated_loop import simulate
from tests.support.gardens.clouds import new_world
from tests.support.gardens.extensions import SHOOT, failed, succeeded
from tests.support.gardens.local_provider_cases import ENTRY

ENDPOINT = "https://store.example:9000"


@pytest.mark.parametrize("endpoint", ["", "http://a", "https://10.0.0.1:9000/storage/v1", "https://[2001:db8::1]:443"])
def test_an_endpoint_is_an_http_or_https_url(endpoint: str) -> None:
    assert endpoint_fault(endpoint) == ""


@pytest.mark.parametrize(
    "endpoint",
    [
        *("a", "//a", "ftp://a", "file:///etc", "https://", "https://:443", "https://a:0", "https://a:99999"),
        *("https://[::1", "https://a?b", "https://a#b", "https://a b", "https://a\n", "https://ä", "https://a\\b"),
        *("https://rosebud@a", "https://user:rosebud@a", f"https://{'a' * 300}"),
    ],
)
def test_other_values_are_refused_without_a_password(endpoint: str) -> None:
    fault = endpoint_fault(endpoint)
    assert "allowed: an http or https URL without credentials, query and fragment" in fault
    assert "rosebud" not in fault
    assert len(fault) < 300


@pytest.mark.parametrize("own", ["", "https://own.example"])
def test_agents_get_the_endpoint_of_the_bucket(own: str) -> None:
    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        data = {"accessKeyID": b"rose", **({"endpoint": own.encode()} if own else {})}
        await seed.client.create(SECRET, Secret(metadata=ObjectMeta(name="backup", namespace=SHOOT), data=data))
        reference = {"name": "backup", "namespace": SHOOT}
        config = {"url": "s3://{bucket}", "endpoint": ENDPOINT}
        bucket = {"type": "local", "secretRef": reference, "providerConfig": config}
        async with world.extensions("a"):
            await seed.make(BackupBucket.resource, "bucket-1", bucket, asks="reconcile")
            made = await seed.until(BackupBucket.resource, "bucket-1", succeeded("Create"))
            status = made["status"]["providerStatus"]
            assert status == {"url": "s3://bucket-1", "endpoint": ENDPOINT}
            entry = {"type": "local", "bucketName": "bucket-1", "secretRef": reference}
            entry["backupBucketProviderStatus"] = status
            await seed.make(BackupEntry.resource, ENTRY, entry, asks="reconcile")
            await seed.until(BackupEntry.resource, ENTRY, succeeded("Create"))
        secret = (await seed.client.get(SECRET, "etcd-backup", SHOOT)).decode(Secret)
        assert secret.data["endpoint"].decode() == (own or ENDPOINT)

    simulate(story)


@pytest.mark.parametrize("url", ["s3://b-1", "gs://all/of-b-1/x", "file:///mnt/b-1"])
def test_a_url_of_a_bucket_has_its_name_in_it(url: str) -> None:
    assert url_fault(url, "b-1") == ""


@pytest.mark.parametrize(
    "url",
    [
        *("", "b-1", "/b-1", "s3://b-2", "file:///etc", "file:///b-1/../etc", "s3://[b-1", "s3://b-1?a", "s3://b-1#a"),
        *("s3://b-1 ", "s3://b-1\n", "s3://ä/b-1", "s3://user:rosebud@b-1", f"s3://b-1/{'a' * 300}"),
    ],
)
def test_other_place_is_refused_without_a_password(url: str) -> None:
    fault = url_fault(url, "b-1")
    assert "allowed: a URL of bucket b-1, as s3://b-1" in fault
    assert "rosebud" not in fault
    assert len(fault) < 300


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"url": "s3://{bucket}", "endpoint": "ftp://a"}, "endpoint: found 'ftp://a', allowed: an http or https URL"),
        ({"url": "file:///backups/{bucket}/../.."}, "url: found 'file:///backups/bucket-1/../..', allowed: a URL of"),
        ({"url": "s3://all"}, "url: found no {bucket} in it, allowed: a URL with {bucket}, as s3://{bucket}"),
    ],
)
def test_a_bucket_with_a_bad_place_names_the_field(config: dict[str, str], says: str) -> None:
    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        spec = {"type": "local", "providerConfig": config}
        async with world.extensions("a"):
            await seed.make(BackupBucket.resource, "bucket-1", spec, asks="reconcile")
            told = await seed.until(BackupBucket.resource, "bucket-1", failed)
        description = told["status"]["lastError"]["description"]
        assert f"spec.providerConfig.{says}" in description
        assert world.stores.log == []

    simulate(story)


def test_entry_of_another_place_gets_no_secret() -> None:
    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        entry = {"type": "local", "bucketName": "bucket-1", "backupBucketProviderStatus": {"url": "file:///etc"}}
        async with world.extensions("a"):
            await seed.make(BackupEntry.resource, ENTRY, entry, asks="reconcile")
            told = await seed.until(BackupEntry.resource, ENTRY, failed)
            assert (
                "spec.backupBucketProviderStatus.url: found 'file:///etc'" in told["status"]["lastError"]["description"]
            )
            assert await seed.find(SECRET, "etcd-backup") is None

    simulate(story)
