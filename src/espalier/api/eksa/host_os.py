"""The operating system in machine configs of several providers: users and settings."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.kinds import ATOMIC, MANY, Rule
from espalier.api.meta import Part

UBUNTU, REDHAT, BOTTLEROCKET = "ubuntu", "redhat", "bottlerocket"

_TEXT = {"maxLength": 512}
_FEW = {"maxItems": 16}
_MAP = {"maxProperties": 100}

_PUBLIC_KEY = "^ *(ssh|ecdsa|sk)-[a-z0-9@.-]+ +AAAA[A-Za-z0-9+/]+=*( .*)?[[:space:]]*$"

Text = Annotated[str, Meta(extra_json_schema=_TEXT)]
Texts = Annotated[list[Text], Meta(extra_json_schema=ATOMIC | MANY)]
Settings = Annotated[dict[str, Text], Meta(extra_json_schema=_MAP)]


class UserConfiguration(Part):
    """A user of the machines, with SSH keys."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.name.matches('^[a-z_][a-z0-9_-]*$')",
            "not a Linux user name",
            ".name",
            found="self.name == '' ? 'nothing' : self.name",
            allowed="at most 32 lower-case letters, digits, dashes and underscores, beginning with a letter",
        ),
        # What was found is not quoted: it may be a private key.
        Rule(
            "self.sshAuthorizedKeys.size() == 0 || self.sshAuthorizedKeys[0] == ''"
            f" || self.sshAuthorizedKeys[0].matches('{_PUBLIC_KEY}')",
            "not an SSH public key; set it to the line in a .pub file",
            ".sshAuthorizedKeys",
            allowed="a line like ssh-ed25519 AAAA... name",
        ),
    )

    name: Annotated[str, Meta(description="Name of the user.", extra_json_schema={"maxLength": 32})]
    ssh_authorized_keys: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 4096})]],
        Meta(
            description="SSH public keys of the user. Only the first is used.",
            extra_json_schema=ATOMIC | {"maxItems": 10},
        ),
    ]


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
    )

    servers: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 253})]],
        Meta(description="Host names or addresses of NTP servers.", extra_json_schema=ATOMIC | _FEW),
    ]


