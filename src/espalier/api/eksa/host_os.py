"""The operating system of machines, as machine configs of several providers ask for it: users, and what they find."""

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
    """A user of the machines, with the keys by which he logs in."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.name.matches('^[a-z_][a-z0-9_-]*$')",
            "not a name of a user of Linux",
            ".name",
            found="self.name == '' ? 'nothing' : self.name",
            allowed="at most 32 small letters, digits, dashes and underscores, beginning with a letter",
        ),
        # What was found is not quoted: it may be a private key.
        Rule(
            "self.sshAuthorizedKeys.size() == 0 || self.sshAuthorizedKeys[0] == ''"
            f" || self.sshAuthorizedKeys[0].matches('{_PUBLIC_KEY}')",
            "not a public key of SSH; give the one line of a file that ends with .pub",
            ".sshAuthorizedKeys",
            allowed="a line like ssh-ed25519 AAAA... name",
        ),
    )

    name: Annotated[str, Meta(description="Name of the user.", extra_json_schema={"maxLength": 32})]
    ssh_authorized_keys: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 4096})]],
        Meta(
            description="Public keys by which the user logs in. The first is used.",
            extra_json_schema=ATOMIC | {"maxItems": 10},
        ),
    ]


Users = Annotated[
    list[UserConfiguration],
    Meta(description="Users of the machines. The first is made.", extra_json_schema=ATOMIC | {"maxItems": 10}),
]


class NtpConfiguration(Part):
    """Where machines get the time."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.servers.size() > 0 && self.servers.all(one, one.matches('^[A-Za-z0-9.:_-]+$'))",
            "say from which servers machines get the time",
            ".servers",
            found="self.servers.size() > 0 ? self.servers.join(', ') : 'nothing'",
            allowed="host names and addresses",
        ),
    )

    servers: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 253})]],
        Meta(description="Host names or addresses of time servers.", extra_json_schema=ATOMIC | _FEW),
    ]


