"""VSphereDatacenterConfig and VSphereMachineConfig: where virtual machines run, and what they are like."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from espalier.api.eksa.fields import unchanged
from espalier.api.eksa.group import GROUP, VERSION
from espalier.api.eksa.host_os import BOTTLEROCKET, REDHAT, UBUNTU, HostOSConfiguration, Users
from espalier.api.kinds import AGE, ATOMIC, LARGEST_INT32, Column, KubeObject, Rule, kind, listing
from espalier.api.meta import Condition, Observed, Part
from espalier.api.resource import Resource

_PATH = {"maxLength": 2048}
_NAME = {"maxLength": 253}
_COUNT = {"minimum": 0, "maximum": LARGEST_INT32}

_LOCAL_HOSTS = (
    *("localhost", ".*[.]localhost", "0[.]0[.]0[.]0", "127[.].*", "169[.]254[.].*"),
    *("[[]?::1?[]]?", "[[]?fe[89ab][0-9a-f]:[^]]*[]]?"),
)
"""Hosts that are the manager's own, or its network's: a vCenter is elsewhere (decision 0095)."""

_HOST = "[A-Za-z0-9._-]+|[[][0-9A-Fa-f:]+[]]|[0-9A-Fa-f:]+"

_OS_FAMILIES = (BOTTLEROCKET, UBUNTU, REDHAT)
_IS_BOTTLEROCKET = f"self.osFamily in ['', '{BOTTLEROCKET}']"

DATACENTER_CHANGED = (
    "it can't be changed, because machines run there; create another VSphereDatacenterConfig for new clusters"
)
MACHINE_CHANGED = "it can't be changed; create another VSphereMachineConfig, and name that in the machineGroupRef"


def _given(*fields: str) -> tuple[Rule, ...]:
    """Fields that must not be empty."""
    return tuple(Rule(f"self.{name} != ''", f"say which {name}", f".{name}", found="'nothing'") for name in fields)


class FailureDomain(Part):
    """A part of a datacenter that fails as a whole: a compute cluster, with what its machines need."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "names of objects contain it, so it must be a DNS label",
            ".name",
            found="self.name == '' ? 'nothing' : self.name",
            allowed="at most 63 small letters, digits and dashes",
        ),
        *_given("computeCluster", "resourcePool", "datastore", "folder", "network"),
    )

    name: Annotated[
        str, Meta(description="Name, by which worker node groups refer to it.", extra_json_schema={"maxLength": 63})
    ]
    compute_cluster: Annotated[str, Meta(description="Compute cluster of the machines.", extra_json_schema=_PATH)]
    resource_pool: Annotated[str, Meta(description="Resource pool of the machines.", extra_json_schema=_PATH)]
    datastore: Annotated[str, Meta(description="Datastore of the machines.", extra_json_schema=_PATH)]
    folder: Annotated[str, Meta(description="Folder of the machines.", extra_json_schema=_PATH)]
    network: Annotated[str, Meta(description="Network of the machines.", extra_json_schema=_PATH)]


