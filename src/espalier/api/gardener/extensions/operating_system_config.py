"""`extensions.gardener.cloud/v1alpha1 OperatingSystemConfig`: units and files of a shoot's machines, as user data."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

from msgspec import Meta

from espalier.api.gardener.extensions.extension import (
    COLUMNS,
    Extended,
    ExtensionSpec,
    ExtensionStatus,
    extension_kind,
)
from espalier.api.gardener.vocabulary.operations import SecretReference
from espalier.api.kinds import ATOMIC, Column, listing
from espalier.api.meta import Observed, Part

PROVISION = "provision"
"""Purpose: the first start of a machine."""


BOOTSTRAP_KUBECONFIG = "/var/lib/kubelet/kubeconfig-bootstrap"
"""Path of the kubeconfig with which a kubelet joins its cluster."""

KUBELET_CONFIG = "/var/lib/kubelet/config/kubelet"
"""Path of the file with a kubelet's configuration."""

KUBELET_CLIENT_CA = "/var/lib/kubelet/ca.crt"
"""Path of the file with the authority that signs certificates of a kubelet's clients."""

BOOTSTRAP_TOKEN = "<<BOOTSTRAP_TOKEN>>"  # noqa: S105  no token
"""Stands in user data for the token with which a new node joins: a machine controller manager puts one in its place."""


class Unit(Part):
    """A systemd unit."""

    name: str
    command: str = ""
    enable: bool | None = None
    content: str = ""


class InlineContent(Part):
    """Content of a file, encoded as it says: plain if empty, or b64."""

    data: str
    encoding: str = ""


class FileContent(Part):
    """Content of a file."""

    inline: InlineContent | None = None


class File(Part):
    """A file of a machine."""

    path: str
    content: FileContent
    permissions: int | None = None


class OperatingSystemConfigSpec(ExtensionSpec):
    """Units and files of machines."""

    purpose: str = ""
    units: Annotated[list[Unit], Meta(extra_json_schema=listing("name"))] = []
    files: Annotated[list[File], Meta(extra_json_schema=listing("path"))] = []


class CloudConfig(Observed, frozen=True):
    """The user data that was made."""

    secret_ref: SecretReference


class OperatingSystemConfigStatus(ExtensionStatus, frozen=True):
    """Observed state: the user data, and units and files that the type adds."""

    cloud_config: CloudConfig | None = None
    extension_units: Annotated[list[Unit], Meta(extra_json_schema=ATOMIC)] = []
    extension_files: Annotated[list[File], Meta(extra_json_schema=ATOMIC)] = []


@extension_kind(
    COLUMNS[0],
    Column("Purpose", ".spec.purpose", "string", "provision or reconcile"),
    *COLUMNS[1:],
    short_names=("osc",),
)
class OperatingSystemConfig(Extended, kw_only=True):
    """Units and files of machines."""

    spec: OperatingSystemConfigSpec
    status: OperatingSystemConfigStatus = OperatingSystemConfigStatus()
