"""`core.gardener.cloud/v1alpha1 ShootState`: all that is needed to recreate a shoot's control plane, except etcd.

It is in the garden, under the name of its Shoot, and holds keys: project members can't read it. Sections are those of
the proposal "Shoot Control Plane Migration". Extension state that is too large for an object is in Secrets of namespace
`shoot-states`.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.definitions.reference import Finalizer, Writer
from espalier.api.gardener.garden.shoot import GROUP
from espalier.api.gardener.vocabulary.operations import RawExtension
from espalier.api.kinds import AGE, ATOMIC, KubeObject, kind, listing
from espalier.api.meta import ABSENT, Part
from espalier.api.resource import Resource

VERSION = "v1alpha1"

FINALIZER: Annotated[
    str,
    Finalizer(
        "Shoot, BackupEntry, ShootState",
        Writer.GARDENLET,
        "Keeps a Shoot until everything of it is deleted, its ShootState until then, and a BackupEntry until "
        "its extension resource is gone.",
        "if the seed is lost for good: [migration.md](../../migration.md#what-can-happen)",
    ),
] = "gardener"


class PersistedSecret(Part):
    """A secret that is generated once in a shoot's life: data in base64, as in a Secret."""

    name: Annotated[str, Meta(description="Name of the Secret in the shoot's namespace in the seed.")]
    data: Annotated[dict[str, str], Meta(description="Values in base64, by key.")] = {}
    type: Annotated[str, Meta(description="Type of the Secret in the seed; Opaque if absent.")] = ""
    labels: dict[str, str] = {}


class GardenletState(Part):
    """State of the gardenlet."""

    secrets: Annotated[list[PersistedSecret], Meta(extra_json_schema=listing("name"))] = []


class StateReference(Part):
    """State that is in Secrets of namespace shoot-states: their pieces in this order are its JSON, compressed."""

    secrets: Annotated[list[str], Meta(description="Names of the Secrets.", extra_json_schema=ATOMIC)]
    size: Annotated[int, Meta(ge=0, description="Bytes of the state's JSON.")]
    sha256: Annotated[str, Meta(description="Digest of the state's JSON, in hexadecimal.")]


class ExtensionState(Part):
    """State of one extension resource: `state`, or a reference to it."""

    kind: Annotated[str, Meta(description="Kind of the resource, in group extensions.gardener.cloud.")]
    name: Annotated[str, Meta(description="Name of the resource.")] = ""
    purpose: Annotated[str, Meta(description="Purpose of the resource, if its kind has one.")] = ""
    state: Annotated[RawExtension, Meta(description="Any JSON, as the extension wrote it.")] = ABSENT
    state_ref: StateReference | None = None
    epoch: Annotated[int, Meta(ge=0, description="Ownership epoch of the seed that wrote it.")] = 0
    outdated: Annotated[
        str, Meta(description="Why the resource's current state is missing. Such an entry restores nothing.")
    ] = ""


@kind(
    Resource(GROUP, VERSION, "shootstates", "ShootState"),
    columns=(AGE,),
    partly=True,
)
class ShootState(KubeObject):
    """All that is needed to recreate a shoot's control plane, except etcd."""

    gardenlet: GardenletState = msgspec.field(default_factory=GardenletState)
    extensions: Annotated[list[ExtensionState], Meta(extra_json_schema=ATOMIC)] = []
