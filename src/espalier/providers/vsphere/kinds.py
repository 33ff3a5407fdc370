"""VSphereDatacenterConfig and VSphereMachineConfig."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from espalier.api.eksa.checked import VALID, CheckedDatacenter, CheckedMachines
from espalier.api.eksa.declaring import eksa_kind
from espalier.api.eksa.parts import host_os
from espalier.api.eksa.parts.fields import same, unchanged
from espalier.api.eksa.parts.host_os import BOTTLEROCKET, BOTTLEROCKET_USER, REDHAT, UBUNTU, HostSettings, Users
from espalier.api.eksa.parts.hosts import HOST, LOCAL_HOSTS, PORT
from espalier.api.kinds import AGE, ATOMIC, LARGEST_INT32, Column, KubeObject, Rule
from espalier.api.meta import Observed, Part
from espalier.api.text import forms

_PATH = {"maxLength": 2048}
_NAME = {"maxLength": 253}
_COUNT = {"minimum": 0, "maximum": LARGEST_INT32}

LEAST_DISK = 20
"""GiB of a disk, as in EKS Anywhere: smaller numbers are raised."""

DATACENTER_CHANGED = (
    "it can't be changed, because machines run there; create another VSphereDatacenterConfig for new clusters"
)
MACHINE_CHANGED = "it can't be changed; create another VSphereMachineConfig and reference it in machineGroupRef"


def _required(*fields: str) -> tuple[Rule, ...]:
    """Rules that fields are not empty."""
    return tuple(Rule(f"self.{name} != ''", "must be set", f".{name}", found="'nothing'") for name in fields)


class FailureDomain(Part):
    """A part of a datacenter that fails as a unit: a compute cluster, and the objects that its machines use."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.name.matches('{forms.DNS_LABELS.pattern}')",
            "must be a DNS label, because names of objects contain it",
            ".name",
            found="self.name == '' ? 'nothing' : self.name",
            allowed=forms.DNS_LABELS.words,
        ),
        *_required("computeCluster", "resourcePool", "datastore", "folder", "network"),
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
        *_required("server", "datacenter", "network"),
        Rule(
            f"!self.server.lowerAscii().matches('^({LOCAL_HOSTS})[.]?(:[0-9]+)?$')",
            "the vCenter must not be at a loopback, link-local or multicast address",
            ".server",
            found="self.server",
            allowed="host name or address of a vCenter",
        ),
        Rule(
            f"self.server == '' || self.server.matches('^({HOST})(:{PORT})?$')",
            "not a host; leave out https:// and any path",
            ".server",
            found="self.server",
            allowed="host name or address of a vCenter, with a port if it is not 443",
        ),
        Rule(
            "!self.network.startsWith('/') || self.network.startsWith('/' + self.datacenter + '/network/')",
            "the network is not in the datacenter",
            ".network",
            found="self.network",
            allows="'/%s/network/NAME, or NAME'.format([self.datacenter])",
        ),
        Rule(
            "!has(self.thumbprint) || self.thumbprint == ''"
            " || self.thumbprint.matches('^([0-9A-Fa-f]{2}:){19}[0-9A-Fa-f]{2}$')",
            "not the SHA-1 thumbprint of a certificate; `openssl s_client -connect SERVER:443 </dev/null |"
            " openssl x509 -noout -fingerprint -sha1` prints it",
            ".thumbprint",
            found="self.thumbprint",
            allowed="20 pairs of hexadecimal digits separated by colons, or nothing",
        ),
        Rule(
            "!has(self.failureDomains)"
            " || self.failureDomains.all(one, self.failureDomains.exists_one(other, other.name == one.name))",
            "two failure domains have the same name",
            ".failureDomains",
        ),
        Rule(
            "!has(self.failureDomains) || !has(oldSelf.failureDomains) || self.failureDomains.all(one,"
            " oldSelf.failureDomains.all(old, old.name != one.name || old == one))",
            "a failure domain can't be changed, because machines run there; add another one, and move groups",
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
    ] = ""
    insecure: Annotated[bool, Meta(description="True if the vCenter's certificate is not verified.")] = False
    failure_domains: Annotated[
        list[FailureDomain],
        Meta(
            description="Parts of the datacenter that fail independently.",
            extra_json_schema=ATOMIC | {"maxItems": 32},
        ),
    ] = []


@eksa_kind(
    Column("Server", ".spec.server", "string", "vCenter"),
    Column("Datacenter", ".spec.datacenter", "string", "Datacenter of the vCenter"),
    VALID,
    AGE,
)
class VSphereDatacenterConfig(KubeObject, kw_only=True):
    """The datacenter that the machines of a vSphere cluster run in."""

    spec: VSphereDatacenterConfigSpec
    status: CheckedDatacenter = CheckedDatacenter()


