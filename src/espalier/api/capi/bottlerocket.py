"""Fields of kubeadm's configuration by which EKS Anywhere's build of Cluster API makes machines with Bottlerocket.

Stock Cluster API does not have them. Typed as far as we write them.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

from msgspec import Meta

from espalier.api.eksa.parts.host_os import BottlerocketConfiguration
from espalier.api.kinds import ATOMIC
from espalier.api.meta import Part

FORMAT = "bottlerocket"
"""Value of `format`: machines get settings in TOML, where others get documents of cloud-init."""


class ImageParts(Part):
    """A container image in two parts."""

    image_repository: str = ""
    image_tag: str = ""


class BootstrapContainer(Part, kw_only=True):
    """A container that the machine runs when it boots, before anything else."""

    name: str
    image_repository: str = ""
    image_tag: str = ""
    essential: bool | None = None
    mode: str
    user_data: str = ""


class CertBundle(Part):
    """Certificates that the machine trusts."""

    name: str
    data: str


class Proxy(Part):
    """HTTP proxy of the machine."""

    https_proxy: str = ""
    no_proxy: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class Mirror(Part):
    """Where images of a registry are pulled from."""

    registry: str = ""
    endpoints: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class RegistryMirror(Part):
    """`endpoint` stands in for public.ecr.aws; `mirrors` for any registries."""

    endpoint: str = ""
    ca_cert: str = ""
    mirrors: Annotated[list[Mirror], Meta(extra_json_schema=ATOMIC)] = []


class BottlerocketFields(Part, kw_only=True):
    """The fields of kubeadm's ClusterConfiguration and JoinConfiguration in that build: the first counts for the
    machine that begins a control plane, the second for every other."""

    bottlerocket: BottlerocketConfiguration | None = None
    bottlerocket_admin: ImageParts | None = None
    bottlerocket_bootstrap: ImageParts | None = None
    bottlerocket_control: ImageParts | None = None
    bottlerocket_custom_bootstrap_containers: Annotated[list[BootstrapContainer], Meta(extra_json_schema=ATOMIC)] = []
    cert_bundles: Annotated[list[CertBundle], Meta(extra_json_schema=ATOMIC)] = []
    pause: ImageParts | None = None
    proxy: Proxy | None = None
    registry_mirror: RegistryMirror | None = None
