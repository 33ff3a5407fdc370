"""CloudStackDatacenterConfig and CloudStackMachineConfig."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.eksa.checked import VALID, CheckedDatacenter, CheckedMachines
from espalier.api.eksa.declaring import eksa_kind
from espalier.api.eksa.parts.fields import keys_rule, unchanged
from espalier.api.eksa.parts.host_os import Users
from espalier.api.eksa.parts.hosts import HOST, LOCAL_HOSTS, PORT
from espalier.api.kinds import AGE, ATOMIC, LARGEST_INT32, Column, KubeObject, Rule
from espalier.api.meta import Part
from espalier.api.text import forms
from espalier.api.text.forms import Form

RESERVED = (
    *("cpuNumber", "cpuSpeed", "memory", "cpu.corespersocket", "cpuOvercommitRatio", "memoryOvercommitRatio"),
    *("rootdisksize", "rootDiskController", "dataDiskController", "nic", "nicAdapter", "boot.mode", "UEFI", "BIOS"),
    *("keyboard", "password", "Encrypted.Password", "SSH.PublicKey", "SSH.KeyPairNames", "username"),
    *("nameonhypervisor", "hypervisortoolsversion", "platform", "timeoffset", "deployvm", "deployasis"),
    *("kvm.vnc.port", "kvm.vnc.address", "svga.vramSize", "nestedVirtualizationFlag", "video.hardware", "video.ram"),
    *("Message.ReservedCapacityFreed.Flag", "configDriveLocation", "skipFromDRS", "iothreads", "tpmversion"),
    *("guest.cpu.mode", "guest.cpu.model", "extraconfig", "template_osid", "controlNodeLoginUser"),
)
"""Details of instances that CloudStack sets itself, so machine configs must not set them."""

_NAME = {"maxLength": 253}
_URL = {"maxLength": 512}
_ZONES = {"maxItems": 16}
_PATH_TEXT = {"maxLength": 255}
_MAP = {"maxProperties": 50}

_PATH = "^(/[A-Za-z0-9._-]+)+$"
_PATHS = "absolute paths of letters, digits, dots, dashes and underscores, without a slash at the end"
_REFERENCE = "^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$"
_API = f"^[Hh][Tt][Tt][Pp][Ss]?://({HOST})(:{PORT})?(/[-A-Za-z0-9._~/]*)?$"
_LOCAL_API = f"^https?://({LOCAL_HOSTS})[.]?(:.*|/.*)?$"
_DEVICE = "^/dev/[A-Za-z0-9][A-Za-z0-9/_-]*$"
_FILE_SYSTEM_NAMES = Form("-_.", longest=16)

DEFAULT_USER = "capc"

AFFINITIES = ("pro", "anti", "no")

DATACENTER_CHANGED = "it can't be changed, because machines run there"
MACHINE_CHANGED = "it can't be changed; create another CloudStackMachineConfig and reference it in machineGroupRef"


def _named(object_type: str) -> Rule:
    return Rule(
        "has(self.id) && self.id != '' || has(self.name) && self.name != ''",
        f"set the name or the ID of the {object_type}",
        ".name",
        found="'nothing'",
    )


def _api(field: str) -> tuple[Rule, ...]:
    """Rules for the URL of an API, which must not be local to the manager."""
    return (
        Rule(
            f"!has(self.{field}) || self.{field} == '' || self.{field}.matches('{_API}')",
            "not the URL of a CloudStack API",
            f".{field}",
            found=f"self.{field}",
            allowed="a URL like https://cloudstack.example.com:8443/client/api",
        ),
        Rule(
            f"!has(self.{field}) || !self.{field}.lowerAscii().matches('{_LOCAL_API}')",
            "the CloudStack API must not be at a loopback, link-local or multicast address",
            f".{field}",
            found=f"self.{field}",
            allowed="the host name or address of a management server",
        ),
    )


class Named(Part):
    """An object in CloudStack, by name or by ID."""

    id: Annotated[
        str, Meta(description="ID. If name is set as well, it must be the name of this ID.", extra_json_schema=_NAME)
    ] = ""
    name: Annotated[str, Meta(description="Name.", extra_json_schema=_NAME)] = ""


class Network(Named):
    """A network of machines."""

    validations: ClassVar[tuple[Rule, ...]] = (_named("network"),)


class Zone(Named, kw_only=True):
    """A zone, and the network of the machines there."""

    validations: ClassVar[tuple[Rule, ...]] = (_named("zone"),)

    network: Annotated[Network, Meta(description="Network of the machines.")]


class AvailabilityZone(Part, kw_only=True):
    """A zone of a CloudStack that fails as a unit, and the account that creates machines there."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.name.matches('{forms.LABEL_VALUE.pattern}')",
            "must be a valid label value",
            ".name",
            found="self.name == '' ? 'nothing' : self.name",
            allowed=forms.LABEL_VALUE.words,
        ),
        Rule(
            f"self.credentialsRef.matches('{_REFERENCE}')",
            "credentials must be in a Secret in namespace eksa-system",
            ".credentialsRef",
            found="self.credentialsRef == '' ? 'nothing' : self.credentialsRef",
            allowed="name of a Secret",
        ),
        Rule("self.domain != ''", "set the domain of the account, like ROOT", ".domain", found="'nothing'"),
        Rule("self.managementApiEndpoint != ''", "set the URL of the API", ".managementApiEndpoint", found="'nothing'"),
        *_api("managementApiEndpoint"),
    )

    name: Annotated[str, Meta(description="Name of the availability zone.", extra_json_schema={"maxLength": 63})]
    credentials_ref: Annotated[
        str,
        Meta(description="Name of the Secret in `eksa-system` with the keys of the API.", extra_json_schema=_NAME),
    ]
    zone: Annotated[Zone, Meta(description="Zone of the machines.")]
    domain: Annotated[str, Meta(description="Domain of the account.", extra_json_schema=_NAME)]
    account: Annotated[
        str, Meta(description="Account that owns the machines. Defaults to that of the keys.", extra_json_schema=_NAME)
    ] = ""
    management_api_endpoint: Annotated[
        str, Meta(description="URL of the API, the same as in the Secret.", extra_json_schema=_URL)
    ]


