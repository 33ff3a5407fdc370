"""The operating system in machine configs of several providers: users and settings."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.eksa.parts import kubelet
from espalier.api.eksa.parts.fields import keys_rule
from espalier.api.eksa.parts.hosts import LOCAL_NAMES
from espalier.api.kinds import ATOMIC, MANY, Rule
from espalier.api.meta import Part
from espalier.api.text import patterns
from espalier.api.text.forms import LETTER_OR_UNDERSCORE, Form

UBUNTU, REDHAT, BOTTLEROCKET = "ubuntu", "redhat", "bottlerocket"

_TEXT = {"maxLength": 512}
_FEW = {"maxItems": 16}
_MAP = {"maxProperties": 100}

_PUBLIC_KEY = "^ *(ssh|ecdsa|sk)-[a-z0-9@.-]+ +AAAA[A-Za-z0-9+/]+=*( .*)?[[:space:]]*$"

Text = Annotated[str, Meta(extra_json_schema=_TEXT)]
Texts = Annotated[list[Text], Meta(extra_json_schema=ATOMIC | MANY)]
Lines = Annotated[
    list[Annotated[str, Meta(extra_json_schema=_TEXT | {"pattern": patterns.ONE_LINE})]],
    Meta(extra_json_schema=ATOMIC | MANY),
]
Settings = Annotated[dict[str, Text], Meta(extra_json_schema=_MAP)]

_BUNDLE = Form("-_", first="", last="")
_USER = Form("-_", longest=32, is_lower=True, first=LETTER_OR_UNDERSCORE, last="")
_SYSCTL, _PARAMETER = Form("./_-", longest=128, first="", last=""), "^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$"
"""Names that Bottlerocket takes."""
_ITSELF = f"{LOCAL_NAMES}|127[.]0[.][0-9]+[.][0-9]+|0[.]0[.]0[.]0|[0:]+:0{{0,3}}1?"
"""Hosts that are the machine itself. A link-local address may be the time server of a cloud."""


def _form(pattern: str) -> dict[str, Any]:
    """Extra schema of text of this form."""
    return _TEXT | {"pattern": pattern}


_Duration = Annotated[str, Meta(extra_json_schema=_form(patterns.OPTIONAL_DURATION))]
_Size = Annotated[str, Meta(extra_json_schema=_form(patterns.OPTIONAL_SIZE))]
"""Empty ones are as if they were left out."""
_Sysctls = Annotated[
    list[Annotated[str, Meta(extra_json_schema=_form(patterns.SYSCTL))]], Meta(extra_json_schema=ATOMIC | MANY)
]
_Lines = Annotated[
    dict[str, Annotated[str, Meta(extra_json_schema=_form(patterns.FILLED_LINE))]], Meta(extra_json_schema=_MAP)
]
_Thresholds = Annotated[
    dict[str, Annotated[str, Meta(extra_json_schema=_form(patterns.THRESHOLD))]], Meta(extra_json_schema=_MAP)
]
_Durations = Annotated[
    dict[str, Annotated[str, Meta(extra_json_schema=_form(patterns.DURATION))]], Meta(extra_json_schema=_MAP)
]
_Quantities = Annotated[
    dict[str, Annotated[str, Meta(extra_json_schema=_form(patterns.QUANTITY))]], Meta(extra_json_schema=_MAP)
]


def _like(name: str) -> dict[str, Any]:
    """Extra schema of a field that the kubelet has as well: its limits."""
    return {key: given for key, given in kubelet.SCHEMA["properties"][name].items() if key != "type"}


class UserConfiguration(Part):
    """A user of the machines, with SSH keys."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.name) || self.name == '' || self.name.matches('{_USER.pattern}')",
            "not a Linux user name",
            ".name",
            found="self.name",
            allowed=_USER.words,
        ),
        # What was found is not quoted: it may be a private key.
        Rule(
            "!has(self.sshAuthorizedKeys) || self.sshAuthorizedKeys.size() == 0 || self.sshAuthorizedKeys[0] == ''"
            f" || self.sshAuthorizedKeys[0].matches('{_PUBLIC_KEY}')",
            "not an SSH public key; set it to the line in a .pub file",
            ".sshAuthorizedKeys",
            allowed="a line like ssh-ed25519 AAAA... name",
        ),
    )

    name: Annotated[
        str, Meta(description="Name of the user. Defaults to EKS Anywhere's.", extra_json_schema={"maxLength": 32})
    ] = ""
    ssh_authorized_keys: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 4096})]],
        Meta(
            description="SSH public keys of the user. Only the first is used; without one, nobody can log in.",
            extra_json_schema=ATOMIC | {"maxItems": 10},
        ),
    ] = []


