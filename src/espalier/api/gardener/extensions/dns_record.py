"""`extensions.gardener.cloud/v1alpha1 DNSRecord`: a name under which a shoot's API server or ingress is found."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.gardener.extensions.extension import (
    COLUMNS,
    Extended,
    ExtensionSpec,
    ExtensionStatus,
    extension_kind,
)
from espalier.api.gardener.vocabulary.operations import SecretReference
from espalier.api.kinds import ATOMIC, Column


class DNSRecordSpec(ExtensionSpec):
    """Desired record."""

    secret_ref: SecretReference = msgspec.field(default_factory=SecretReference)
    region: str = ""
    zone: str = ""
    name: Annotated[str, Meta(description="Fully qualified domain name.")] = ""
    record_type: Annotated[str, Meta(description="A, AAAA, CNAME or TXT.")] = ""
    values: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    ttl: Annotated[int | None, Meta(description="Time to live, in seconds.")] = None


class DNSRecordStatus(ExtensionStatus, frozen=True):
    """Observed record."""

    zone: str = ""


@extension_kind(
    COLUMNS[0],
    Column("Domain Name", ".spec.name", "string", "Fully qualified domain name"),
    Column("Record Type", ".spec.recordType", "string", "Type of the record"),
    *COLUMNS[1:],
    short_names=("dns",),
)
class DNSRecord(Extended, kw_only=True):
    """A record of the domain name system."""

    spec: DNSRecordSpec
    status: DNSRecordStatus = DNSRecordStatus()
