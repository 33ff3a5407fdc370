"""`tinkerbell.org/v1alpha1` Hardware and `bmc.tinkerbell.org/v1alpha1` Machine, as far as we write or read them."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.kinds import ATOMIC, Column, KubeObject, kind
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource

VERSION = "v1alpha1"

OWNER_NAME = "v1alpha1.tinkerbell.org/ownerName"
OWNER_NAMESPACE = "v1alpha1.tinkerbell.org/ownerNamespace"
"""Labels of Hardware that is a machine: which TinkerbellMachine. Cluster API's provider sets and removes them."""


class _AsWritten(Part, rename=None):
    """Base of parts whose fields Tinkerbell names other than in camelCase."""


class IP(_AsWritten):
    """The address of an interface."""

    address: str = ""
    family: int | None = None
    gateway: str = ""
    netmask: str = ""


class InstanceIP(IP):
    """An address in instance metadata."""

    public: bool = False


class DHCP(_AsWritten):
    """The DHCP settings of an interface."""

    arch: str = ""
    hostname: str = ""
    ip: IP | None = None
    lease_time: int | None = None
    mac: str = ""
    name_servers: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    uefi: bool = False
    vlan_id: str = ""


class Netboot(_AsWritten):
    """Permissions of the machine: boot from the network, run workflows."""

    allowPXE: bool | None = None
    allowWorkflow: bool | None = None


class Interface(Part):
    """A network interface."""

    dhcp: DHCP | None = None
    netboot: Netboot | None = None


class Disk(Part):
    """A disk."""

    device: str = ""


class BMCRef(Part):
    """The Machine that powers the hardware on and off, in its namespace."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class Facility(_AsWritten):
    """The location of hardware."""

    facility_code: str = ""
    plan_slug: str = ""


class Instance(_AsWritten):
    """Instance metadata."""

    id: str = ""
    hostname: str = ""
    allow_pxe: bool = False
    always_pxe: bool = False
    ips: Annotated[list[InstanceIP], Meta(extra_json_schema=ATOMIC)] = []


class Metadata(Part):
    """The metadata that hardware reads."""

    facility: Facility | None = None
    instance: Instance | None = None


class HardwareSpec(Part):
    """Bare metal."""

    bmc_ref: BMCRef | None = None
    disks: Annotated[list[Disk], Meta(extra_json_schema=ATOMIC)] = []
    interfaces: Annotated[list[Interface], Meta(extra_json_schema=ATOMIC)] = []
    metadata: Metadata | None = None


class HardwareStatus(Observed, frozen=True):
    """The state of a workflow."""

    state: str = ""


@kind(
    Resource("tinkerbell.org", VERSION, "hardware", "Hardware"),
    short_names=("hw",),
    categories=("tinkerbell",),
    columns=(Column("State", ".status.state"),),
    status=True,
    partly=True,
)
class Hardware(KubeObject, kw_only=True):
    """A machine of bare metal."""

    spec: HardwareSpec = msgspec.field(default_factory=HardwareSpec)
    status: HardwareStatus = HardwareStatus()


class SecretReference(Part):
    """A Secret."""

    name: str = ""
    namespace: str = ""


class ProviderOptions(Part):
    """The protocol options of a baseboard management controller (BMC)."""

    preferred_order: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class Connection(Part, kw_only=True):
    """The connection to a BMC."""

    host: str
    auth_secret_ref: SecretReference | None = None
    insecure_tls: bool = msgspec.field(default=False, name="insecureTLS")
    provider_options: ProviderOptions | None = None


class BMCMachineSpec(Part, kw_only=True):
    """The spec of a Machine."""

    connection: Connection


class BMCCondition(Part):
    """A condition that Tinkerbell reports of a BMC."""

    type: str
    status: str
    message: str = ""


class BMCMachineStatus(Observed, frozen=True):
    """The status of a Machine."""

    conditions: Annotated[list[BMCCondition], Meta(extra_json_schema=ATOMIC)] = []
    power_state: str = ""


@kind(
    Resource("bmc.tinkerbell.org", VERSION, "machines", "Machine"),
    categories=("tinkerbell",),
    status=True,
    partly=True,
)
class BMCMachine(KubeObject, kw_only=True):
    """A BMC, which powers hardware on and off, and sets its boot device."""

    spec: BMCMachineSpec
    status: BMCMachineStatus = BMCMachineStatus()


KINDS: tuple[type[KubeObject], ...] = (Hardware, BMCMachine)
