"""BackupBucket and BackupEntry: buckets in real stores, and the Secrets by which agents reach them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

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

BUCKET_NAME, URL, ENDPOINT = "bucketName", "url", "endpoint"
"""Keys of the Secrets `etcd-backup` and `source-etcd-backup`, besides those of the credentials, which may also have an
endpoint."""
LONGEST_URL = 300
BUCKET = "{bucket}"


class Stores(Protocol):
    """The object stores, by URL. Raises `OperationFailed`."""

    async def ensure_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        """Create the bucket of this URL, unless it exists."""

    async def delete_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        """Delete the bucket of this URL with everything in it. A missing bucket is no error."""

    async def delete_folder(self, url: str, folder: str, credentials: Mapping[str, bytes]) -> None:
        """Delete everything below a folder of a bucket."""


class BucketConfig(Observed, frozen=True):
    """`spec.providerConfig` of a BackupBucket: the URL of buckets, as `s3://{bucket}` or `file:///backups/{bucket}`."""

    url: str = ""
    endpoint: str = ""
    """URL of their server, where it is not the provider's own."""


class BucketStatus(Observed, frozen=True):
    """`status.providerStatus` of a BackupBucket, which gardenlets pass on to BackupEntries."""

    url: str = ""
    endpoint: str = ""


def endpoint_fault(endpoint: str) -> str:
    """The problem of an endpoint; empty if there is none, or no endpoint. It never repeats a password."""
    if not endpoint:
        return ""
    allowed = "allowed: an http or https URL without credentials, query and fragment"
    try:
        split = urlsplit(endpoint)
        is_url = split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
    except ValueError:  # its port, or what is in brackets
        return f"found no URL, {allowed}"
    if "@" in endpoint:
        return f"found credentials in it, {allowed}; put them into the Secret"
    if not (is_url and _is_plain(endpoint)):
        return f"found {endpoint[:100]!r}, {allowed}, of at most {LONGEST_URL} characters"
    return ""


def url_fault(url: str, bucket: str) -> str:
    """The problem of a bucket's URL; empty if there is none. It never repeats a password."""
    allowed = f"allowed: a URL of bucket {bucket}, as s3://{bucket}, of at most {LONGEST_URL} characters"
    try:
        split = urlsplit(url)
    except ValueError:  # what is in brackets
        return f"found no URL, {allowed}"
    if "@" in url:
        return f"found credentials in it, {allowed}; put them into the Secret"
    is_place = split.scheme and bucket in split.netloc + split.path and ".." not in split.path.split("/")
    return "" if is_place and _is_plain(url) else f"found {url[:100]!r}, {allowed}"


def _is_plain(url: str) -> bool:
    return len(url) <= LONGEST_URL and url.isascii() and url.isprintable() and not set(url) & set(" ?#\\")


def with_endpoint(credentials: Mapping[str, bytes], endpoint: str) -> Mapping[str, bytes]:
    """The files of credentials as clients of the store get them: with this endpoint, unless they have one."""
    return credentials if credentials.get(ENDPOINT) or not endpoint else {**credentials, ENDPOINT: endpoint.encode()}


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
        found = await request.read(NAMESPACE, Key("", namespace))
        if found is None or found.metadata.deletion_timestamp is not None:
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
        raise OperationFailed(message, ErrorCode.UNAUTHENTICATED, reason="CredentialsMissing")
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