Users = Annotated[
    list[UserConfiguration],
    Meta(description="Users of the machines. Only the first is created.", extra_json_schema=ATOMIC | {"maxItems": 10}),
]


class NtpConfiguration(Part):
    """NTP servers of the machines."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.servers.size() > 0 && self.servers.all(one, one.matches('^[A-Za-z0-9.:_-]+$'))",
            "set the NTP servers of the machines",
            ".servers",
            found="self.servers.size() > 0 ? self.servers.join(', ') : 'nothing'",
            allowed="host names and addresses",
        ),
        Rule(
            f"!self.servers.exists(one, one.lowerAscii().matches('^({_ITSELF})[.]?$'))",
            "a machine can't get the time from itself",
            ".servers",
            found=f"self.servers.filter(one, one.lowerAscii().matches('^({_ITSELF})[.]?$'))[0]",
            allowed="host names and addresses of other machines",
        ),
    )

    servers: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 253})]],
        Meta(description="Host names or addresses of NTP servers.", extra_json_schema=ATOMIC | _FEW),
    ]


class CertBundle(Part):
    """Certificates that machines trust."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.name.matches('{_BUNDLE.pattern}')",
            "not a name that the machine's settings can contain",
            ".name",
            found="self.name == '' ? 'nothing' : self.name",
            allowed=_BUNDLE.words,
        ),
        # What was found is not quoted: it may be a private key.
        Rule(
            "self.data.contains('-----BEGIN CERTIFICATE-----') && !self.data.contains('PRIVATE KEY')",
            "not PEM certificates",
            ".data",
            allowed="certificates in PEM format",
        ),
    )

    name: Annotated[str, Meta(description="Name of the bundle.", extra_json_schema={"maxLength": 253})]
    data: Annotated[str, Meta(description="Certificates in PEM format.", extra_json_schema={"maxLength": 262144})]


class BottlerocketBoot(Part):
    """Kernel boot parameters."""

    validations: ClassVar[tuple[Rule, ...]] = (
        keys_rule(
            "bootKernelParameters",
            f"!k.matches('{_PARAMETER}')",
            "not the name of a kernel parameter; its values are a list below it",
            "letters, digits, dashes and underscores, with dots between them",
        ),
    )

    boot_kernel_parameters: Annotated[
        dict[str, Lines], Meta(description="Kernel parameters, and their values.", extra_json_schema=_MAP)
    ] = {}


class BottlerocketKernel(Part):
    """Settings of the kernel."""

    validations: ClassVar[tuple[Rule, ...]] = (
        keys_rule(
            "sysctlSettings",
            f"!k.matches('{_SYSCTL.pattern}')",
            "not the name of a sysctl",
            _SYSCTL.words,
        ),
    )

    sysctl_settings: Annotated[_Lines, Meta(description="sysctl settings.")] = {}


