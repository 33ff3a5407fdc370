"""NutanixDatacenterConfig and NutanixMachineConfig."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from espalier.api.eksa.checked import VALID, CheckedDatacenter, CheckedMachines
from espalier.api.eksa.declaring import eksa_kind
from espalier.api.eksa.parts import host_os
from espalier.api.eksa.parts.fields import Ref, same, unchanged
from espalier.api.eksa.parts.host_os import REDHAT, UBUNTU, Users
from espalier.api.eksa.parts.hosts import HOST, LOCAL_HOSTS
from espalier.api.kinds import AGE, ATOMIC, INT_OR_STRING, LARGEST_INT32, Column, KubeObject, Rule
from espalier.api.meta import Part
from espalier.api.text.forms import Form
from espalier.api.text.patterns import SIZE

_NAME = {"maxLength": 253}
_FEW = {"maxItems": 16}
_DOMAINS = {"maxItems": 32}
_COUNT = {"minimum": 1, "maximum": LARGEST_INT32}
_BYTES = INT_OR_STRING | {"pattern": SIZE, "maxLength": 36, "minimum": 0}

_UUID = "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
LEAST_SOCKETS, LEAST_MEMORY, LEAST_DISK = 2, "4Gi", "40Gi"
"""As in EKS Anywhere. A rule of a CRD can't compare sizes: `rules.py` does."""

DEFAULT_USER = "eksa"

_DOMAIN_NAME = Form("-", longest=64, is_lower=True)

DATACENTER_CHANGED = (
    "it can't be changed, because machines run there; create another NutanixDatacenterConfig for new clusters"
)
MACHINE_CHANGED = "it can't be changed; create another NutanixMachineConfig and reference it in machineGroupRef"


class Identifier(Part):
    """An entity in Prism Central, by name or by UUID."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.type != 'name' || has(self.name) && self.name != ''",
            "type name requires a name",
            ".name",
            found="'nothing'",
        ),
        Rule(
            f"self.type != 'uuid' || has(self.uuid) && self.uuid.matches('{_UUID}')",
            "not a UUID",
            ".uuid",
            found="has(self.uuid) && self.uuid != '' ? self.uuid : 'nothing'",
            allowed="32 hexadecimal digits like 00000000-0000-0000-0000-000000000000",
        ),
    )

    type: Annotated[Literal["uuid", "name"], Meta(description="Field that identifies the object.")]
    name: Annotated[str, Meta(description="Name, if the type is name.", extra_json_schema=_NAME)] = ""
    uuid: Annotated[str, Meta(description="UUID, if the type is uuid.", extra_json_schema={"maxLength": 64})] = ""

    def __str__(self) -> str:
        return self.uuid.lower() if self.type == "uuid" else self.name


class FailureDomain(Part, kw_only=True):
    """A Prism Element cluster, with subnets, that fails as a unit."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.name.matches('{_DOMAIN_NAME.pattern}')",
            "must be a DNS label, because names of objects contain it",
            ".name",
            found="self.name == '' ? 'nothing' : self.name",
            allowed=_DOMAIN_NAME.words,
        ),
        Rule("self.subnets.size() > 0", "set at least one subnet", ".subnets", found="'nothing'"),
    )

    name: Annotated[
        str,
        Meta(description="Name; names of its MachineDeployments end with it.", extra_json_schema={"maxLength": 64}),
    ]
    cluster: Annotated[Identifier, Meta(description="Prism Element cluster of the machines.")]
    subnets: Annotated[list[Identifier], Meta(description="Subnets of the machines.", extra_json_schema=ATOMIC | _FEW)]
    worker_machine_groups: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 63})]],
        Meta(
            description="Worker node groups that have machines there.",
            extra_json_schema=ATOMIC | {"maxItems": 100},
        ),
    ] = []