_OF_ZONES = ("managementApiEndpoint", "domain")
_DEPRECATED = ("zones", "account", *_OF_ZONES)
_HAS_ZONES = "has(self.zones) && self.zones.size() > 0"
_HAS_AVAILABILITY_ZONES = "has(self.availabilityZones) && self.availabilityZones.size() > 0"


class CloudStackDatacenterConfigSpec(Part, kw_only=True):
    """The availability zones for machines."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"{_HAS_AVAILABILITY_ZONES} || {_HAS_ZONES}",
            "set at least one availability zone",
            ".availabilityZones",
            found="'nothing'",
        ),
        *(
            Rule(
                f"!({_HAS_AVAILABILITY_ZONES}) || !has(self.{field}) || self.{field}.size() == 0",
                "each availability zone has this field; remove it here",
                f".{field}",
            )
            for field in _DEPRECATED
        ),
        *(
            Rule(
                f"{_HAS_AVAILABILITY_ZONES} || !({_HAS_ZONES}) || has(self.{field}) && self.{field} != ''",
                "required with zones; prefer availabilityZones",
                f".{field}",
                found="'nothing'",
            )
            for field in _OF_ZONES
        ),
        *_api("managementApiEndpoint"),
        Rule(
            "!has(self.availabilityZones)"
            " || self.availabilityZones.all(one, self.availabilityZones.exists_one(other, other.name == one.name))",
            "two availability zones have the same name",
            ".availabilityZones",
        ),
        Rule(
            "!has(self.availabilityZones) || !has(oldSelf.availabilityZones) || self.availabilityZones.all(one,"
            " oldSelf.availabilityZones.all(old, old.name != one.name || old == one))",
            "an availability zone can't be changed, because machines run there; add another one",
            ".availabilityZones",
        ),
        Rule(
            "!has(oldSelf.availabilityZones) || has(self.availabilityZones) && oldSelf.availabilityZones.exists(old,"
            " self.availabilityZones.exists(one, one.name == old.name))",
            "at least one of these availability zones must remain, because machines run there",
            ".availabilityZones",
        ),
        *unchanged(DATACENTER_CHANGED, *_DEPRECATED),
    )

    availability_zones: Annotated[
        list[AvailabilityZone],
        Meta(description="Availability zones that machines are spread across.", extra_json_schema=ATOMIC | _ZONES),
    ] = []
    zones: Annotated[
        list[Zone],
        Meta(
            description="Deprecated: zones of one CloudStack, whose credentials are in Secret `global`.",
            extra_json_schema=ATOMIC | _ZONES,
        ),
    ] = []
    domain: Annotated[str, Meta(description="Deprecated: domain, for `zones`.", extra_json_schema=_NAME)] = ""
    account: Annotated[str, Meta(description="Deprecated: account, for `zones`.", extra_json_schema=_NAME)] = ""
    management_api_endpoint: Annotated[
        str, Meta(description="Deprecated: URL of the API, for `zones`.", extra_json_schema=_URL)
    ] = ""


@eksa_kind(Column("Zones", ".spec.availabilityZones[*].name", "string", "Availability zones"), VALID, AGE)
class CloudStackDatacenterConfig(KubeObject, kw_only=True):
    """The availability zones that the machines of a CloudStack cluster run in."""

    spec: CloudStackDatacenterConfigSpec
    status: CheckedDatacenter = CheckedDatacenter()


class ComputeOffering(Named):
    """CPUs and memory of machines."""

    validations: ClassVar[tuple[Rule, ...]] = (_named("compute offering"),)


class Template(Named):
    """The template of machines."""

    validations: ClassVar[tuple[Rule, ...]] = (_named("template"),)


_HAS_OFFERING = "(has(self.id) && self.id != '' || has(self.name) && self.name != '')"


def _of_disk(field: str, pattern: str, message: str, allowed: str) -> tuple[Rule, Rule]:
    return (
        Rule(
            f"!{_HAS_OFFERING} || self.{field}.matches('{pattern}')",
            message,
            f".{field}",
            found=f"self.{field} == '' ? 'nothing' : self.{field}",
            allowed=allowed,
        ),
        Rule(
            f"{_HAS_OFFERING} || self.{field} == ''",
            "requires a disk offering; set its name or its ID",
            f".{field}",
            found=f"self.{field}",
        ),
    )


class DiskOffering(Named, kw_only=True):
    """A data disk, and the mount path of its file system."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *_of_disk("mountPath", _PATH, "not a valid mount path", _PATHS),
        *_of_disk("device", _DEVICE, "not a valid device path", "a path like /dev/vdb"),
        *_of_disk("filesystem", "^[a-z][a-z0-9]*$", "not a valid file system", "a name like ext4"),
        *_of_disk("label", _FILE_SYSTEM_NAMES.pattern, "not a valid file system label", _FILE_SYSTEM_NAMES.words),
        Rule(
            f"{_HAS_OFFERING} || !has(self.customSizeInGB) || self.customSizeInGB == 0",
            "requires a disk offering; set its name or its ID",
            ".customSizeInGB",
            found="string(self.customSizeInGB)",
        ),
    )

    custom_size_in_gb: Annotated[
        int,
        Meta(
            description="Size in GB, for an offering with custom size.",
            extra_json_schema={"minimum": 0, "maximum": LARGEST_INT32},
        ),
    ] = msgspec.field(default=0, name="customSizeInGB")
    mount_path: Annotated[str, Meta(description="Mount path of the file system.", extra_json_schema=_PATH_TEXT)]
    device: Annotated[str, Meta(description="Device path of the disk.", extra_json_schema=_PATH_TEXT)]
    filesystem: Annotated[
        str, Meta(description="File system of the disk, like ext4.", extra_json_schema={"maxLength": 16})
    ]
    label: Annotated[str, Meta(description="Label of the file system.", extra_json_schema={"maxLength": 16})]


