"""The endpoint of a bucket: from the Seed through its bucket to the Secrets of agents."""

from __future__ import annotations

import pytest

from espalier.api.core import SECRET, Secret
from espalier.api.gardener.extension_backups import BackupBucket, BackupEntry
from espalier.api.meta import ObjectMeta
from espalier.runtime.virtual import Simulation
from espalier.shoots.local_provider.backups import endpoint_fault
from tests.support.clouds import new_world
from tests.support.extensions import SHOOT, failed, succeeded
from tests.unit.runtime.simulated import simulate
from tests.unit.shoots.local_provider.cases import ENTRY

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
def test_anything_else_is_refused_with_what_is_allowed_and_without_a_password(endpoint: str) -> None:
    fault = endpoint_fault(endpoint)
    assert "allowed: an http or https URL without credentials, query and fragment" in fault
    assert "rosebud" not in fault
    assert len(fault) < 300


@pytest.mark.parametrize("own", ["", "https://own.example"])
def test_agents_get_the_endpoint_of_the_bucket_unless_the_credentials_have_one(own: str) -> None:
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


def test_a_bucket_with_a_bad_endpoint_names_the_field() -> None:
    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        spec = {"type": "local", "providerConfig": {"url": "s3://{bucket}", "endpoint": "ftp://a"}}
        async with world.extensions("a"):
            await seed.make(BackupBucket.resource, "bucket-1", spec, asks="reconcile")
            told = await seed.until(BackupBucket.resource, "bucket-1", failed)
        said = told["status"]["lastError"]["description"]
        assert "spec.providerConfig.endpoint: found 'ftp://a', allowed: an http or https URL" in said
        assert world.stores.log == []

    simulate(story)
