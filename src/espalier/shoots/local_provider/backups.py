"""BackupBucket and BackupEntry: buckets in real stores, and the Secrets by which agents reach them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from espalier.api.core import NAMESPACE, SECRET, Secret
from espalier.api.gardener import names
from espalier.api.gardener.extensions.extension_backups import BackupBucket, BackupEntry, BackupEntrySpec
from espalier.api.gardener.vocabulary.operations import ErrorCode, OperationType, SecretReference
from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Key
from espalier.api.trees import json_trees
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer, found_by_owner
from espalier.shoots.bucket_providers import (
    BUCKET,
    ENDPOINT,
    URL,
    BucketCapabilities,
    BucketConfig,
    BucketProviders,
    BucketStatus,
    endpoint_fault,
    url_fault,
    with_endpoint,
)
from espalier.shoots.extension import Extension, OperationFailed, Request, Result, StatelessActuator
from espalier.shoots.local_provider.cloud import TYPE

BUCKET_NAME = "bucketName"
"""Key of the Secrets `etcd-backup` and `source-etcd-backup`, besides `URL` and those of the credentials, which may also
have an `ENDPOINT`."""
DECLARED: BucketProviders = {TYPE: BucketCapabilities(uses_bucket_config=True)}


class Stores(Protocol):
    """The object stores, by URL. Raises `OperationFailed`."""

    async def ensure_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        """Create the bucket of this URL, unless it exists."""

    async def delete_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        """Delete the bucket of this URL with everything in it. A missing bucket is no error."""

    async def delete_folder(self, url: str, folder: str, credentials: Mapping[str, bytes]) -> None:
        """Delete everything below a folder of a bucket."""


class BackupBucketActuator(StatelessActuator[None]):
    """Manages the bucket of a seed. It belongs to no shoot, and needs no lease."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def reconcile(self, request: Request[None]) -> Result[None] | Wait:
        """Create the bucket, and report its URL."""
        config, credentials = await self._begin(request)
        await request.call(self._stores.ensure_bucket, config.url, credentials)
        return Result(
            status={"providerStatus": {"url": config.url} | ({ENDPOINT: config.endpoint} if config.endpoint else {})}
        )

    async def delete(self, request: Request[None]) -> Wait | None:
        """Delete the bucket with all backups."""
        config, credentials = await self._begin(request)
        await request.call(self._stores.delete_bucket, config.url, credentials)
        return None

    async def _begin(self, request: Request[None]) -> tuple[BucketConfig, Mapping[str, bytes]]:
        spec = request.object.decode(BackupBucket).spec
        config = json_trees.decode(spec.provider_config or b"{}", BucketConfig)
        url = config.url.replace(BUCKET, request.object.name)
        missing = f"found no {BUCKET} in it, allowed: a URL with {BUCKET}, as s3://{BUCKET}"
        if fault := url_fault(url, request.object.name) if BUCKET in config.url else missing:
            raise OperationFailed(f"spec.providerConfig.url: {fault}", ErrorCode.CONFIGURATION)
        if fault := endpoint_fault(config.endpoint):
            raise OperationFailed(f"spec.providerConfig.endpoint: {fault}", ErrorCode.CONFIGURATION)
        credentials = with_endpoint(await _credentials(request, spec.secret_ref), config.endpoint)
        return BucketConfig(url, config.endpoint), credentials