class CertBundle(Part):
    """Certificates that machines trust."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.name.matches('^[A-Za-z0-9_-]+$')",
            "not a name that the machine's settings can contain",
            ".name",
            found="self.name == '' ? 'nothing' : self.name",
            allowed="letters, digits, dashes and underscores",
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

    boot_kernel_parameters: Annotated[
        dict[str, Texts], Meta(description="Kernel parameters, and their values.", extra_json_schema=_MAP)
    ] = {}


class BottlerocketKernel(Part):
    """Settings of the kernel."""

    sysctl_settings: Annotated[Settings, Meta(description="sysctl settings.")] = {}


class BottlerocketKubernetes(Part):
    """Kubelet settings of Bottlerocket."""

    allowed_unsafe_sysctls: Annotated[Texts, Meta(description="Unsafe sysctls that pods may use.")] = []
    cluster_dns_ips: Annotated[Texts, Meta(description="Addresses of the cluster's DNS.")] = msgspec.field(
        default_factory=list, name="clusterDNSIPs"
    )
    cluster_domain: Annotated[Text, Meta(description="DNS domain of the cluster.")] = ""
    container_log_max_files: Annotated[int | None, Meta(description="Number of log files kept for each container.")] = (
        None
    )
    container_log_max_size: Annotated[Text, Meta(description="Size at which a log file is rotated.")] = ""
    cpu_cfs_quota: Annotated[bool | None, Meta(description="True if CPU limits are enforced.")] = msgspec.field(
        default=None, name="cpuCFSQuota"
    )
    cpu_manager_policy: Annotated[Text, Meta(description="How CPUs are assigned to containers.")] = ""
    cpu_manager_policy_options: Annotated[Settings, Meta(description="Options of that policy.")] = {}
    cpu_manager_reconcile_period: Annotated[Text, Meta(description="How often the assignment is checked.")] = ""
    event_burst: Annotated[int | None, Meta(description="Burst of events.")] = None
    event_record_qps: Annotated[int | None, Meta(description="Events per second.")] = msgspec.field(
        default=None, name="eventRecordQPS"
    )
    eviction_hard: Annotated[Settings, Meta(description="Hard eviction thresholds, by signal.")] = {}
    eviction_max_pod_grace_period: Annotated[
        int | None, Meta(description="Longest grace period, in seconds, of pods evicted at a soft threshold.")
    ] = None
    eviction_soft: Annotated[Settings, Meta(description="Soft eviction thresholds, by signal.")] = {}
    eviction_soft_grace_period: Annotated[Settings, Meta(description="Grace periods of soft eviction thresholds.")] = {}
    image_gc_high_threshold_percent: Annotated[
        int | None, Meta(description="Disk usage at which image garbage collection starts.")
    ] = msgspec.field(default=None, name="imageGCHighThresholdPercent")
    image_gc_low_threshold_percent: Annotated[
        int | None, Meta(description="Disk usage down to which images are garbage collected.")
    ] = msgspec.field(default=None, name="imageGCLowThresholdPercent")
    kube_api_burst: Annotated[int | None, Meta(description="Burst of requests to the API server.")] = msgspec.field(
        default=None, name="kubeAPIBurst"
    )
    kube_api_qps: Annotated[int | None, Meta(description="Requests to the API server per second.")] = msgspec.field(
        default=None, name="kubeAPIQPS"
    )
    kube_reserved: Annotated[Settings, Meta(description="Resources reserved for Kubernetes components.")] = {}
    max_pods: Annotated[int | None, Meta(description="Maximum number of pods on a node.")] = None
    memory_manager_policy: Annotated[Text, Meta(description="How memory is assigned to containers.")] = ""
    pod_pids_limit: Annotated[int | None, Meta(description="Maximum number of processes in a pod.")] = None
    provider_id: Annotated[Text, Meta(description="Provider ID of the machine.")] = msgspec.field(
        default="", name="providerID"
    )
    registry_burst: Annotated[int | None, Meta(description="Burst of image pulls.")] = None
    registry_pull_qps: Annotated[int | None, Meta(description="Image pulls per second.")] = msgspec.field(
        default=None, name="registryPullQPS"
    )
    shutdown_grace_period: Annotated[Text, Meta(description="How long a shutdown waits for pods.")] = ""
    shutdown_grace_period_critical_pods: Annotated[Text, Meta(description="Part of that time for critical pods.")] = ""
    system_reserved: Annotated[Settings, Meta(description="Resources reserved for the operating system.")] = {}
    topology_manager_policy: Annotated[Text, Meta(description="How resources are aligned to NUMA nodes.")] = ""
    topology_manager_scope: Annotated[Text, Meta(description="Unit of alignment: container or pod.")] = ""


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


IS_BOTTLEROCKET = f"self.osFamily in ['', '{BOTTLEROCKET}']"
"""On the spec of a machine config; an empty `osFamily` means Bottlerocket."""

SETTINGS_RULES = (
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
        allowed=BOTTLEROCKET,
    ),
    Rule(
        f"{IS_BOTTLEROCKET} || !has(self.hostOSConfiguration)"
        " || !has(self.hostOSConfiguration.certBundles) || self.hostOSConfiguration.certBundles.size() == 0",
        "EKS Anywhere installs certificates only on machines with Bottlerocket; remove the field, and add them to "
        "the template",
        ".hostOSConfiguration.certBundles",
        found="self.osFamily",
        allowed=BOTTLEROCKET,
    ),
)
"""About `osFamily` and `hostOSConfiguration` of a machine config."""

RULES = (
    *SETTINGS_RULES,
    Rule(
        "oldSelf.hasValue() || has(self.users) && self.users.size() > 0",
        "set a user of the machines, like name: capv with an SSH public key",
        ".users",
        found="'nothing'",
        creation=True,
    ),
)
"""About `osFamily`, `hostOSConfiguration` and `users` of a machine config."""
