"""SnowDatacenterConfig, SnowMachineConfig and SnowIPPool."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from espalier.api.eksa.checked import VALID, CheckedDatacenter, CheckedMachines
from espalier.api.eksa.declaring import eksa_kind
from espalier.api.eksa.parts import host_os
from espalier.api.eksa.parts.fields import Ref, unchanged
from espalier.api.eksa.parts.host_os import BOTTLEROCKET, UBUNTU, HostSettings
from espalier.api.eksa.parts.hosts import LOCAL_HOSTS
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject, Rule
from espalier.api.meta import Observed, Part

_NAME = {"maxLength": 253}
_ADDRESS = {"maxLength": 64}
_INTERFACES = {"minItems": 1, "maxItems": 8}
_DEVICES = {"maxItems": 64}
_FEW = {"maxItems": 16}
_SIZE = {"minimum": 8, "maximum": 2**53}

DEFAULT_INSTANCE_TYPE, DEFAULT_CONNECTOR = "sbe-c.large", "SFP_PLUS"
"""As in EKS Anywhere."""

_INSTANCE_TYPE = "^sbe-[cg][.][0-9]*x?large$"

POOLS_CHANGED = "they can't be changed, because machines use addresses from them; use another SnowIPPool instead"
KEY_CHANGED = "it can't be changed; create another SnowMachineConfig and reference it in machineGroupRef"


class SnowDatacenterConfigSpec(Part):
    """The credentials for devices."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.identityRef) || self.identityRef.kind == 'Secret'",
            "credentials must be in a Secret in namespace eksa-system",
            ".identityRef.kind",
            found="self.identityRef.kind",
            allowed="Secret",
        ),
    )

    identity_ref: Annotated[
        Ref | None,
        Meta(description="The Secret in `eksa-system` with the credentials. Defaults to `snow-credentials`."),
    ] = None


@eksa_kind(Column("Credentials", ".spec.identityRef.name", "string", "Secret with the credentials"), VALID, AGE)
class SnowDatacenterConfig(KubeObject):
    """The credentials for devices that the machines of a Snow cluster run on."""

    spec: SnowDatacenterConfigSpec = msgspec.field(default_factory=SnowDatacenterConfigSpec)
    status: CheckedDatacenter = CheckedDatacenter()


class Volume(Part, kw_only=True):
    """A disk of a machine."""

    device_name: Annotated[str, Meta(description="Name of the disk on the machine.", extra_json_schema=_NAME)] = ""
    size: Annotated[int, Meta(description="Size in GiB, at least 8.", extra_json_schema=_SIZE)]
    type: Annotated[
        Literal["sbp1", "sbg1"] | None, Meta(description="sbp1 for SSD, sbg1 for HDD. Defaults to that of the device.")
    ] = None


class DirectNetworkInterface(Part, kw_only=True):
    """A network interface of a machine, on a connector of the device."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.dhcp) ? self.dhcp != has(self.ipPoolRef) : has(self.ipPoolRef)",
            "the address must come from either DHCP or a SnowIPPool",
            ".ipPoolRef",
            found="has(self.ipPoolRef) ? 'both' : 'neither'",
            allowed="dhcp: true, or ipPoolRef",
        ),
        Rule(
            "!has(self.ipPoolRef) || self.ipPoolRef.kind == 'SnowIPPool'",
            "not a supported kind of IP pool",
            ".ipPoolRef.kind",
            found="self.ipPoolRef.kind",
            allowed="SnowIPPool",
        ),
    )

    index: Annotated[
        int | None,
        Meta(description="Index of the interface, starting at 1.", extra_json_schema={"minimum": 1, "maximum": 8}),
    ] = None
    vlan_id: Annotated[
        int | None,
        Meta(
            description="VLAN of the interface; none if 0 or left out.",
            extra_json_schema={"minimum": 0, "maximum": 4095},
        ),
    ] = msgspec.field(default=None, name="vlanID")
    dhcp: Annotated[bool | None, Meta(description="True to get the address from DHCP.")] = None
    ip_pool_ref: Annotated[Ref | None, Meta(description="The SnowIPPool that provides the address.")] = None
    primary: Annotated[bool | None, Meta(description="True for the interface with the address of the node.")] = None


class SnowNetwork(Part):
    """Network interfaces of a machine."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.directNetworkInterfaces)"
            " && self.directNetworkInterfaces.exists_one(one, has(one.primary) && one.primary)",
            "exactly one interface must be primary",
            ".directNetworkInterfaces",
            found="has(self.directNetworkInterfaces)"
            " && self.directNetworkInterfaces.exists(one, has(one.primary) && one.primary) ? 'several' : 'none'",
            allowed="one with primary: true",
        ),
        Rule(
            "!has(self.directNetworkInterfaces) || self.directNetworkInterfaces.all(one, !has(one.index)"
            " || self.directNetworkInterfaces.exists_one(other, has(other.index) && other.index == one.index))",
            "two interfaces have the same index",
            ".directNetworkInterfaces",
        ),
    )

    direct_network_interfaces: Annotated[
        list[DirectNetworkInterface],
        Meta(description="Network interfaces, on the connector of the device.", extra_json_schema=ATOMIC | _INTERFACES),
    ] = []


