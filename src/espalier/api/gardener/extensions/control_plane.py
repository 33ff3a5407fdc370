"""`extensions.gardener.cloud/v1alpha1 ControlPlane`: what a provider adds to a shoot's control plane."""

from typing import Annotated

from msgspec import Meta

from espalier.api.gardener.extensions.extension import COLUMNS, Extended, ExtensionSpec, extension_kind
from espalier.api.gardener.vocabulary.operations import RawExtension, SecretReference
from espalier.api.kinds import Column
from espalier.api.meta import ABSENT


class ControlPlaneSpec(ExtensionSpec):
    """Desired state of what a provider adds."""

    purpose: Annotated[str, Meta(description="normal or exposure; normal if absent.")] = ""
    region: str = ""
    secret_ref: Annotated[SecretReference | None, Meta(description="Credentials of the provider.")] = None
    infrastructure_provider_status: RawExtension = ABSENT


@extension_kind(
    COLUMNS[0],
    Column("Purpose", ".spec.purpose", "string", "Purpose of the ControlPlane"),
    *COLUMNS[1:],
    short_names=("cp",),
)
class ControlPlane(Extended, kw_only=True):
    """A provider's additions to a shoot's control plane."""

    spec: ControlPlaneSpec
