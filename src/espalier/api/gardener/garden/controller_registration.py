"""`core.gardener.cloud/v1beta1 ControllerRegistration`: kinds and types that an extension is responsible for."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.gardener.garden.shoot import GROUP, VERSION
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject, kind
from espalier.api.meta import Part
from espalier.api.resource import Resource


class Lifecycle(Part):
    """When Extensions of a type are acted on. An absent strategy is Gardener's default."""

    reconcile: str | None = None
    delete: str | None = None
    migrate: str | None = None


class ControllerResource(Part):
    """A kind and type of `extensions.gardener.cloud`."""

    kind: str
    type: str
    primary: Annotated[
        bool | None, Meta(description="False if another registration owns the type; true if absent.")
    ] = None
    globally_enabled: Annotated[bool | None, Meta(description="For kind Extension: all shoots have it.")] = None
    lifecycle: Lifecycle = msgspec.field(default_factory=Lifecycle)


class ControllerRegistrationSpec(Part):
    """The kinds and types that an extension is responsible for."""

    resources: Annotated[list[ControllerResource], Meta(extra_json_schema=ATOMIC)] = []


@kind(
    Resource(GROUP, VERSION, "controllerregistrations", "ControllerRegistration", namespaced=False),
    columns=(Column("Resources", ".spec.resources[*].type", "string", "Types"), AGE),
    partly=True,
)
class ControllerRegistration(KubeObject):
    """Kinds and types that an extension is responsible for."""

    spec: ControllerRegistrationSpec = msgspec.field(default_factory=ControllerRegistrationSpec)