class SnowMachineConfigSpec(Part, kw_only=True):
    """The settings of instances."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.instanceType) || self.instanceType == '' || self.instanceType.matches('{_INSTANCE_TYPE}')",
            "not a supported instance type",
            ".instanceType",
            found="self.instanceType",
            allowed="sbe-c.large, sbe-c.xlarge and larger, or sbe-g in these sizes",
        ),
        host_os.family_rule("Snow", (BOTTLEROCKET, UBUNTU)),
        Rule(
            "has(self.devices) && self.devices.size() > 0",
            "set at least one device",
            ".devices",
            found="'nothing'",
            allowed="IP addresses of devices",
        ),
        Rule(
            f"!has(self.devices) || self.devices.all(one, isIP(one) && !one.lowerAscii().matches('^({LOCAL_HOSTS})$'))",
            "not addresses of devices",
            ".devices",
            found=f"self.devices.filter(one, !isIP(one) || one.lowerAscii().matches('^({LOCAL_HOSTS})$'))[0]",
            allowed="IP addresses, except loopback, link-local and multicast ones",
        ),
        Rule(
            "!has(self.devices) || self.devices.all(one, self.devices.exists_one(other, other == one))",
            "a device is listed twice",
            ".devices",
        ),
        Rule(
            "has(self.sshKeyName) && self.sshKeyName != ''",
            "name a key pair that each device has; unlike EKS Anywhere's CLI, espalier imports none:"
            " use `snowballEdge` or `aws ec2 import-key-pair`",
            ".sshKeyName",
            found="'nothing'",
            allowed="the name of a key pair",
        ),
        Rule(
            "!has(self.nonRootVolumes) || self.nonRootVolumes.all(one, has(one.deviceName) && one.deviceName != ''"
            " && !one.deviceName.startsWith('/dev/sda'))",
            "each additional disk needs a device name",
            ".nonRootVolumes",
            found="self.nonRootVolumes.filter(one, !has(one.deviceName) || one.deviceName == ''"
            " || one.deviceName.startsWith('/dev/sda')).map(one, has(one.deviceName) ? one.deviceName : 'nothing')[0]",
            allowed="deviceName like /dev/sdc; /dev/sda is the root volume",
        ),
        Rule(
            "!has(self.nonRootVolumes) || self.nonRootVolumes.all(one, !has(one.deviceName)"
            " || self.nonRootVolumes.exists_one(other, has(other.deviceName) && other.deviceName == one.deviceName))",
            "two disks have the same device name",
            ".nonRootVolumes",
        ),
        *host_os.settings_rules(),
        *unchanged(KEY_CHANGED, "sshKeyName"),
    )

    ami_id: Annotated[
        str,
        Meta(
            description="Image that machines are created from. By default, Cluster API's provider looks for "
            "one with the Kubernetes version.",
            extra_json_schema=_NAME,
        ),
    ] = msgspec.field(default="", name="amiID")
    instance_type: Annotated[
        str,
        Meta(description=f"Instance type. Defaults to {DEFAULT_INSTANCE_TYPE}.", extra_json_schema={"maxLength": 64}),
    ] = ""
    physical_network_connector: Annotated[
        Literal["SFP_PLUS", "QSFP", "RJ45", ""],
        Meta(description=f"Connector of the device that machines use. Defaults to {DEFAULT_CONNECTOR}."),
    ] = ""
    ssh_key_name: Annotated[
        str, Meta(description="Key pair on the devices for SSH access to machines.", extra_json_schema=_NAME)
    ] = ""
    devices: Annotated[
        list[Annotated[str, Meta(extra_json_schema=_ADDRESS)]],
        Meta(description="IP addresses of the devices that machines may run on.", extra_json_schema=ATOMIC | _DEVICES),
    ] = []
    containers_volume: Annotated[Volume | None, Meta(description="Separate disk for images and containers.")] = None
    non_root_volumes: Annotated[
        list[Volume], Meta(description="Additional disks.", extra_json_schema=ATOMIC | _FEW)
    ] = []
    network: Annotated[SnowNetwork, Meta(description="Network interfaces of machines.")]
    os_family: Annotated[
        str,
        Meta(
            description="Operating system of the image. Defaults to bottlerocket.", extra_json_schema={"maxLength": 64}
        ),
    ] = ""
    host_os_configuration: HostSettings = msgspec.field(default=None, name="hostOSConfiguration")

    @property
    def os(self) -> str:
        """The operating system of the machines."""
        return self.os_family or BOTTLEROCKET

    @property
    def pools(self) -> list[str]:
        """The SnowIPPools of its network interfaces."""
        references = (interface.ip_pool_ref for interface in self.network.direct_network_interfaces)
        return list(dict.fromkeys(reference.name for reference in references if reference is not None))


@eksa_kind(
    Column("OS", ".spec.osFamily", "string", "Operating system"),
    Column("Type", ".spec.instanceType", "string", "Instance type"),
    Column("AMI", ".spec.amiID", "string", "Image of machines"),
    Column("Devices", ".spec.devices", "string", "Devices that machines may run on", 1),
    VALID,
    AGE,
)
class SnowMachineConfig(KubeObject, kw_only=True):
    """The settings of a Snow cluster's machines."""

    spec: SnowMachineConfigSpec
    status: CheckedMachines = CheckedMachines()