class NutanixDatacenterConfigSpec(Part, kw_only=True):
    """A Prism Central."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("self.endpoint != ''", "must be set", ".endpoint", found="'nothing'"),
        Rule(
            f"!self.endpoint.lowerAscii().matches('^({LOCAL_HOSTS})[.]?$')",
            "Prism Central must not be at a loopback, link-local or multicast address",
            ".endpoint",
            found="self.endpoint",
            allowed="host name or address of a Prism Central",
        ),
        Rule(
            f"self.endpoint == '' || self.endpoint.matches('^({HOST})$')",
            "not a host; leave out https:// and any path, and set the port in field port",
            ".endpoint",
            found="self.endpoint",
            allowed="host name or address of a Prism Central",
        ),
        # What was found is not quoted: it may have a private key in it.
        Rule(
            "!has(self.additionalTrustBundle) || self.additionalTrustBundle == ''"
            " || self.additionalTrustBundle.contains('-----BEGIN CERTIFICATE-----')"
            " && !self.additionalTrustBundle.contains('PRIVATE KEY')",
            "not certificates; give those of the authorities that signed the certificate of Prism Central",
            ".additionalTrustBundle",
            allowed="certificates in PEM format, without private keys",
        ),
        Rule(
            "!has(self.credentialRef) || self.credentialRef.kind == 'Secret'",
            "credentials must be in a Secret in namespace eksa-system",
            ".credentialRef.kind",
            found="self.credentialRef.kind",
            allowed="Secret",
        ),
        Rule(
            "!has(oldSelf.credentialRef) || has(self.credentialRef)",
            "it can't be removed, because machines are made with these credentials; name another Secret instead",
            ".credentialRef",
        ),
        Rule(
            "!has(self.failureDomains)"
            " || self.failureDomains.all(one, self.failureDomains.exists_one(other, other.name == one.name))",
            "two failure domains have the same name",
            ".failureDomains",
        ),
        Rule(
            "!has(self.ccmExcludeNodeIPs) || self.ccmExcludeNodeIPs.all(one,"
            " isIP(one) || isCIDR(one) || one.split('-').size() == 2 && one.split('-').all(end, isIP(end)))",
            "not IP addresses",
            ".ccmExcludeNodeIPs",
            found="self.ccmExcludeNodeIPs.filter(one,"
            " !isIP(one) && !isCIDR(one) && !(one.split('-').size() == 2 && one.split('-').all(end, isIP(end))))[0]",
            allowed="addresses, ranges like 192.0.2.10-192.0.2.20, and networks like 192.0.2.0/28",
        ),
        *unchanged(DATACENTER_CHANGED, "endpoint"),
    )

    endpoint: Annotated[str, Meta(description="Host name or address of Prism Central.", extra_json_schema=_NAME)]
    port: Annotated[
        int,
        Meta(description="Port of Prism Central, usually 9440.", extra_json_schema={"minimum": 1, "maximum": 65535}),
    ]
    insecure: Annotated[bool, Meta(description="True if the certificate of Prism Central is not verified.")] = False
    additional_trust_bundle: Annotated[
        str,
        Meta(
            description="Certificates, in PEM format, of authorities to trust besides those of the system.",
            extra_json_schema={"maxLength": 262144},
        ),
    ] = ""
    credential_ref: Annotated[
        Ref | None,
        Meta(description="The Secret in `eksa-system` with the credentials. Defaults to `nutanix-credentials`."),
    ] = None
    failure_domains: Annotated[
        list[FailureDomain],
        Meta(
            description="Prism Element clusters that machines are spread across.",
            extra_json_schema=ATOMIC | _DOMAINS,
        ),
    ] = []
    ccm_exclude_node_ips: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 96})]],
        Meta(
            description="Addresses, ranges and networks to exclude from addresses of nodes.",
            extra_json_schema=ATOMIC | {"maxItems": 64},
        ),
    ] = msgspec.field(default_factory=list, name="ccmExcludeNodeIPs")


@eksa_kind(
    Column("Endpoint", ".spec.endpoint", "string", "Prism Central"),
    Column("Port", ".spec.port", "integer", "Port of Prism Central", 1),
    VALID,
    AGE,
)
class NutanixDatacenterConfig(KubeObject, kw_only=True):
    """The Prism Central that the machines of a Nutanix cluster run in."""

    spec: NutanixDatacenterConfigSpec
    status: CheckedDatacenter = CheckedDatacenter()


class Category(Part):
    """A category of Prism Central, and its value for machines."""

    validations: ClassVar[tuple[Rule, ...]] = tuple(
        Rule(f"self.{name} != ''", "must be set", f".{name}", found="'nothing'") for name in ("key", "value")
    )

    key: Annotated[str, Meta(description="Name of the category.", extra_json_schema=_NAME)]
    value: Annotated[str, Meta(description="Value of the category.", extra_json_schema=_NAME)]


class Gpu(Part):
    """A GPU, by its name or by the ID of its model."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.type != 'name' || has(self.name) && self.name != ''",
            "type name requires a name",
            ".name",
            found="'nothing'",
        ),
        Rule(
            "self.type != 'deviceID' || has(self.deviceID)",
            "type deviceID requires the device ID of the model",
            ".deviceID",
            found="'nothing'",
        ),
    )

    type: Annotated[Literal["deviceID", "name"], Meta(description="Field that identifies the object.")]
    device_id: Annotated[
        int | None,
        Meta(description="Device ID of the model, if the type is deviceID.", extra_json_schema={"minimum": 0}),
    ] = msgspec.field(default=None, name="deviceID")
    name: Annotated[str, Meta(description="Name, if the type is name.", extra_json_schema=_NAME)] = ""


