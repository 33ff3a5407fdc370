"""`core.gardener.cloud/v1beta1` BackupBucket and BackupEntry: where backups of shoots' etcds are."""

from typing import Annotated

from msgspec import Meta

from espalier.api.gardener.garden.seed import CredentialsReference
from espalier.api.gardener.garden.shoot import GROUP, VERSION
from espalier.api.gardener.vocabulary.operations import LastError, LastOperation, RawExtension, SecretReference
from espalier.api.kinds import AGE, Column, KubeObject, kind
from espalier.api.meta import ABSENT, Observed, Part
from espalier.api.resource import Resource

STATUS_COLUMN = Column("Status", ".status.lastOperation.state", "string", "State of the last operation")
SEED_COLUMN = Column("Seed", ".spec.seedName", "string", "Responsible seed")


class BucketProvider(Part):
    """Infrastructure and region of a bucket."""

    type: str
    region: str = ""


class BackupBucketSpec(Part):
    """Desired bucket."""

    provider: BucketProvider
    seed_name: str | None = None
    credentials_ref: CredentialsReference | None = None
    secret_ref: Annotated[CredentialsReference | None, Meta(description="The older name of credentialsRef.")] = None
    provider_config: RawExtension = ABSENT


class BackupBucketStatus(Observed, frozen=True):
    """Observed bucket."""

    provider_status: RawExtension = ABSENT
    generated_secret_ref: SecretReference | None = None
    last_error: LastError | None = None
    last_operation: LastOperation | None = None
    observed_generation: int = 0


@kind(
    Resource(GROUP, VERSION, "backupbuckets", "BackupBucket", namespaced=False),
    short_names=("bb",),
    columns=(
        STATUS_COLUMN,
        SEED_COLUMN,
        Column("Provider", ".spec.provider.type", "string", "Type of the infrastructure"),
        Column("Region", ".spec.provider.region", "string", "Region of the provider"),
        AGE,
    ),
    status=True,
    partly=True,
)
class BackupBucket(KubeObject, kw_only=True):
    """The bucket of a seed: its name is the UID of the Seed."""

    spec: BackupBucketSpec
    status: BackupBucketStatus = BackupBucketStatus()


class BackupEntrySpec(Part):
    """Desired part of a bucket."""

    bucket_name: str
    seed_name: str | None = None


class BackupEntryStatus(Observed, frozen=True):
    """Observed part of a bucket."""

    last_error: LastError | None = None
    last_operation: LastOperation | None = None
    observed_generation: int = 0
    seed_name: str | None = None


@kind(
    Resource(GROUP, VERSION, "backupentries", "BackupEntry"),
    short_names=("be",),
    columns=(
        STATUS_COLUMN,
        SEED_COLUMN,
        Column("Bucket", ".spec.bucketName", "string", "Bucket of the entry"),
        AGE,
    ),
    status=True,
    partly=True,
)
class BackupEntry(KubeObject, kw_only=True):
    """A shoot's part of a bucket: `<technical ID>--<UID of the shoot>`; with `source-` before it, that of the seed
    which a shoot comes from."""

    spec: BackupEntrySpec
    status: BackupEntryStatus = BackupEntryStatus()
