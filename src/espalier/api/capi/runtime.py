"""`runtime.cluster.x-k8s.io/v1beta2`: ExtensionConfig, by which Cluster API finds runtime extensions."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, Any

from msgspec import Meta

from espalier.api.kinds import AGE, PRESERVE, KubeObject, kind, listing
from espalier.api.meta import Condition, Observed, Part
from espalier.api.resource import Resource

DISCOVERED = "Discovered"
"""Condition: Cluster API asked the extension which hooks it has, and calls them."""


class ExtensionService(Part):
    """A Service in front of an extension."""

    namespace: str
    name: str
    path: str = ""
    port: int | None = None


class ExtensionClient(Part):
    """Address of an extension (URL or Service), and the authority to trust."""

    url: str = ""
    service: ExtensionService | None = None
    ca_bundle: Annotated[str, Meta(description="Certificates in base64.")] = ""


class ExtensionConfigSpec(Part):
    """Settings for calls of an extension."""

    client_config: ExtensionClient
    namespace_selector: Annotated[dict[str, Any], Meta(extra_json_schema=PRESERVE)] = {}
    settings: dict[str, str] = {}


class ExtensionConfigStatus(Observed, frozen=True):
    """Discovery results of Cluster API."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []


@kind(
    Resource("runtime.cluster.x-k8s.io", "v1beta2", "extensionconfigs", "ExtensionConfig", namespaced=False),
    short_names=("ext",),
    categories=("cluster-api",),
    columns=(AGE,),
    status=True,
    partly=True,
)
class ExtensionConfig(KubeObject, kw_only=True):
    """A runtime extension of Cluster API."""

    spec: ExtensionConfigSpec
    status: ExtensionConfigStatus = ExtensionConfigStatus()
