"""`core.gardener.cloud/v1beta1 ControllerInstallation`: the extension of a ControllerRegistration in one seed."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

from msgspec import Meta

from espalier.api.gardener.garden.shoot import GROUP, VERSION
from espalier.api.gardener.vocabulary.operations import Condition
from espalier.api.kinds import AGE, Column, KubeObject, kind, listing
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource

INSTALLED, HEALTHY = "Installed", "Healthy"
"""Conditions: the extension is deployed in the seed; its programs run there."""


class NamedReference(Part):
    """A cluster-scoped object, by name."""

    name: str


class ControllerInstallationSpec(Part):
    """Which extension is installed, and in which seed."""

    registration_ref: Annotated[NamedReference, Meta(description="The ControllerRegistration.")]
    seed_ref: Annotated[NamedReference, Meta(description="The Seed.")]


class ControllerInstallationStatus(Observed, frozen=True):
    """Observed state of an extension in a seed."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []


@kind(
    Resource(GROUP, VERSION, "controllerinstallations", "ControllerInstallation", namespaced=False),
    short_names=("ctrlinst",),
    columns=(
        Column("Registration", ".spec.registrationRef.name", "string", "Its ControllerRegistration"),
        Column("Seed", ".spec.seedRef.name", "string", "The seed"),
        AGE,
    ),
    status=True,
    partly=True,
)
class ControllerInstallation(KubeObject, kw_only=True):
    """The extension of a ControllerRegistration in one seed. Whoever installs extensions writes it, as Gardener does;
    a shoot is not moved to a seed where one that it needs is not installed."""

    spec: ControllerInstallationSpec
    status: ControllerInstallationStatus = ControllerInstallationStatus()