class VSphereDatacenterConfigSpec(Part, kw_only=True):
    """A datacenter of a vCenter."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *_given("server", "datacenter", "network"),
        Rule(
            f"!self.server.lowerAscii().matches('^({'|'.join(_LOCAL_HOSTS)})[.]?(:[0-9]+)?$')",
            "a vCenter is not on the machine of the manager, nor on a link-local address",
            ".server",
            found="self.server",
            allowed="host name or address of a vCenter",
        ),
        Rule(
            f"self.server == '' || self.server.matches('^({_HOST})(:[0-9]+)?$')",
            "not a host; leave out https:// and what follows the host",
            ".server",
            found="self.server",
            allowed="host name or address of a vCenter, with a port if it is not 443",
        ),
        Rule(
            "!self.network.startsWith('/') || self.network.startsWith('/' + self.datacenter + '/network/')",
            "the network is not one of the datacenter",
            ".network",
            found="self.network",
            allows="'/%s/network/NAME, or NAME'.format([self.datacenter])",
        ),
        Rule(
            "self.thumbprint == '' || self.thumbprint.matches('^([0-9A-Fa-f]{2}:){19}[0-9A-Fa-f]{2}$')",
            "not the SHA-1 thumbprint of a certificate; `openssl s_client -connect SERVER:443 </dev/null |"
            " openssl x509 -noout -fingerprint -sha1` prints it",
            ".thumbprint",
            found="self.thumbprint",
            allowed="20 pairs of hexadecimal digits with colons between them, or nothing",
        ),
        Rule(
            "!has(self.failureDomains)"
            " || self.failureDomains.all(one, self.failureDomains.exists_one(other, other.name == one.name))",
            "two failure domains have the same name",
            ".failureDomains",
        ),
        *unchanged(DATACENTER_CHANGED, "server", "datacenter", "network"),
    )

    server: Annotated[str, Meta(description="Host name or address of the vCenter.", extra_json_schema=_NAME)]
    datacenter: Annotated[str, Meta(description="Name or inventory path of the datacenter.", extra_json_schema=_PATH)]
    network: Annotated[
        str, Meta(description="Network of the machines: a name, or an inventory path.", extra_json_schema=_PATH)
    ]
    thumbprint: Annotated[
        str,
        Meta(
            description="SHA-1 thumbprint of the vCenter's certificate; empty if its authority is trusted.",
            extra_json_schema={"maxLength": 128},
        ),
    ]
    insecure: Annotated[bool, Meta(description="True if the vCenter's certificate is not verified.")]
    failure_domains: Annotated[
        list[FailureDomain],
        Meta(
            description="Parts of the datacenter that fail as a whole.",
            extra_json_schema=ATOMIC | {"maxItems": 32},
        ),
    ] = []


class VSphereDatacenterConfigStatus(Observed, frozen=True):
    """What the vCenter said of a datacenter."""

    spec_valid: Annotated[bool | None, Meta(description="True if the vCenter has what the spec names.")] = None
    failure_reason: Annotated[str, Meta(description="CamelCase word for why it is not valid.")] = ""
    failure_message: Annotated[str, Meta(description="Why it is not valid, and what to do.")] = ""
    observed_generation: Annotated[int, Meta(description="Generation that was checked.")] = 0
    conditions: Annotated[
        list[Condition],
        Meta(description="Result of each check.", extra_json_schema=listing("type")),
    ] = []
    addresses: Annotated[
        dict[str, str],
        Meta(description="Endpoints of new clusters as CLUSTER/ADDRESS, and who has the address; empty: it is free."),
    ] = {}


_VALID = Column("Valid", ".status.specValid", "boolean", "True if the vCenter has what the spec names")


@kind(
    Resource(GROUP, VERSION, "vspheredatacenterconfigs", "VSphereDatacenterConfig"),
    categories=("eks-anywhere",),
    columns=(
        Column("Server", ".spec.server", "string", "vCenter"),
        Column("Datacenter", ".spec.datacenter", "string", "Datacenter of the vCenter"),
        _VALID,
        AGE,
    ),
    status=True,
)
class VSphereDatacenterConfig(KubeObject, kw_only=True):
    """Where the machines of a vSphere cluster run."""

    spec: VSphereDatacenterConfigSpec
    status: VSphereDatacenterConfigStatus = VSphereDatacenterConfigStatus()


class VSphereMachineConfigSpec(Part, kw_only=True):
    """What virtual machines are like."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *_given("datastore", "resourcePool"),
        Rule(
            f"self.osFamily in {['', *_OS_FAMILIES]}",
            "not an operating system for machines on vSphere",
            ".osFamily",
            found="self.osFamily",
            allowed=", ".join(_OS_FAMILIES),
        ),
        Rule(
            f"!({_IS_BOTTLEROCKET}) || !has(self.users) || self.users.all(user, user.name == 'ec2-user')",
            "Bottlerocket has this user alone",
            ".users",
            allowed="ec2-user",
        ),
        Rule(
            f"{_IS_BOTTLEROCKET} || !has(self.hostOSConfiguration)"
            " || !has(self.hostOSConfiguration.bottlerocketConfiguration)",
            "machines with another operating system have no such settings; remove the field",
            ".hostOSConfiguration.bottlerocketConfiguration",
            found="self.osFamily",
            allowed=BOTTLEROCKET,
        ),
        Rule(
            f"{_IS_BOTTLEROCKET} || !has(self.hostOSConfiguration)"
            " || !has(self.hostOSConfiguration.certBundles) || self.hostOSConfiguration.certBundles.size() == 0",
            "EKS Anywhere gives certificates to machines with Bottlerocket alone; remove the field, and put them "
            "into the template",
            ".hostOSConfiguration.certBundles",
            found="self.osFamily",
            allowed=BOTTLEROCKET,
        ),
        Rule(
            "oldSelf.hasValue() || has(self.users) && self.users.size() > 0",
            "say who may log in to the machines, like name: capv with a public key of SSH",
            ".users",
            found="'nothing'",
            creation=True,
        ),
        *unchanged(MACHINE_CHANGED, "osFamily", "storagePolicyName"),
    )

    datastore: Annotated[str, Meta(description="Datastore: a name, or an inventory path.", extra_json_schema=_PATH)]
    folder: Annotated[str, Meta(description="Folder: a name, or an inventory path.", extra_json_schema=_PATH)]
    resource_pool: Annotated[
        str, Meta(description="Resource pool: a name, or an inventory path.", extra_json_schema=_PATH)
    ]
    memory_mi_b: Annotated[
        int,
        Meta(description="Memory in MiB; 8192 if 0, and 2048 at least.", extra_json_schema=_COUNT),
    ] = msgspec.field(name="memoryMiB")
    num_cpus: Annotated[int, Meta(description="Virtual CPUs, 2 at least.", extra_json_schema=_COUNT)] = msgspec.field(
        name="numCPUs"
    )
    disk_gi_b: Annotated[
        int | None,
        Meta(
            description="Size of the disk in GiB, 20 at least; that of the template if left out.",
            extra_json_schema=_COUNT,
        ),
    ] = msgspec.field(default=None, name="diskGiB")
    os_family: Annotated[
        str,
        Meta(
            description="Operating system of the template; bottlerocket if empty.", extra_json_schema={"maxLength": 64}
        ),
    ]
    template: Annotated[
        str,
        Meta(
            description="Template that machines are cloned from: a name, or an inventory path.",
            extra_json_schema=_PATH,
        ),
    ] = ""
    clone_mode: Annotated[
        Literal["fullClone", "linkedClone"] | None,
        Meta(description="How a template is cloned; linkedClone if left out and the template has a snapshot."),
    ] = None
    storage_policy_name: Annotated[
        str, Meta(description="Storage policy of the machines.", extra_json_schema=_PATH)
    ] = ""
    networks: Annotated[
        list[Annotated[str, Meta(extra_json_schema=_PATH)]],
        Meta(
            description="Networks of workers, instead of the datacenter's; two at most.",
            extra_json_schema=ATOMIC | {"maxItems": 2},
        ),
    ] = []
    tags: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 1024})]],
        Meta(description="IDs of tags that machines get.", extra_json_schema=ATOMIC | {"maxItems": 128}),
    ] = []
    users: Users = []
    host_os_configuration: Annotated[
        HostOSConfiguration | None, Meta(description="Settings of the operating system.")
    ] = msgspec.field(default=None, name="hostOSConfiguration")

    @property
    def os(self) -> str:
        """The operating system of the machines."""
        return self.os_family or BOTTLEROCKET