class VSphereMachineConfigSpec(Part, kw_only=True):
    """The settings of virtual machines."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *_required("datastore", "resourcePool"),
        host_os.family_rule("vSphere", (BOTTLEROCKET, UBUNTU, REDHAT)),
        Rule(
            f"!{host_os.IS_BOTTLEROCKET} || !has(self.users)"
            f" || self.users.all(user, !has(user.name) || user.name in ['', '{BOTTLEROCKET_USER}'])",
            "Bottlerocket supports no other user",
            ".users",
            allowed=BOTTLEROCKET_USER,
        ),
        *host_os.settings_rules(),
        same(MACHINE_CHANGED, "osFamily", BOTTLEROCKET),
        *unchanged(MACHINE_CHANGED, "storagePolicyName"),
    )

    datastore: Annotated[str, Meta(description="Datastore: a name, or an inventory path.", extra_json_schema=_PATH)]
    folder: Annotated[
        str,
        Meta(
            description="Folder: a name, or an inventory path. Defaults to the datacenter's folder of machines.",
            extra_json_schema=_PATH,
        ),
    ] = ""
    resource_pool: Annotated[
        str, Meta(description="Resource pool: a name, or an inventory path.", extra_json_schema=_PATH)
    ]
    memory_mi_b: Annotated[
        int,
        Meta(
            description="Memory in MiB. Less than 2048 is raised to it, of external etcd less than 8192; 0 means 8192.",
            extra_json_schema=_COUNT,
        ),
    ] = msgspec.field(default=0, name="memoryMiB")
    num_cpus: Annotated[
        int | None, Meta(description="Virtual CPUs. Less than 2 is raised to it.", extra_json_schema=_COUNT)
    ] = msgspec.field(default=None, name="numCPUs")
    disk_gi_b: Annotated[
        int | None,
        Meta(
            description="Size of the disk in GiB. Less than 20 is raised to it. Defaults to the template's.",
            extra_json_schema=_COUNT,
        ),
    ] = msgspec.field(default=None, name="diskGiB")
    os_family: Annotated[
        str,
        Meta(
            description="Operating system of the template; bottlerocket if empty.", extra_json_schema={"maxLength": 64}
        ),
    ] = ""
    template: Annotated[
        str,
        Meta(
            description="Template that machines are cloned from: a name, or an inventory path.",
            extra_json_schema=_PATH,
        ),
    ] = ""
    clone_mode: Annotated[
        Literal["fullClone", "linkedClone"] | None,
        Meta(
            description="How to clone the template. Defaults to linkedClone if the template has a snapshot and a disk "
            "of the requested size."
        ),
    ] = None
    storage_policy_name: Annotated[
        str, Meta(description="Storage policy of the machines.", extra_json_schema=_PATH)
    ] = ""
    networks: Annotated[
        list[Annotated[str, Meta(extra_json_schema=_PATH)]],
        Meta(
            description="Networks of workers, instead of the datacenter's; at most two.",
            extra_json_schema=ATOMIC | {"maxItems": 2},
        ),
    ] = []
    tags: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 1024})]],
        Meta(description="IDs of tags to attach to machines.", extra_json_schema=ATOMIC | {"maxItems": 128}),
    ] = []
    users: Users = []
    host_os_configuration: HostSettings = msgspec.field(default=None, name="hostOSConfiguration")

    @property
    def os(self) -> str:
        """The operating system of the machines."""
        return self.os_family or BOTTLEROCKET

    @property
    def default_user(self) -> str:
        """The name of a user without a name."""
        return BOTTLEROCKET_USER if self.os == BOTTLEROCKET else "capv"


class Resolved(Observed, frozen=True):
    """Inventory paths of objects that the spec names by a pattern or leaves out."""

    datastore: Annotated[str, Meta(description="Path of the datastore.")] = ""
    folder: Annotated[str, Meta(description="Path of the folder.")] = ""
    resource_pool: Annotated[str, Meta(description="Path of the resource pool.")] = ""
    template: Annotated[str, Meta(description="Path of the template.")] = ""
    templates: Annotated[
        dict[str, str], Meta(description="Path of the template for each Kubernetes version, if the spec names none.")
    ] = {}
    clone_mode: Annotated[
        str,
        Meta(description="fullClone if the spec sets no mode and the disk of linked clones would be too small."),
    ] = ""


class VSphereMachineConfigStatus(CheckedMachines, frozen=True):
    """The result of checking a machine config against the vCenter."""

    resolved: Annotated[Resolved, Meta(description="Inventory paths that were found.")] = Resolved()


@eksa_kind(
    Column("OS", ".spec.osFamily", "string", "Operating system"),
    Column("CPUs", ".spec.numCPUs", "integer", "Virtual CPUs"),
    Column("Memory", ".spec.memoryMiB", "integer", "Memory in MiB"),
    Column("Template", ".spec.template", "string", "Template that machines are cloned from", 1),
    VALID,
    AGE,
)
class VSphereMachineConfig(KubeObject, kw_only=True):
    """The settings of a vSphere cluster's machines."""

    spec: VSphereMachineConfigSpec
    status: VSphereMachineConfigStatus = VSphereMachineConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (VSphereDatacenterConfig, VSphereMachineConfig)