class IPPool(Part, kw_only=True):
    """A range of addresses."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *(
            Rule(
                f"isIP(self.{name})",
                "not an IP address",
                f".{name}",
                found=f"self.{name} == '' ? 'nothing' : self.{name}",
                allowed="an address of the subnet",
            )
            for name in ("ipStart", "ipEnd", "gateway")
        ),
        Rule(
            "isCIDR(self.subnet)",
            "not a network in CIDR notation",
            ".subnet",
            found="self.subnet == '' ? 'nothing' : self.subnet",
            allowed="an address and a prefix length, like 192.0.2.0/24",
        ),
    )

    ip_start: Annotated[str, Meta(description="First address.", extra_json_schema=_ADDRESS)]
    ip_end: Annotated[str, Meta(description="Last address.", extra_json_schema=_ADDRESS)]
    subnet: Annotated[str, Meta(description="Network of the addresses.", extra_json_schema=_ADDRESS)]
    gateway: Annotated[str, Meta(description="Gateway of the network.", extra_json_schema=_ADDRESS)]


class NoStatus(Observed, frozen=True):
    """The status, which is empty."""


class SnowIPPoolSpec(Part):
    """Addresses for machines."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.pools) && self.pools.size() > 0", "set at least one range", ".pools", found="'nothing'"),
        *unchanged(POOLS_CHANGED, "pools"),
    )

    pools: Annotated[list[IPPool], Meta(description="Ranges of addresses.", extra_json_schema=ATOMIC | _FEW)] = []


@eksa_kind(
    Column("From", ".spec.pools[0].ipStart", "string", "First address"),
    Column("To", ".spec.pools[0].ipEnd", "string", "Last address of the first range"),
    AGE,
)
class SnowIPPool(KubeObject, kw_only=True):
    """Addresses for the machines of Snow clusters."""

    spec: SnowIPPoolSpec = msgspec.field(default_factory=SnowIPPoolSpec)
    status: NoStatus = NoStatus()


KINDS: tuple[type[KubeObject], ...] = (SnowDatacenterConfig, SnowMachineConfig, SnowIPPool)