class Resolved(Observed, frozen=True):
    """Inventory paths that were found for what a spec names by a pattern, or not at all."""

    datastore: Annotated[str, Meta(description="Path of the datastore.")] = ""
    folder: Annotated[str, Meta(description="Path of the folder.")] = ""
    resource_pool: Annotated[str, Meta(description="Path of the resource pool.")] = ""
    template: Annotated[str, Meta(description="Path of the template.")] = ""
    templates: Annotated[
        dict[str, str], Meta(description="Path of the template for each Kubernetes version, if the spec names none.")
    ] = {}


class VSphereMachineConfigStatus(Observed, frozen=True):
    """What the vCenter said of a machine config."""

    spec_valid: Annotated[bool | None, Meta(description="True if the vCenter has what the spec names.")] = None
    failure_reason: Annotated[str, Meta(description="CamelCase word for why it is not valid.")] = ""
    failure_message: Annotated[str, Meta(description="Why it is not valid, and what to do.")] = ""
    observed_generation: Annotated[int, Meta(description="Generation that was checked.")] = 0
    resolved: Annotated[Resolved, Meta(description="Inventory paths that were found.")] = Resolved()
    kubernetes_versions: Annotated[
        list[str], Meta(description="Kubernetes versions for which it was checked.", extra_json_schema=ATOMIC)
    ] = []
    conditions: Annotated[
        list[Condition],
        Meta(description="Result of each check.", extra_json_schema=listing("type")),
    ] = []


@kind(
    Resource(GROUP, VERSION, "vspheremachineconfigs", "VSphereMachineConfig"),
    categories=("eks-anywhere",),
    columns=(
        Column("OS", ".spec.osFamily", "string", "Operating system"),
        Column("CPUs", ".spec.numCPUs", "integer", "Virtual CPUs"),
        Column("Memory", ".spec.memoryMiB", "integer", "Memory in MiB"),
        Column("Template", ".spec.template", "string", "Template that machines are cloned from", 1),
        _VALID,
        AGE,
    ),
    status=True,
)
class VSphereMachineConfig(KubeObject, kw_only=True):
    """What the machines of a vSphere cluster are like."""

    spec: VSphereMachineConfigSpec
    status: VSphereMachineConfigStatus = VSphereMachineConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (VSphereDatacenterConfig, VSphereMachineConfig)