class BackupEntryActuator(StatelessActuator[None]):
    """The Secret by which an agent reaches a bucket, in the shoot's namespace."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def reconcile(self, request: Request[None]) -> Result[None] | Wait:
        """Apply the Secret, with the present credentials."""
        spec = request.object.decode(BackupEntry).spec
        namespace = technical_id_of(request.object)
        live_namespace = await request.read(NAMESPACE, Key("", namespace))
        if live_namespace is None or live_namespace.metadata.deletion_timestamp is not None:
            return Result()  # the namespace is gone, or not created yet: then the entry is reconciled again
        bucket = _bucket(spec)
        credentials = with_endpoint(await _credentials(request, spec.secret_ref), bucket.endpoint)
        data = {**credentials, BUCKET_NAME: spec.bucket_name.encode(), URL: bucket.url.encode()}
        key = Key(namespace, secret_name(request.object))
        live = await request.read(SECRET, key)
        if live is None:
            secret = Secret(metadata=ObjectMeta(name=key.name, namespace=namespace), type="Opaque", data=data)
            await request.writer.create(SECRET, secret)
        else:
            removed: dict[str, Any] = {name: None for name in live.decode(Secret).data if name not in data}
            await request.writer.merge(SECRET, live, {"data": {**msgspec.to_builtins(data), **removed}})
        return Result()

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        """Nothing to do: the agent needs the Secret until the shoot's namespace is deleted, and the Secret with it."""
        return None

    async def delete(self, request: Request[None]) -> Wait | None:
        """Delete the Secret; and the shoot's backups, unless they are those of the seed from which a shoot comes."""
        spec = request.object.decode(BackupEntry).spec
        if not names.is_source_backup_entry(request.object.name):
            bucket = _bucket(spec)
            credentials = with_endpoint(await _credentials(request, spec.secret_ref), bucket.endpoint)
            await request.call(self._stores.delete_folder, bucket.url, request.object.name, credentials)
        live = await request.read(SECRET, Key(technical_id_of(request.object), secret_name(request.object)))
        if live is not None:
            await request.writer.delete(SECRET, live, found_by_owner)
        return None


def technical_id_of(entry: Object) -> str:
    """The technical ID of a BackupEntry's shoot, from its name."""
    return names.original_backup_entry(entry.name).rpartition("--")[0]


def secret_name(entry: Object) -> str:
    """The name of a BackupEntry's Secret in the shoot's namespace."""
    return names.SOURCE_BACKUP_SECRET if names.is_source_backup_entry(entry.name) else names.BACKUP_SECRET


def _bucket(spec: BackupEntrySpec) -> BucketStatus:
    status = json_trees.decode(spec.backup_bucket_provider_status or b"{}", BucketStatus)
    if not status.url or not spec.bucket_name:
        message = "spec.backupBucketProviderStatus: found no url; allowed: status.providerStatus of the BackupBucket"
        raise OperationFailed(f"{message}; wait until it is ready", ErrorCode.RETRYABLE_CONFIGURATION)
    if fault := url_fault(status.url, spec.bucket_name):
        raise OperationFailed(f"spec.backupBucketProviderStatus.url: {fault}", ErrorCode.CONFIGURATION)
    if fault := endpoint_fault(status.endpoint):
        raise OperationFailed(f"spec.backupBucketProviderStatus.endpoint: {fault}", ErrorCode.CONFIGURATION)
    return status


async def _credentials(request: Request[None], reference: SecretReference | None) -> Mapping[str, bytes]:
    """The content of a bucket's Secret; empty if none is named: a folder needs none."""
    if reference is None or not reference.name:
        return {}
    key = Key(reference.namespace or names.GARDEN_NAMESPACE, reference.name)
    secret = await request.read(SECRET, key)
    if secret is None:
        message = f"spec.secretRef: Secret {key} does not exist; create it with the credentials of the bucket"
        raise OperationFailed(message, ErrorCode.UNAUTHENTICATED, reason=ExtensionReason.CREDENTIALS_MISSING)
    return secret.decode(Secret).data


def extensions(stores: Stores) -> tuple[Extension[None], ...]:
    """The extensions for both kinds."""
    unleased = (OperationType.CREATE, OperationType.RECONCILE, OperationType.RESTORE)
    return (
        Extension(BackupBucket.resource, TYPE, BackupBucketActuator(stores), cluster_of=lambda _object: ""),
        Extension(
            BackupEntry.resource, TYPE, BackupEntryActuator(stores), cluster_of=technical_id_of, unleased=unleased
        ),
    )