class NutanixMachineConfigSpec(Part, kw_only=True):
    """The settings of virtual machines."""

    validations: ClassVar[tuple[Rule, ...]] = (
        host_os.family_rule("Nutanix", (UBUNTU, REDHAT)),
        Rule(
            f"self.vcpuSockets >= {LEAST_SOCKETS}",
            "too few to run Kubernetes",
            ".vcpuSockets",
            found="string(self.vcpuSockets)",
            allowed=f"{LEAST_SOCKETS} or more",
        ),
        Rule(
            "!has(self.gpus) || self.gpus.all(one, one.type == self.gpus[0].type)",
            "all GPUs must have the same type",
            ".gpus",
            allowed="type name for all, or type deviceID for all",
        ),
        same(MACHINE_CHANGED, "osFamily", UBUNTU),
        *unchanged(MACHINE_CHANGED, "cluster", "subnet", "bootType"),
    )

    vcpus_per_socket: Annotated[int, Meta(description="Virtual CPUs per socket.", extra_json_schema=_COUNT)] = (
        msgspec.field(name="vcpusPerSocket")
    )
    vcpu_sockets: Annotated[int, Meta(description="Virtual CPU sockets, at least 2.", extra_json_schema=_COUNT)] = (
        msgspec.field(name="vcpuSockets")
    )
    memory_size: Annotated[int | str, Meta(description="Memory, at least 4Gi.", extra_json_schema=_BYTES)]
    system_disk_size: Annotated[
        int | str, Meta(description="Size of the disk, at least 40Gi.", extra_json_schema=_BYTES)
    ]
    os_family: Annotated[
        str,
        Meta(description=f"Operating system of the image. Defaults to {UBUNTU}.", extra_json_schema={"maxLength": 64}),
    ] = ""
    image: Annotated[Identifier, Meta(description="Image that machines are created from; it must contain Kubernetes.")]
    cluster: Annotated[Identifier, Meta(description="Prism Element cluster of the machines.")]
    subnet: Annotated[Identifier, Meta(description="Subnet of the machines; it must have DHCP.")]
    project: Annotated[Identifier | None, Meta(description="Project of the machines.")] = None
    boot_type: Annotated[
        Literal["legacy", "uefi"] | None, Meta(description="Firmware of the machines. Defaults to legacy.")
    ] = None
    additional_categories: Annotated[
        list[Category], Meta(description="Categories to assign to machines.", extra_json_schema=ATOMIC | _DOMAINS)
    ] = []
    gpus: Annotated[
        list[Gpu], Meta(description="GPUs of each machine, only for workers.", extra_json_schema=ATOMIC | _FEW)
    ] = []
    users: Users = []


@eksa_kind(
    Column("OS", ".spec.osFamily", "string", "Operating system"),
    Column("Sockets", ".spec.vcpuSockets", "integer", "Virtual CPU sockets"),
    Column("Memory", ".spec.memorySize", "string", "Memory"),
    Column("Disk", ".spec.systemDiskSize", "string", "Size of the disk", 1),
    VALID,
    AGE,
)
class NutanixMachineConfig(KubeObject, kw_only=True):
    """The settings of a Nutanix cluster's machines."""

    spec: NutanixMachineConfigSpec
    status: CheckedMachines = CheckedMachines()


KINDS: tuple[type[KubeObject], ...] = (NutanixDatacenterConfig, NutanixMachineConfig)
