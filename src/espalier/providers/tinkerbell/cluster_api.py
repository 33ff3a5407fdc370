"""`infrastructure.cluster.x-k8s.io/v1beta1`: the kinds of Cluster API's provider for Tinkerbell (CAPT).

Typed as far as we write or read them. They keep contract v1beta1, the only contract that CAPT supports.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.capi.cluster import Endpoint
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject
from espalier.api.label_selectors import AtomicSelector
from espalier.api.meta import Part
from espalier.clusterapi.infrastructures import infrastructure_kinds as contract
from espalier.clusterapi.infrastructures.infrastructure import Hosts, Infrastructure
from espalier.kube.objects import Object
from espalier.providers.tinkerbell.hardware_kinds import OWNER_NAME, OWNER_NAMESPACE, Hardware

VERSION = "v1beta1"
declared = contract.declares(VERSION, "v1beta1")

READY = Column("Ready", ".status.ready", "string", "True if it is provisioned")


class TinkerbellClusterSpec(Part):
    """The spec of a TinkerbellCluster."""

    control_plane_endpoint: Endpoint | None = None
    image_lookup_format: str | None = None
    image_lookup_base_registry: str | None = None
    image_lookup_os_distro: str | None = msgspec.field(default=None, name="imageLookupOSDistro")
    image_lookup_os_version: str | None = msgspec.field(default=None, name="imageLookupOSVersion")


@declared(contract.CLUSTER_COLUMN, READY, AGE, status=True)
class TinkerbellCluster(KubeObject, kw_only=True):
    """The infrastructure of a cluster on bare metal."""

    spec: TinkerbellClusterSpec = msgspec.field(default_factory=TinkerbellClusterSpec)
    status: contract.OlderClusterStatus = contract.OlderClusterStatus()
    """CAPT's has no conditions and failure domains, that of the simulated provider has."""


class HardwareAffinityTerm(Part):
    """Hardware with these labels."""

    label_selector: AtomicSelector


class WeightedHardwareAffinityTerm(Part):
    """A preference for Hardware with certain labels."""

    weight: int
    hardware_affinity_term: HardwareAffinityTerm


class HardwareAffinity(Part):
    """Selection of Hardware for a machine, and preferences among it."""

    required: Annotated[list[HardwareAffinityTerm], Meta(extra_json_schema=ATOMIC)] = []
    preferred: Annotated[list[WeightedHardwareAffinityTerm], Meta(extra_json_schema=ATOMIC)] = []


class BootOptions(Part):
    """The boot source of bare metal while it is provisioned."""

    boot_mode: str = ""
    iso_url: str = msgspec.field(default="", name="isoURL")


class TinkerbellMachineSpec(Part):
    """One machine."""

    provider_id: str = msgspec.field(default="", name="providerID")
    hardware_name: str = ""
    hardware_affinity: HardwareAffinity | None = None
    template_override: str = ""
    boot_options: BootOptions | None = None


@declared(
    contract.CLUSTER_COLUMN,
    READY,
    Column("InstanceID", ".spec.providerID", "string", "The machine's ID at the infrastructure provider"),
    AGE,
    status=True,
)
class TinkerbellMachine(KubeObject, kw_only=True):
    """The infrastructure of a machine on bare metal."""

    spec: TinkerbellMachineSpec = msgspec.field(default_factory=TinkerbellMachineSpec)
    status: contract.OlderMachineStatus = contract.OlderMachineStatus()


@declared(AGE)
class TinkerbellMachineTemplate(contract.MachineTemplate[TinkerbellMachineSpec], kw_only=True):
    """The template of TinkerbellMachines; immutable, so other content gets another name."""


KINDS: tuple[type[KubeObject], ...] = (TinkerbellCluster, TinkerbellMachine, TinkerbellMachineTemplate)


def _fits(machine: Object, labels: Mapping[str, str]) -> bool:
    affinity = machine.decode(TinkerbellMachine).spec.hardware_affinity
    return affinity is None or any(term.label_selector.selects(labels) for term in affinity.required)


INFRASTRUCTURE = Infrastructure(
    TinkerbellCluster.resource,
    TinkerbellMachine.resource,
    TinkerbellMachineTemplate.resource,
    provider_id=f"tinkerbell://{SYSTEM_NAMESPACE}/{{name}}",
    contract="v1beta1",
    hosts=Hosts(Hardware.resource, OWNER_NAME, OWNER_NAMESPACE, _fits),
    provisioning_fields=frozenset({"template.spec.templateOverride", "template.spec.bootOptions"}),
)
