"""`extensions.gardener.cloud/v1alpha1`: parts of all extension kinds, and Extension itself.

Gardenlet writes `spec` into the shoot's namespace in the seed, the controller of the `type` acts and writes `status`.
Typed as far as we write or read them; the rest of a foreign object survives because we write by server-side apply.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.gardener.vocabulary.operations import (
    Condition,
    LastError,
    LastOperation,
    NamedReference,
    RawExtension,
)
from espalier.api.kinds import AGE, Column, KindsOf, KubeObject, listing
from espalier.api.meta import ABSENT, Observed, Part

GROUP = "extensions.gardener.cloud"
VERSION = "v1alpha1"

extension_kind = KindsOf(GROUP, VERSION, status=True, partly=True)

TYPE_COLUMN = Column("Type", ".spec.type", "string", "Type of the extension, which selects its controller")
STATUS_COLUMN = Column("Status", ".status.lastOperation.state", "string", "State of the last operation")
COLUMNS = (TYPE_COLUMN, STATUS_COLUMN, AGE)


class ExtensionSpec(Part):
    """The part of `spec` that all extension kinds have."""

    type: Annotated[str, Meta(description="Type of the extension, which selects its controller.")]
    class_: Annotated[str, Meta(description="Class of the responsible controllers; shoot by default.")] = msgspec.field(
        default="", name="class"
    )
    provider_config: Annotated[RawExtension, Meta(description="Settings specific to the type.")] = ABSENT


class ExtensionStatus(Observed, frozen=True):
    """The part of `status` that all extension kinds have."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    last_error: LastError | None = None
    last_operation: LastOperation | None = None
    observed_generation: int = 0
    provider_status: Annotated[RawExtension, Meta(description="Information for other resources of the provider.")] = (
        ABSENT
    )
    resources: Annotated[
        list[NamedReference],
        Meta(description="Objects that belong to the state.", extra_json_schema=listing("name")),
    ] = []
    state: Annotated[RawExtension, Meta(description="Any JSON that the extension needs to resume in another seed.")] = (
        ABSENT
    )


class Extended(KubeObject, kw_only=True):
    """Base of extension kinds: what the parts that serve all of them read."""

    spec: ExtensionSpec
    status: ExtensionStatus = ExtensionStatus()


@extension_kind(*COLUMNS, short_names=("ext",))
class Extension(Extended, kw_only=True):
    """A feature that a type adds to a shoot."""
