"""The metadata every object carries, and conditions (`meta/v1` of Kubernetes)."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, field

ABSENT: Any = None
"""Default of a field of type `Raw`. `Raw | None` would mean "null only" to msgspec; absent is still None."""


class Part(Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Base of every piece of an object: camelCase on the wire, absent when it has its default."""


class Observed(Struct, rename="camel", omit_defaults=True, frozen=True):
    """Base of what controllers report. Readers share it, so it is replaced and never mutated."""


class OwnerReference(Part):
    """An owner of an object; garbage collection removes the object once all owners are gone."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Part):
    """`metadata` of an object. `managed_fields` stays undecoded: it is rarely needed, and the largest part."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []
    managed_fields: Raw = ABSENT


class Condition(Part):
    """`metav1.Condition`: an observation about an object, with a reason for machines and a message for people."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Meta(description="CamelCase word that programs may rely on.")]
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class Head(Part):
    """The start of any object: enough to route and index it without looking at the rest."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated names: without vowels and what looks alike, so they spell no words."""

Tree = dict[str, Any]
"""A decoded JSON object that has no type here."""
