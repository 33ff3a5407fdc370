"""AWSDatacenterConfig: of an early EKS Anywhere, which never made clusters on EC2. Manifests still have it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.eksa.declaring import eksa_kind
from espalier.api.kinds import AGE, Column, KubeObject
from espalier.api.meta import Observed, Part


class AWSDatacenterConfigSpec(Part):
    """Where machines would be. Nothing reads it."""

    region: Annotated[str, Meta(description="AWS region, like us-west-2.")]
    ami_id: Annotated[str, Meta(description="Image of the machines.")] = msgspec.field(name="amiID")


class AWSDatacenterConfigStatus(Observed, frozen=True):
    """Empty: no status is reported."""


@eksa_kind(Column("Region", ".spec.region", "string", "AWS region"), AGE)
class AWSDatacenterConfig(KubeObject, kw_only=True):
    """A datacenter of AWS. Legacy: it is stored, but nothing reads it, and Clusters that name it are refused."""

    spec: AWSDatacenterConfigSpec
    status: AWSDatacenterConfigStatus = AWSDatacenterConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (AWSDatacenterConfig,)
