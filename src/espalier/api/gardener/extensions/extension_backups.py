"""`extensions.gardener.cloud/v1alpha1` BackupBucket and BackupEntry: what a provider does for the garden's ones."""

from typing import Annotated

from msgspec import Meta

from espalier.api.gardener.extensions.extension import (
    COLUMNS,
    Extended,
    ExtensionSpec,
    ExtensionStatus,
    extension_kind,
)
from espalier.api.gardener.extensions.infrastructure import REGION_COLUMN
from espalier.api.gardener.vocabulary.operations import RawExtension, SecretReference
from espalier.api.kinds import Column
from espalier.api.meta import ABSENT


class BackupBucketSpec(ExtensionSpec):
    """Desired bucket."""

    region: str = ""
    secret_ref: Annotated[SecretReference | None, Meta(description="Credentials of the provider.")] = None


class BackupBucketStatus(ExtensionStatus, frozen=True):
    """Observed bucket."""

    generated_secret_ref: SecretReference | None = None


@extension_kind(COLUMNS[0], REGION_COLUMN, *COLUMNS[1:], short_names=("bb",), namespaced=False)
class BackupBucket(Extended, kw_only=True):
    """A bucket for the backups of a seed's shoots."""

    spec: BackupBucketSpec
    status: BackupBucketStatus = BackupBucketStatus()


class BackupEntrySpec(BackupBucketSpec):
    """Desired part of a bucket, for one shoot."""

    bucket_name: str = ""
    backup_bucket_provider_status: RawExtension = ABSENT


@extension_kind(
    COLUMNS[0],
    REGION_COLUMN,
    Column("Bucket", ".spec.bucketName", "string", "Bucket of the entry"),
    *COLUMNS[1:],
    plural="backupentries",
    short_names=("be",),
    namespaced=False,
)
class BackupEntry(Extended, kw_only=True):
    """A shoot's part of a bucket."""

    spec: BackupEntrySpec