class BottlerocketKubernetes(Part):
    """Kubelet settings of Bottlerocket. Values are limited to those with which kubelets start (`kubelet.py`)."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.clusterDNSIPs) || self.clusterDNSIPs.all(one, isIP(one))",
            "not an IP address",
            ".clusterDNSIPs",
            found="self.clusterDNSIPs.filter(one, !isIP(one))[0]",
            allowed="IP addresses",
        ),
        *(
            keys_rule(name, f"!(k in {list(names)})", message, ", ".join(names))
            for name, names, message in (
                ("evictionHard", kubelet.SIGNALS, "not an eviction signal"),
                ("evictionSoft", kubelet.SIGNALS, "not an eviction signal"),
                ("evictionSoftGracePeriod", kubelet.SIGNALS, "not an eviction signal"),
                ("kubeReserved", kubelet.RESERVABLE, "not a resource that can be reserved"),
                ("systemReserved", kubelet.RESERVABLE, "not a resource that can be reserved"),
            )
        ),
        Rule(
            "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent)"
            " || self.imageGCLowThresholdPercent < self.imageGCHighThresholdPercent",
            "must be below imageGCHighThresholdPercent",
            ".imageGCLowThresholdPercent",
            found="self.imageGCLowThresholdPercent",
        ),
    )

    allowed_unsafe_sysctls: Annotated[
        _Sysctls,
        Meta(description="Unsafe sysctls that pods may use."),
    ] = []
    cluster_dns_ips: Annotated[Texts, Meta(description="Addresses of the cluster's DNS.")] = msgspec.field(
        default_factory=list, name="clusterDNSIPs"
    )
    cluster_domain: Annotated[Text, Meta(description="DNS domain of the cluster.")] = ""
    container_log_max_files: Annotated[int | None, Meta(description="Number of log files kept for each container.")] = (
        None
    )
    container_log_max_size: Annotated[_Size, Meta(description="Size at which a log file is rotated.")] = ""
    cpu_cfs_quota: Annotated[bool | None, Meta(description="True if CPU limits are enforced.")] = msgspec.field(
        default=None, name="cpuCFSQuota"
    )
    cpu_manager_policy: Annotated[
        Text, Meta(description="How CPUs are assigned to containers.", extra_json_schema=_like("cpuManagerPolicy"))
    ] = ""
    cpu_manager_policy_options: Annotated[Settings, Meta(description="Options of that policy.")] = {}
    cpu_manager_reconcile_period: Annotated[_Duration, Meta(description="How often the assignment is checked.")] = ""
    event_burst: Annotated[int | None, Meta(description="Burst of events.", extra_json_schema=_like("eventBurst"))] = (
        None
    )
    event_record_qps: Annotated[
        int | None, Meta(description="Events per second.", extra_json_schema=_like("eventRecordQPS"))
    ] = msgspec.field(default=None, name="eventRecordQPS")
    eviction_hard: Annotated[_Thresholds, Meta(description="Hard eviction thresholds, by signal.")] = {}
    eviction_max_pod_grace_period: Annotated[
        int | None, Meta(description="Longest grace period, in seconds, of pods evicted at a soft threshold.")
    ] = None
    eviction_soft: Annotated[_Thresholds, Meta(description="Soft eviction thresholds, by signal.")] = {}
    eviction_soft_grace_period: Annotated[
        _Durations, Meta(description="Grace periods of soft eviction thresholds.")
    ] = {}
    image_gc_high_threshold_percent: Annotated[
        int | None,
        Meta(
            description="Disk usage at which image garbage collection starts.",
            extra_json_schema=_like("imageGCHighThresholdPercent"),
        ),
    ] = msgspec.field(default=None, name="imageGCHighThresholdPercent")
    image_gc_low_threshold_percent: Annotated[
        int | None,
        Meta(
            description="Disk usage down to which images are garbage collected.",
            extra_json_schema=_like("imageGCLowThresholdPercent"),
        ),
    ] = msgspec.field(default=None, name="imageGCLowThresholdPercent")
    kube_api_burst: Annotated[
        int | None, Meta(description="Burst of requests to the API server.", extra_json_schema=_like("kubeAPIBurst"))
    ] = msgspec.field(default=None, name="kubeAPIBurst")
    kube_api_qps: Annotated[
        int | None, Meta(description="Requests to the API server per second.", extra_json_schema=_like("kubeAPIQPS"))
    ] = msgspec.field(default=None, name="kubeAPIQPS")
    kube_reserved: Annotated[_Quantities, Meta(description="Resources reserved for Kubernetes components.")] = {}
    max_pods: Annotated[
        int | None, Meta(description="Maximum number of pods on a node.", extra_json_schema=_like("maxPods"))
    ] = None
    memory_manager_policy: Annotated[
        Text, Meta(description="How memory is assigned to containers.", extra_json_schema=_like("memoryManagerPolicy"))
    ] = ""
    pod_pids_limit: Annotated[int | None, Meta(description="Maximum number of processes in a pod.")] = None
    provider_id: Annotated[Text, Meta(description="Provider ID of the machine.")] = msgspec.field(
        default="", name="providerID"
    )
    registry_burst: Annotated[
        int | None, Meta(description="Burst of image pulls.", extra_json_schema=_like("registryBurst"))
    ] = None
    registry_pull_qps: Annotated[
        int | None, Meta(description="Image pulls per second.", extra_json_schema=_like("registryPullQPS"))
    ] = msgspec.field(default=None, name="registryPullQPS")
    shutdown_grace_period: Annotated[_Duration, Meta(description="How long a shutdown waits for pods.")] = ""
    shutdown_grace_period_critical_pods: Annotated[
        _Duration, Meta(description="Part of that time for critical pods.")
    ] = ""
    system_reserved: Annotated[_Quantities, Meta(description="Resources reserved for the operating system.")] = {}
    topology_manager_policy: Annotated[
        Text,
        Meta(description="How resources are aligned to NUMA nodes.", extra_json_schema=_like("topologyManagerPolicy")),
    ] = ""
    topology_manager_scope: Annotated[
        Text, Meta(description="Unit of alignment: container or pod.", extra_json_schema=_like("topologyManagerScope"))
    ] = ""


class BottlerocketConfiguration(Part):
    """Settings of Bottlerocket."""

    boot: Annotated[BottlerocketBoot | None, Meta(description="Kernel boot parameters.")] = None
    kernel: Annotated[BottlerocketKernel | None, Meta(description="Settings of the kernel.")] = None
    kubernetes: Annotated[BottlerocketKubernetes | None, Meta(description="Settings of the kubelet.")] = None


class HostOSConfiguration(Part):
    """Settings of the operating system."""

    ntp_configuration: Annotated[NtpConfiguration | None, Meta(description="NTP servers of the machines.")] = None
    bottlerocket_configuration: Annotated[
        BottlerocketConfiguration | None, Meta(description="Settings of Bottlerocket.")
    ] = None
    cert_bundles: Annotated[
        list[CertBundle],
        Meta(description="Certificates that machines with Bottlerocket trust.", extra_json_schema=ATOMIC | _FEW),
    ] = []


BOTTLEROCKET_USER = "ec2-user"
"""The only user of machines with Bottlerocket."""

HostSettings = Annotated[HostOSConfiguration | None, Meta(description="Settings of the operating system.")]

IS_BOTTLEROCKET = f"(!has(self.osFamily) || self.osFamily in ['', '{BOTTLEROCKET}'])"
"""On the spec of a machine config; without `osFamily` it is Bottlerocket."""


def family_rule(provider: str, families: Sequence[str], allowed: Sequence[str] = ()) -> Rule:
    """The rule about `osFamily`. `allowed` are those that its message names, if not all."""
    return Rule(
        f"!has(self.osFamily) || self.osFamily in {['', *families]}",
        f"not an operating system for machines on {provider}",
        ".osFamily",
        found="self.osFamily",
        allowed=", ".join(allowed or families),
    )


def settings_rules(allowed: str = BOTTLEROCKET) -> tuple[Rule, ...]:
    """Rules about `osFamily` and `hostOSConfiguration` of a machine config. `allowed` is empty where clusters may have
    no machines with Bottlerocket.
    """
    return (
        Rule(
            "!has(self.hostOSConfiguration) || !has(self.hostOSConfiguration.bottlerocketConfiguration)"
            " || !has(self.hostOSConfiguration.bottlerocketConfiguration.kubernetes)"
            " || !has(self.hostOSConfiguration.bottlerocketConfiguration.kubernetes.providerID)",
            "each machine has its own provider ID; remove the field",
            ".hostOSConfiguration.bottlerocketConfiguration.kubernetes.providerID",
            found="self.hostOSConfiguration.bottlerocketConfiguration.kubernetes.providerID",
            allowed="nothing",
        ),
        Rule(
            f"{IS_BOTTLEROCKET} || !has(self.hostOSConfiguration)"
            " || !has(self.hostOSConfiguration.bottlerocketConfiguration)",
            "only machines with Bottlerocket have these settings; remove the field",
            ".hostOSConfiguration.bottlerocketConfiguration",
            found="self.osFamily",
            allowed=allowed,
        ),
        Rule(
            f"{IS_BOTTLEROCKET} || !has(self.hostOSConfiguration)"
            " || !has(self.hostOSConfiguration.certBundles) || self.hostOSConfiguration.certBundles.size() == 0",
            "EKS Anywhere installs certificates only on machines with Bottlerocket; remove the field, and add them to "
            "the template",
            ".hostOSConfiguration.certBundles",
            found="self.osFamily",
            allowed=allowed,
        ),
    )


NEEDS_USER = Rule(
    "oldSelf.hasValue() || has(self.users) && self.users.size() > 0",
    f"set a user of the machines, like name: {BOTTLEROCKET_USER} with an SSH public key",
    ".users",
    found="'nothing'",
    creation=True,
)
"""Where EKS Anywhere adds no user itself."""