class CertBundle(Part):
    """Certificates that machines trust."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.name.matches('^[A-Za-z0-9_-]+$')",
            "settings of the machine contain it",
            ".name",
            found="self.name == '' ? 'nothing' : self.name",
            allowed="letters, digits, dashes and underscores",
        ),
        # What was found is not quoted: it may be a private key.
        Rule(
            "self.data.contains('-----BEGIN CERTIFICATE-----') && !self.data.contains('PRIVATE KEY')",
            "not certificates",
            ".data",
            allowed="certificates in PEM format",
        ),
    )

    name: Annotated[str, Meta(description="Name of the bundle.", extra_json_schema={"maxLength": 253})]
    data: Annotated[str, Meta(description="Certificates in PEM format.", extra_json_schema={"maxLength": 262144})]


class BottlerocketBoot(Part):
    """Parameters of the kernel at boot."""

    boot_kernel_parameters: Annotated[
        dict[str, Texts], Meta(description="Parameters of the kernel, and their values.", extra_json_schema=_MAP)
    ] = {}


class BottlerocketKernel(Part):
    """Settings of the kernel."""

    sysctl_settings: Annotated[Settings, Meta(description="Settings as sysctl has them.")] = {}


class BottlerocketKubernetes(Part):
    """Settings of the kubelet, as Bottlerocket has them."""

    allowed_unsafe_sysctls: Annotated[Texts, Meta(description="Unsafe sysctls that pods may ask for.")] = []
    cluster_dns_ips: Annotated[Texts, Meta(description="Addresses of the cluster's DNS.")] = msgspec.field(
        default_factory=list, name="clusterDNSIPs"
    )
    cluster_domain: Annotated[Text, Meta(description="DNS domain of the cluster.")] = ""
    container_log_max_files: Annotated[int | None, Meta(description="Log files kept of a container.")] = None
    container_log_max_size: Annotated[Text, Meta(description="Size at which a log file is rotated.")] = ""
    cpu_cfs_quota: Annotated[bool | None, Meta(description="True if limits of CPU are enforced.")] = msgspec.field(
        default=None, name="cpuCFSQuota"
    )
    cpu_manager_policy: Annotated[Text, Meta(description="How CPUs are assigned to containers.")] = ""
    cpu_manager_policy_options: Annotated[Settings, Meta(description="Options of that policy.")] = {}
    cpu_manager_reconcile_period: Annotated[Text, Meta(description="How often the assignment is checked.")] = ""
    event_burst: Annotated[int | None, Meta(description="Events that may be sent at once.")] = None
    event_record_qps: Annotated[int | None, Meta(description="Events that may be sent in a second.")] = msgspec.field(
        default=None, name="eventRecordQPS"
    )
    eviction_hard: Annotated[Settings, Meta(description="Signals and thresholds at which pods are evicted.")] = {}
    eviction_max_pod_grace_period: Annotated[
        int | None, Meta(description="Longest grace period, in seconds, of pods that are evicted at a soft threshold.")
    ] = None
    eviction_soft: Annotated[Settings, Meta(description="Thresholds at which pods are evicted after a while.")] = {}
    eviction_soft_grace_period: Annotated[Settings, Meta(description="How long a soft threshold is passed.")] = {}
    image_gc_high_threshold_percent: Annotated[
        int | None, Meta(description="Use of the disk at which images are removed.")
    ] = msgspec.field(default=None, name="imageGCHighThresholdPercent")
    image_gc_low_threshold_percent: Annotated[
        int | None, Meta(description="Use of the disk down to which images are removed.")
    ] = msgspec.field(default=None, name="imageGCLowThresholdPercent")
    kube_api_burst: Annotated[int | None, Meta(description="Requests to the API server at once.")] = msgspec.field(
        default=None, name="kubeAPIBurst"
    )
    kube_api_qps: Annotated[int | None, Meta(description="Requests to the API server in a second.")] = msgspec.field(
        default=None, name="kubeAPIQPS"
    )
    kube_reserved: Annotated[Settings, Meta(description="Resources kept for components of Kubernetes.")] = {}
    max_pods: Annotated[int | None, Meta(description="Most pods of a node.")] = None
    memory_manager_policy: Annotated[Text, Meta(description="How memory is assigned to containers.")] = ""
    pod_pids_limit: Annotated[int | None, Meta(description="Most processes of a pod.")] = None
    provider_id: Annotated[Text, Meta(description="The infrastructure's name of the machine.")] = msgspec.field(
        default="", name="providerID"
    )
    registry_burst: Annotated[int | None, Meta(description="Images that may be pulled at once.")] = None
    registry_pull_qps: Annotated[int | None, Meta(description="Images that may be pulled in a second.")] = (
        msgspec.field(default=None, name="registryPullQPS")
    )
    shutdown_grace_period: Annotated[Text, Meta(description="How long a shutdown waits for pods.")] = ""
    shutdown_grace_period_critical_pods: Annotated[
        Text, Meta(description="How much of that is kept for critical pods.")
    ] = ""
    system_reserved: Annotated[Settings, Meta(description="Resources kept for the operating system.")] = {}
    topology_manager_policy: Annotated[Text, Meta(description="How resources are aligned to NUMA nodes.")] = ""
    topology_manager_scope: Annotated[Text, Meta(description="What is aligned: containers or pods.")] = ""


class BottlerocketConfiguration(Part):
    """Settings of Bottlerocket."""

    boot: Annotated[BottlerocketBoot | None, Meta(description="What the kernel is told at boot.")] = None
    kernel: Annotated[BottlerocketKernel | None, Meta(description="Settings of the kernel.")] = None
    kubernetes: Annotated[BottlerocketKubernetes | None, Meta(description="Settings of the kubelet.")] = None


class HostOSConfiguration(Part):
    """Settings of the operating system."""

    ntp_configuration: Annotated[NtpConfiguration | None, Meta(description="Where machines get the time.")] = None
    bottlerocket_configuration: Annotated[
        BottlerocketConfiguration | None, Meta(description="Settings of Bottlerocket.")
    ] = None
    cert_bundles: Annotated[
        list[CertBundle],
        Meta(description="Certificates that machines with Bottlerocket trust.", extra_json_schema=ATOMIC | _FEW),
    ] = []


IS_BOTTLEROCKET = f"self.osFamily in ['', '{BOTTLEROCKET}']"
"""Of the spec of a machine config whose `osFamily` may be empty."""

SETTINGS_RULES = (
    Rule(
        "!has(self.hostOSConfiguration) || !has(self.hostOSConfiguration.bottlerocketConfiguration)"
        " || !has(self.hostOSConfiguration.bottlerocketConfiguration.kubernetes)"
        " || !has(self.hostOSConfiguration.bottlerocketConfiguration.kubernetes.providerID)",
        "each machine has its own; remove the field",
        ".hostOSConfiguration.bottlerocketConfiguration.kubernetes.providerID",
        found="self.hostOSConfiguration.bottlerocketConfiguration.kubernetes.providerID",
        allowed="nothing",
    ),
    Rule(
        f"{IS_BOTTLEROCKET} || !has(self.hostOSConfiguration)"
        " || !has(self.hostOSConfiguration.bottlerocketConfiguration)",
        "machines with another operating system have no such settings; remove the field",
        ".hostOSConfiguration.bottlerocketConfiguration",
        found="self.osFamily",
        allowed=BOTTLEROCKET,
    ),
    Rule(
        f"{IS_BOTTLEROCKET} || !has(self.hostOSConfiguration)"
        " || !has(self.hostOSConfiguration.certBundles) || self.hostOSConfiguration.certBundles.size() == 0",
        "EKS Anywhere gives certificates to machines with Bottlerocket alone; remove the field, and put them "
        "into the template",
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
        "say who may log in to the machines, like name: capv with a public key of SSH",
        ".users",
        found="'nothing'",
        creation=True,
    ),
)
"""About `osFamily`, `hostOSConfiguration` and `users` of a machine config."""