class CloudStackMachineConfigSpec(Part, kw_only=True):
    """The settings of instances."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.affinity) || self.affinity == '' || self.affinity in {list(AFFINITIES)}",
            "not a valid affinity",
            ".affinity",
            found="self.affinity",
            allowed=", ".join(AFFINITIES),
        ),
        Rule(
            "!has(self.affinity) || self.affinity in ['', 'no']"
            " || !has(self.affinityGroupIds) || self.affinityGroupIds.size() == 0",
            "affinityGroupIds and affinity exclude each other; remove one",
            ".affinityGroupIds",
            found="self.affinityGroupIds.join(', ')",
        ),
        keys_rule("symlinks", f"!k.matches('{_PATH}')", "not a valid path of a symlink", _PATHS),
        keys_rule(
            "symlinks",
            f"!self.symlinks[k].matches('{_PATH}')",
            "not a valid target of a symlink",
            _PATHS,
            "self.symlinks[{0}]",
        ),
        keys_rule(
            "userCustomDetails",
            f"k.lowerAscii() in {[name.lower() for name in RESERVED]}",
            "CloudStack sets this detail itself; remove it",
            "names that CloudStack does not use",
        ),
        keys_rule("userCustomDetails", "k == ''", "the name must not be empty", "names", "'nothing'"),
        *unchanged(MACHINE_CHANGED, "affinity", "affinityGroupIds"),
    )

    compute_offering: Annotated[ComputeOffering, Meta(description="CPUs and memory.")]
    template: Annotated[
        Template, Meta(description="Template that machines are created from; it must contain Kubernetes.")
    ]
    disk_offering: Annotated[DiskOffering | None, Meta(description="Data disk of each machine.")] = None
    affinity: Annotated[
        str,
        Meta(
            description="Placement of a group's machines: `pro` on one host, `anti` on different hosts, `no` anywhere.",
            extra_json_schema={"maxLength": 16},
        ),
    ] = ""
    affinity_group_ids: Annotated[
        list[Annotated[str, Meta(extra_json_schema=_NAME)]],
        Meta(description="IDs of affinity groups of the machines.", extra_json_schema=ATOMIC | _ZONES),
    ] = []
    symlinks: Annotated[
        dict[str, Annotated[str, Meta(extra_json_schema=_PATH_TEXT)]],
        Meta(
            description="Symlinks, each with its target, such as a directory of the data disk.",
            extra_json_schema=_MAP,
        ),
    ] = {}
    user_custom_details: Annotated[
        dict[str, Annotated[str, Meta(extra_json_schema={"maxLength": 1024})]],
        Meta(description="Custom details of the instances in CloudStack.", extra_json_schema=_MAP),
    ] = {}
    users: Users = []

    @property
    def disk(self) -> DiskOffering | None:
        """The data disk; None for an empty disk offering."""
        disk = self.disk_offering
        return disk if disk is not None and (disk.id or disk.name) else None


class CloudStackMachineConfigStatus(CheckedMachines, frozen=True):
    """The result of checking a machine config against CloudStack."""

    availability_zones: Annotated[
        list[str], Meta(description="Availability zones that it was checked against.", extra_json_schema=ATOMIC)
    ] = []


@eksa_kind(
    Column("Offering", ".spec.computeOffering.name", "string", "CPUs and memory"),
    Column("Template", ".spec.template.name", "string", "Template of machines"),
    VALID,
    AGE,
)
class CloudStackMachineConfig(KubeObject, kw_only=True):
    """The settings of a CloudStack cluster's machines."""

    spec: CloudStackMachineConfigSpec
    status: CloudStackMachineConfigStatus = CloudStackMachineConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (CloudStackDatacenterConfig, CloudStackMachineConfig)
