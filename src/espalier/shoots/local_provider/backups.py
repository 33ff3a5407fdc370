"""BackupBucket and BackupEntry: buckets in real stores, and the Secrets by which agents reach them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from espalier.api import json_trees
from espalier.api.core import NAMESPACE, SECRET, Secret
from espalier.api.gardener import names
from espalier.api.gardener.extension_backups import BackupBucket, BackupEntry, BackupEntrySpec
from espalier.api.gardener.operations import ErrorCode, OperationType, SecretReference
from espalier.api.meta import ObjectMeta, Observed
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.outcome import Wait
from espalier.runtime.writer import Writer, found_by_owner
from espalier.shoots.extension import Extension, OperationFailed, Request, Result, StatelessActuator
from espalier.shoots.local_provider.cloud import TYPE

BUCKET_NAME, URL = "bucketName", "url"
"""Keys of the Secrets `etcd-backup` and `source-etcd-backup`, beside the credentials."""
BUCKET = "{bucket}"


class Stores(Protocol):
    """The object stores, by URL. Raises `OperationFailed`."""

    async def ensure_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        """Create the bucket of this URL, unless it exists."""

    async def delete_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        """Delete it with everything in it. A missing bucket is no error."""

    async def delete_folder(self, url: str, folder: str, credentials: Mapping[str, bytes]) -> None:
        """Delete everything below a folder of it."""


class BucketConfig(Observed, frozen=True):
    """`spec.providerConfig` of a BackupBucket: the URL of buckets, as `s3://{bucket}` or `file:///backups/{bucket}`."""

    url: str = ""


class BucketStatus(Observed, frozen=True):
    """`status.providerStatus` of a BackupBucket, which gardenlets pass on to BackupEntries."""

    url: str = ""


class BackupBucketActuator(StatelessActuator[None]):
    """Manages the bucket of a seed. It belongs to no shoot, and needs no lease."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def reconcile(self, request: Request[None]) -> Result[None] | Wait:
        """Create the bucket, and report its URL."""
        url, credentials = await self._begin(request)
        await request.call(self._stores.ensure_bucket, url, credentials)
        return Result(status={"providerStatus": {"url": url}})

    async def delete(self, request: Request[None]) -> Wait | None:
        """Delete the bucket with all backups."""
        url, credentials = await self._begin(request)
        await request.call(self._stores.delete_bucket, url, credentials)
        return None

    async def _begin(self, request: Request[None]) -> tuple[str, Mapping[str, bytes]]:
        spec = request.object.decode(BackupBucket).spec
        config = json_trees.decode(spec.provider_config or b"{}", BucketConfig)
        if BUCKET not in config.url:
            found = f"spec.providerConfig.url: found {config.url[:100]!r}"
            raise OperationFailed(f"{found}, allowed: a URL with {BUCKET}, as s3://{BUCKET}", ErrorCode.CONFIGURATION)
        credentials = await _credentials(request, spec.secret_ref)
        return config.url.replace(BUCKET, request.object.name), credentials


class BackupEntryActuator(StatelessActuator[None]):
    """The Secret by which an agent reaches a bucket, in the shoot's namespace."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def reconcile(self, request: Request[None]) -> Result[None] | Wait:
        """Apply the Secret, with the present credentials."""
        spec = request.object.decode(BackupEntry).spec
        namespace = technical_id_of(request.object)
        found = await request.read(NAMESPACE, Key("", namespace))
        if found is None or found.metadata.deletion_timestamp is not None:
            return Result()  # as the shoot goes, or before it comes: the entry is reconciled again then
        url = _url(spec)
        credentials = await _credentials(request, spec.secret_ref)
        data = {**credentials, BUCKET_NAME: spec.bucket_name.encode(), URL: url.encode()}
        key = Key(namespace, secret_name(request.object))
        live = await request.read(SECRET, key)
        if live is None:
            secret = Secret(metadata=ObjectMeta(name=key.name, namespace=namespace), type="Opaque", data=data)
            await request.writer.create(SECRET, secret)
        else:
            gone: dict[str, Any] = {name: None for name in live.decode(Secret).data if name not in data}
            await request.writer.merge(SECRET, live, {"data": {**msgspec.to_builtins(data), **gone}})
        return Result()

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        """The agent of this seed runs until its etcd is given up: its Secret is deleted with the shoot's namespace."""
        return None

    async def delete(self, request: Request[None]) -> Wait | None:
        """Delete the Secret; and the shoot's backups, unless they are those of the seed from which a shoot comes."""
        spec = request.object.decode(BackupEntry).spec
        if not names.is_source_backup_entry(request.object.name):
            credentials = await _credentials(request, spec.secret_ref)
            await request.call(self._stores.delete_folder, _url(spec), request.object.name, credentials)
        live = await request.read(SECRET, Key(technical_id_of(request.object), secret_name(request.object)))
        if live is not None:
            await request.writer.delete(SECRET, live, found_by_owner)
        return None


def technical_id_of(entry: Object) -> str:
    """The shoot of a BackupEntry, by its name."""
    return names.original_backup_entry(entry.name).rpartition("--")[0]


def secret_name(entry: Object) -> str:
    """The Secret of a BackupEntry."""
    return names.SOURCE_BACKUP_SECRET if names.is_source_backup_entry(entry.name) else names.BACKUP_SECRET


def _url(spec: BackupEntrySpec) -> str:
    status = json_trees.decode(spec.backup_bucket_provider_status or b"{}", BucketStatus)
    if not status.url or not spec.bucket_name:
        message = "spec.backupBucketProviderStatus: found no url; allowed: status.providerStatus of the BackupBucket"
        raise OperationFailed(f"{message}; wait until it is ready", ErrorCode.RETRYABLE_CONFIGURATION)
    return status.url


async def _credentials(request: Request[None], reference: SecretReference | None) -> Mapping[str, bytes]:
    """The content of a bucket's Secret; empty if none is named: a folder needs none."""
    if reference is None or not reference.name:
        return {}
    key = Key(reference.namespace or names.GARDEN_NAMESPACE, reference.name)
    secret = await request.read(SECRET, key)
    if secret is None:
        message = f"spec.secretRef: Secret {key} does not exist; create it with the credentials of the bucket"
        raise OperationFailed(message, ErrorCode.UNAUTHENTICATED, reason="CredentialsMissing")
    return secret.decode(Secret).data


def extensions(stores: Stores) -> tuple[Extension[None], ...]:
    """The extensions for both kinds."""
    making = (OperationType.CREATE, OperationType.RECONCILE, OperationType.RESTORE)
    return (
        Extension(BackupBucket.resource, TYPE, BackupBucketActuator(stores), cluster_of=lambda _object: ""),
        Extension(BackupEntry.resource, TYPE, BackupEntryActuator(stores), cluster_of=technical_id_of, unleased=making),
    )
