"""Cluster: what an operator asks for, and what became of it.

All fields that EKS Anywhere knows are here, also those that nothing acts on yet: admission says which those are.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from espalier.api.core import Taint
from espalier.api.eksa import sentences
from espalier.api.eksa.group import EKSA_VERSION, GROUP, VERSION
from espalier.api.eksa.network import ClusterNetwork, ProxyConfiguration, RegistryMirrorConfiguration
from espalier.api.eksa.packages import PackageConfiguration
from espalier.api.eksa.release import BundlesRef
from espalier.api.kinds import (
    AGE,
    ATOMIC,
    INT_OR_STRING,
    LARGEST_INT32,
    MANY,
    PRESERVE,
    Column,
    KubeObject,
    Rule,
    kind,
    listing,
)
from espalier.api.meta import Condition, Observed, Part
from espalier.api.resource import Resource

KUBERNETES_VERSION = r"^[0-9]+\.[0-9]+$"

NAME = r"^[a-zA-Z][a-zA-Z0-9-]+$"
LONGEST_NAME = 35
"""Names of clusters become parts of host names, with room for what is appended."""

LONGEST_GROUP_NAME = 63 - len("-worker-unhealthy") - 1
"""Names of a group and of its cluster together."""

_DNS_LABEL = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
_DNS_NAME = "^([*][.])?[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$"
LABEL_NAME = (
    "^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?"
    "[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
)
"""Names of labels and taints."""

LABEL_VALUE = "^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$"
LABEL_NAMES, LABEL_VALUES = (
    "letters, digits, dashes, dots; a domain and a slash may precede",
    "at most 63 letters, digits, dashes, dots",
)
"""What is allowed, in words."""

FLAG = "^[a-z0-9]+(-[a-z0-9]+)*$"
FLAGS = "a name like audit-log-maxage"

_DURATION = "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"
COUNTABLE_DURATION = "^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?$"
"""With so few digits that CEL can reckon with it."""

SHORTEST_STARTUP = 30
"""Seconds: Cluster API takes no shorter time for a machine to become a node, but for 0, which is any."""

MOST_CONTROL_PLANES = 99
"""Machines of a control plane, and members of etcd: each write waits for a majority of them."""

LARGEST_GROUP = 100_000
"""Machines of a group, far above what a cluster can have (Kubernetes is made for 5,000 nodes): Cluster API counts to
2147483647, and one key that sticks asks for a number in between."""

PERCENTAGE = "^[0-9]{1,9}%$"
GIT_OPS_KINDS = ("FluxConfig", "GitOpsConfig")
"""What `spec.gitOpsRef` may name; the latter is deprecated."""

_PLANE_LIMIT, _GROUP_LIMIT = {"maximum": MOST_CONTROL_PLANES}, {"maximum": LARGEST_GROUP}

Labels = Annotated[
    dict[str, Annotated[str, Meta(extra_json_schema={"maxLength": 63})]],
    Meta(description="Labels of the nodes.", extra_json_schema={"maxProperties": 50}),
]
Taints = Annotated[list[Taint], Meta(description="Taints of the nodes.", extra_json_schema=ATOMIC | {"maxItems": 25})]
KubernetesVersion = Annotated[
    str,
    Meta(
        pattern=KUBERNETES_VERSION,
        extra_json_schema={"maxLength": 10},
        description='Kubernetes minor version in quotes, like "1.35".',
    ),
]


class Ref(Part):
    """Reference to an object of the same namespace."""

    kind: Annotated[str, Meta(min_length=1, description="Kind of the object.")]
    name: Annotated[str, Meta(min_length=1, description="Name of the object.")]


class Endpoint(Part):
    """Where the API server is reached."""

    host: Annotated[str, Meta(description="Address or name, with a port if it is not the usual one.")]


def _is_duration(field: str) -> tuple[Rule, ...]:
    """A duration, and one that Cluster API has room for."""
    given = f"has(self.{field}) && self.{field} != ''"
    form, found = f"self.{field}.matches('{_DURATION}')", f"self.{field}"
    return (
        Rule(f"!({given}) || {form}", sentences.DURATION, f".{field}", found=found, allowed="a duration like 10m0s"),
        Rule(
            f"!({given} && {form}) || {_is_countable(found)} && duration({found}) <= duration('{LARGEST_INT32}s')",
            sentences.LONG,
            f".{field}",
            found=found,
            allowed=f"at most {LARGEST_INT32}s",
        ),
    )


def _is_countable(field: str) -> str:
    return f"{field}.matches('{COUNTABLE_DURATION}')"


_STARTUP = "self.nodeStartupTimeout"


class MachineHealthCheck(Part):
    """When a machine counts as unhealthy, and until how many unhealthy ones they are replaced."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *_is_duration("nodeStartupTimeout"),
        *_is_duration("unhealthyMachineTimeout"),
        Rule(
            f"!has({_STARTUP}) || {_STARTUP} == '' || !{_is_countable(_STARTUP)}"
            f" || duration({_STARTUP}) == duration('0s') || duration({_STARTUP}) >= duration('{SHORTEST_STARTUP}s')",
            sentences.STARTUP,
            ".nodeStartupTimeout",
            found=_STARTUP,
            allowed=f"{SHORTEST_STARTUP}s or more, or 0s",
        ),
    )

    node_startup_timeout: Annotated[
        str, Meta(extra_json_schema={"maxLength": 50}, description="Time for a machine to become a node, like 10m0s.")
    ] = ""
    unhealthy_machine_timeout: Annotated[
        str,
        Meta(
            extra_json_schema={"maxLength": 50},
            description="Time after which a node that is not ready is unhealthy, like 5m0s.",
        ),
    ] = ""
    max_unhealthy: Annotated[
        int | str | None,
        Meta(
            description="Machines are replaced while at most so many, or such a percentage, are unhealthy.",
            extra_json_schema=INT_OR_STRING | {"pattern": PERCENTAGE, "minimum": 0, "maximum": LARGEST_INT32},
        ),
    ] = None


class ControlPlaneRollingUpdate(Part):
    """Limits of a rolling update of the control plane."""

    max_surge: Annotated[int, Meta(ge=0, le=1, description="How many machines there may be beyond the count.")]


_IN_PLACE = "has(self.type) && self.type == 'InPlace'"
_FALLBACK_IN_PLACE = Rule(
    f"!has(self.fallback) || {_IN_PLACE}", sentences.NO_FALLBACK, ".fallback", found="self.fallback", allowed="nothing"
)
_ROLLED_OR_NOT = Rule(
    f"!({_IN_PLACE}) || !has(self.rollingUpdate)",
    sentences.SECOND_ROLLOUT,
    ".rollingUpdate",
    found="'limits'",
    allowed="nothing",
)


class ControlPlaneUpgradeRolloutStrategy(Part):
    """How machines of the control plane are upgraded."""

    validations: ClassVar[tuple[Rule, ...]] = (_FALLBACK_IN_PLACE, _ROLLED_OR_NOT)

    type: Annotated[
        Literal["RollingUpdate", "InPlace"] | None,
        Meta(description="RollingUpdate replaces machines, InPlace upgrades them where they are."),
    ] = None
    rolling_update: Annotated[ControlPlaneRollingUpdate | None, Meta(description="Limits of a rolling update.")] = None
    fallback: Annotated[
        Literal["Fail", "RollingUpdate"] | None,
        Meta(description="What happens to changes that can't be made in place: Fail (the default) or RollingUpdate."),
    ] = None


class WorkerRollingUpdate(Part):
    """Limits of a rolling update of workers."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("self.maxSurge > 0 || self.maxUnavailable > 0", sentences.NO_ROLLOUT, found="'0 and 0'"),
    )

    max_surge: Annotated[
        int, Meta(ge=0, description="How many machines there may be beyond the count.", extra_json_schema=_GROUP_LIMIT)
    ]
    max_unavailable: Annotated[
        int, Meta(ge=0, description="How many machines may be missing from the count.", extra_json_schema=_GROUP_LIMIT)
    ]


class WorkerNodesUpgradeRolloutStrategy(Part):
    """How machines of a group of workers are upgraded."""

    validations: ClassVar[tuple[Rule, ...]] = (
        _FALLBACK_IN_PLACE,
        Rule(
            "!has(self.type) || self.type != 'RollingUpdate' || has(self.rollingUpdate)",
            sentences.NO_LIMITS,
            ".rollingUpdate",
            found="'nothing'",
        ),
    )

    type: Annotated[
        Literal["RollingUpdate", "InPlace"] | None,
        Meta(description="RollingUpdate replaces machines, InPlace upgrades them where they are."),
    ] = None
    rolling_update: Annotated[WorkerRollingUpdate | None, Meta(description="Limits of a rolling update.")] = None
    fallback: Annotated[
        Literal["Fail", "RollingUpdate"] | None,
        Meta(description="What happens to changes that can't be made in place: Fail (the default) or RollingUpdate."),
    ] = None


Kubelet = Annotated[
    dict[str, Any] | None,
    Meta(description="KubeletConfiguration of the nodes.", extra_json_schema=PRESERVE),
]


_BAD_TAINT = f"!t.key.matches('{LABEL_NAME}')"
_TAINT_KEYS = Rule(
    f"!has(self.taints) || !self.taints.exists(t, {_BAD_TAINT})",
    sentences.TAINT_KEY,
    ".taints",
    found=f"self.taints.filter(t, {_BAD_TAINT})[0].key",
    allowed=LABEL_NAMES,
)


def _keys(field: str, is_bad: str, message: str, allowed: str, found: str = "{0}") -> Rule:
    """A rule about each key `k` of a map."""
    first = f"self.{field}.filter(k, {is_bad})[0]"
    rule = f"!has(self.{field}) || !self.{field}.exists(k, {is_bad})"
    return Rule(rule, message, f".{field}", found=found.format(first), allowed=allowed)


_LABELS = (
    _keys("labels", f"!k.matches('{LABEL_NAME}')", sentences.LABEL, LABEL_NAMES),
    _keys(
        "labels",
        f"!self.labels[k].matches('{LABEL_VALUE}')",
        sentences.LABEL_VALUE,
        LABEL_VALUES,
        "self.labels[{0}]",
    ),
)


class ControlPlaneConfiguration(Part):
    """The control plane."""

    validations: ClassVar[tuple[Rule, ...]] = (
        _TAINT_KEYS,
        *_LABELS,
        _keys("apiServerExtraArgs", f"!k.matches('{FLAG}')", sentences.NO_FLAG, FLAGS),
        Rule(
            "self.count >= 3 || !has(self.upgradeRolloutStrategy) || !has(self.upgradeRolloutStrategy.rollingUpdate)"
            " || self.upgradeRolloutStrategy.rollingUpdate.maxSurge > 0",
            sentences.NO_SUCCESSOR,
            ".upgradeRolloutStrategy.rollingUpdate.maxSurge",
            found="0",
            allowed="1",
        ),
        Rule(
            f"!has(self.certSans) || self.certSans.all(name, isIP(name) || name.matches('{_DNS_NAME}'))",
            sentences.CERTIFICATE_NAME,
            ".certSans",
            found=f"self.certSans.filter(name, !isIP(name) && !name.matches('{_DNS_NAME}'))[0]",
            allowed="an IP address or a DNS name",
        ),
    )

    count: Annotated[
        int,
        Meta(ge=1, description="Number of machines; odd when etcd runs on them.", extra_json_schema=_PLANE_LIMIT),
    ]
    endpoint: Annotated[Endpoint | None, Meta(description="Where the API server is reached; not for Docker.")] = None
    machine_group_ref: Annotated[Ref | None, Meta(description="Machine config of the machines; not for Docker.")] = None
    taints: Taints = []
    labels: Labels = {}
    cert_sans: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 253})]],
        Meta(description="More names and addresses in the API server's certificate.", extra_json_schema=ATOMIC | MANY),
    ] = msgspec.field(default_factory=list, name="certSans")
    api_server_extra_args: Annotated[
        dict[str, str],
        Meta(description="Flags of kube-apiserver, without dashes.", extra_json_schema={"maxProperties": 100}),
    ] = {}
    kubelet_configuration: Kubelet = None
    audit_policy_content: Annotated[str, Meta(description="Audit policy of kube-apiserver, as YAML.")] = ""
    skip_admission_for_system_resources: Annotated[
        bool | None, Meta(description="Whether admission plugins leave system resources alone.")
    ] = None
    skip_load_balancer_deployment: Annotated[
        bool, Meta(description="Whether the load balancer of the control plane is left out.")
    ] = False
    machine_health_check: Annotated[
        MachineHealthCheck | None, Meta(description="When machines of the control plane are unhealthy.")
    ] = None
    upgrade_rollout_strategy: Annotated[
        ControlPlaneUpgradeRolloutStrategy | None, Meta(description="How the control plane is upgraded.")
    ] = None


class AutoScalingConfiguration(Part):
    """Limits within which an autoscaler sets the count."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.minCount) ? self.minCount : 0) <= (has(self.maxCount) ? self.maxCount : 0)",
            "minCount must not be more than maxCount",
            ".minCount",
        ),
    )

    min_count: Annotated[int, Meta(ge=0, description="Fewest machines.", extra_json_schema=_GROUP_LIMIT)] = 0
    max_count: Annotated[int, Meta(ge=0, description="Most machines.", extra_json_schema=_GROUP_LIMIT)] = 0


class WorkerNodeGroupConfiguration(Part):
    """A group of equal workers."""

    validations: ClassVar[tuple[Rule, ...]] = (_TAINT_KEYS, *_LABELS)

    name: Annotated[
        str, Meta(extra_json_schema={"maxLength": 63}, description="Name of the group, unique in the cluster.")
    ] = ""
    count: Annotated[
        Annotated[int, Meta(ge=0, extra_json_schema=_GROUP_LIMIT)] | None, Meta(description="Number of machines.")
    ] = None
    machine_group_ref: Annotated[Ref | None, Meta(description="Machine config of the machines; not for Docker.")] = None
    kubernetes_version: Annotated[
        Annotated[str, Meta(pattern=KUBERNETES_VERSION, extra_json_schema={"maxLength": 10})] | None,
        Meta(description="Kubernetes version of the group, if it lags behind the control plane."),
    ] = None
    autoscaling_configuration: Annotated[
        AutoScalingConfiguration | None, Meta(description="Limits within which an autoscaler sets the count.")
    ] = None
    taints: Taints = []
    labels: Labels = {}
    failure_domains: Annotated[
        list[str], Meta(description="Failure domains over which machines are spread.", extra_json_schema=ATOMIC)
    ] = []
    kubelet_configuration: Kubelet = None
    machine_health_check: Annotated[
        MachineHealthCheck | None, Meta(description="When machines of the group are unhealthy.")
    ] = None
    upgrade_rollout_strategy: Annotated[
        WorkerNodesUpgradeRolloutStrategy | None, Meta(description="How the group is upgraded.")
    ] = None


class ExternalEtcdConfiguration(Part):
    """etcd on machines of its own."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("self.count % 2 == 1", "the count must be odd, so that a majority can be found", ".count"),
    )

    count: Annotated[int, Meta(ge=1, description="Number of machines; odd.", extra_json_schema=_PLANE_LIMIT)]
    machine_group_ref: Annotated[Ref | None, Meta(description="Machine config of the machines.")] = None


class KeyManagementService(Part):
    """A KMS plugin beside the API server."""

    name: Annotated[str, Meta(description="Name of the plugin.")]
    socket_listen_address: Annotated[str, Meta(description="Socket of the plugin, unix:///….")]
    cachesize: Annotated[int | None, Meta(description="How many keys are cached.")] = None
    timeout: Annotated[str, Meta(description="How long an answer may take, like 3s.")] = ""


class EtcdEncryptionProvider(Part):
    """What encrypts."""

    kms: Annotated[KeyManagementService, Meta(description="A KMS plugin.")]


class EtcdEncryption(Part):
    """What is encrypted in etcd, and by what."""

    providers: Annotated[list[EtcdEncryptionProvider], Meta(description="What encrypts.", extra_json_schema=ATOMIC)]
    resources: Annotated[list[str], Meta(description="What is encrypted.", extra_json_schema=ATOMIC)]


class ManagementCluster(Part):
    """The cluster that manages this one."""

    name: Annotated[
        str, Meta(description="Name of the managing Cluster; a cluster that names itself is self-managed.")
    ] = ""


class PodIAMConfig(Part):
    """IAM roles for service accounts."""

    service_account_issuer: Annotated[str, Meta(description="Issuer of service account tokens.")]


_NAMED = "(has(self.eksaVersion) && self.eksaVersion != '')"
"""A release that is given as empty text is given as little as one that is left out."""

_GROUPS = "self.workerNodeGroupConfigurations"
_MINOR = "int({0}.split('.')[0]) * 1000 + int({0}.split('.')[1])"
_STEP = f"({_MINOR.format('self.kubernetesVersion')}) - ({_MINOR.format('oldSelf.kubernetesVersion')})"
_PLANE, _STRATEGY = "controlPlaneConfiguration", "upgradeRolloutStrategy"
_LAG = f"({_MINOR.format('self.kubernetesVersion')}) - ({_MINOR.format('g.kubernetesVersion')})"
_LAGS = f"has(g.kubernetesVersion) && !({_LAG} >= 0 && {_LAG} <= 2)"
_NAME_OF = "(has({0}.name) && {0}.name != '' ? {0}.name : 'md-0')"
_OLD_GROUPS = "oldSelf.workerNodeGroupConfigurations"
_SKIPS = (
    f"has(g.kubernetesVersion) && {_OLD_GROUPS}.exists(h, has(h.kubernetesVersion)"
    f" && {_NAME_OF.format('g')} == {_NAME_OF.format('h')}"
    f" && ({_MINOR.format('g.kubernetesVersion')}) - ({_MINOR.format('h.kubernetesVersion')}) > 1)"
)
_ALONE = f"{_GROUPS}.exists_one(h, {_NAME_OF.format('g')} == {_NAME_OF.format('h')})"


class ClusterSpec(Part):
    """What a cluster should be."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.externalEtcdConfiguration) || !has(self.controlPlaneConfiguration)"
            " || self.controlPlaneConfiguration.count % 2 == 1",
            sentences.EVEN,
            ".controlPlaneConfiguration.count",
            found="self.controlPlaneConfiguration.count",
            allowed="1, 3, 5, …",
        ),
        Rule(
            f"!{_NAMED} || !has(self.bundlesRef)",
            sentences.BOTH,
            ".bundlesRef",
            found="self.bundlesRef.name",
            allowed="nothing",
        ),
        Rule(
            f"oldSelf.hasValue() || !has(self.bundlesRef) || {_NAMED}",
            sentences.NEW_WITH_BUNDLES,
            ".bundlesRef",
            found="self.bundlesRef.name",
            allowed="nothing",
            creation=True,
        ),
        Rule(
            "!has(self.bundlesRef) || has(oldSelf.bundlesRef) && self.bundlesRef == oldSelf.bundlesRef"
            f" || !has(oldSelf.bundlesRef) && {_NAMED}",
            sentences.BUNDLES_CHANGED,
            ".bundlesRef",
            found="self.bundlesRef.name",
            allows="has(oldSelf.bundlesRef) ? oldSelf.bundlesRef.name : 'nothing'",
        ),
        Rule(
            f"!has(oldSelf.bundlesRef) || has(self.bundlesRef) || {_NAMED}",
            sentences.BUNDLES_CLEARED_ALONE,
            ".bundlesRef",
            found="'nothing'",
            allows="oldSelf.bundlesRef.name",
        ),
        Rule(
            f"!has(oldSelf.eksaVersion) || oldSelf.eksaVersion == '' || {_NAMED}",
            sentences.VERSION_UNSET,
            ".eksaVersion",
            found="'nothing'",
            allows="oldSelf.eksaVersion",
        ),
        Rule(
            f"!{_NAMED} || self.eksaVersion.matches('{EKSA_VERSION}')",
            sentences.NOT_SEMVER,
            ".eksaVersion",
            found="self.eksaVersion",
            allowed="a version like v0.26.0",
        ),
        Rule(
            f"!has(self.kubernetesVersion) || !has(oldSelf.kubernetesVersion) || {_STEP} <= 1",
            sentences.KUBERNETES_STEP,
            ".kubernetesVersion",
            found="self.kubernetesVersion",
            allows="'%s or %s.%d'.format([oldSelf.kubernetesVersion, oldSelf.kubernetesVersion.split('.')[0],"
            " int(oldSelf.kubernetesVersion.split('.')[1]) + 1])",
        ),
        Rule(
            f"!has({_GROUPS}) || !has({_OLD_GROUPS}) || !{_GROUPS}.exists(g, {_SKIPS})",
            sentences.KUBERNETES_STEP,
            ".workerNodeGroupConfigurations",
            found=f"{_GROUPS}.filter(g, {_SKIPS})[0].kubernetesVersion",
        ),
        Rule(
            f"!has(self.externalEtcdConfiguration) || !has(self.{_PLANE}) || !has(self.{_PLANE}.{_STRATEGY})"
            f" || !has(self.{_PLANE}.{_STRATEGY}.type) || self.{_PLANE}.{_STRATEGY}.type != 'InPlace'",
            sentences.EXTERNAL_ETCD_IN_PLACE,
            f".{_PLANE}.{_STRATEGY}.type",
            found="'InPlace'",
            allowed="RollingUpdate",
        ),
        Rule(
            f"!has(self.externalEtcdConfiguration) || !has({_GROUPS}) || !{_GROUPS}.exists(g, has(g.{_STRATEGY})"
            f" && has(g.{_STRATEGY}.type) && g.{_STRATEGY}.type == 'InPlace')",
            sentences.EXTERNAL_ETCD_IN_PLACE,
            ".workerNodeGroupConfigurations",
            found="'InPlace'",
            allowed="RollingUpdate",
        ),
        Rule(
            f"!has(self.gitOpsRef) || self.gitOpsRef.kind in {list(GIT_OPS_KINDS)}",
            sentences.GIT_OPS_KIND,
            ".gitOpsRef.kind",
            found="self.gitOpsRef.kind",
            allowed=" or ".join(GIT_OPS_KINDS),
        ),
        Rule(
            f"!has({_GROUPS}) || {_GROUPS}.all(g, {_ALONE})",
            sentences.GROUP_TWICE,
            ".workerNodeGroupConfigurations",
            found=_NAME_OF.format(f"{_GROUPS}.filter(g, !{_ALONE})[0]"),
        ),
        Rule(
            f"!has({_GROUPS}) || size({_GROUPS}) == 0 || {_GROUPS}.exists(g, !has(g.taints)"
            " || !g.taints.exists(t, t.effect in ['NoSchedule', 'NoExecute']))",
            sentences.ALL_TAINTED,
            ".workerNodeGroupConfigurations",
            found="'taints on all groups'",
        ),
        Rule(
            f"!has({_GROUPS}) || !has(self.kubernetesVersion) || !{_GROUPS}.exists(g, {_LAGS})",
            sentences.WORKER_LAG,
            ".workerNodeGroupConfigurations",
            found=f"{_GROUPS}.filter(g, {_LAGS})[0].kubernetesVersion",
            allows="self.kubernetesVersion + ', or up to 2 minor versions before it'",
        ),
    )

    kubernetes_version: KubernetesVersion = ""
    control_plane_configuration: Annotated[ControlPlaneConfiguration | None, Meta(description="The control plane.")] = (
        None
    )
    worker_node_group_configurations: Annotated[
        list[WorkerNodeGroupConfiguration], Meta(description="Groups of workers.", extra_json_schema=ATOMIC | MANY)
    ] = []
    datacenter_ref: Annotated[Ref | None, Meta(description="Where the machines run.")] = None
    cluster_network: Annotated[ClusterNetwork | None, Meta(description="Networks inside the cluster.")] = None
    management_cluster: Annotated[ManagementCluster, Meta(description="The cluster that manages this one.")] = (
        msgspec.field(default_factory=ManagementCluster)
    )
    eksa_version: Annotated[
        str | None,
        Meta(
            extra_json_schema={"maxLength": 100}, description="Release whose components the cluster has, like v0.26.0."
        ),
    ] = None
    bundles_ref: Annotated[
        BundlesRef | None, Meta(description="Bundles of the cluster. Deprecated: use eksaVersion.")
    ] = None
    identity_provider_refs: Annotated[
        list[Ref], Meta(description="Identity providers of the API server.", extra_json_schema=ATOMIC)
    ] = []
    git_ops_ref: Annotated[Ref | None, Meta(description="GitOps configuration.")] = None
    external_etcd_configuration: Annotated[
        ExternalEtcdConfiguration | None, Meta(description="etcd on machines of its own.")
    ] = None
    etcd_encryption: Annotated[
        list[EtcdEncryption], Meta(description="Encryption of data in etcd.", extra_json_schema=ATOMIC)
    ] = []
    proxy_configuration: Annotated[ProxyConfiguration | None, Meta(description="HTTP proxy of the nodes.")] = None
    registry_mirror_configuration: Annotated[
        RegistryMirrorConfiguration | None, Meta(description="Registry that images are pulled from.")
    ] = None
    machine_health_check: Annotated[
        MachineHealthCheck | None, Meta(description="When machines of the cluster are unhealthy.")
    ] = None
    pod_iam_config: Annotated[PodIAMConfig | None, Meta(description="IAM roles for service accounts.")] = msgspec.field(
        default=None, name="podIamConfig"
    )
    packages: Annotated[PackageConfiguration | None, Meta(description="Curated packages.")] = None
    license_token: Annotated[str, Meta(description="Licence for extended support.")] = ""


Phase = Literal["Pending", "Creating", "Upgrading", "Running", "Deleting", "Failed"]


class EksdReleaseRef(Observed, frozen=True):
    """The EKS Distro release of the control plane."""

    api_version: Annotated[str, Meta(description="Version of the API of the release.")]
    kind: Annotated[str, Meta(description="Kind of the release.")]
    name: Annotated[str, Meta(description="Name of the release.")]
    namespace: Annotated[str, Meta(description="Namespace of the release.")] = ""


class ClusterCertificateInfo(Observed, frozen=True):
    """When certificates of a machine expire."""

    machine: Annotated[str, Meta(description="Name of the machine.")]
    expires_in_days: Annotated[int, Meta(description="Days until the first certificate expires.")]


class ClusterStatus(Observed, frozen=True):
    """What became of the spec."""

    conditions: Annotated[
        list[Condition], Meta(description="Observations, one of each type.", extra_json_schema=listing("type"))
    ] = []
    phase: Annotated[Phase | None, Meta(description="Where the cluster is in its life, in a word.")] = None
    spec_valid: Annotated[bool | None, Meta(description="Whether the spec was found valid.")] = None
    ready: Annotated[
        bool | None,
        Meta(
            description="Whether control plane and workers are ready, the CNI is installed and the cluster can be used."
        ),
    ] = None
    control_plane_ready: Annotated[bool | None, Meta(description="Whether the control plane is ready.")] = None
    failure_reason: Annotated[
        str | None, Meta(description="Why an operation failed, in a CamelCase word that programs may rely on.")
    ] = None
    failure_message: Annotated[str | None, Meta(description="Why an operation failed, and what helps.")] = None
    observed_generation: Annotated[
        int,
        Meta(
            description="metadata.generation when the cluster was last reconciled to the end. "
            "Internal: its meaning may change."
        ),
    ] = 0
    children_observed_generation: Annotated[
        int,
        Meta(
            description="Sum of metadata.generation of the linked objects when observedGeneration was written. "
            "Internal: its meaning may change."
        ),
    ] = 0
    reconciled_generation: Annotated[
        int, Meta(description="Written by EKS Anywhere; here it is observedGeneration.")
    ] = 0
    children_reconciled_generation: Annotated[
        int, Meta(description="Written by EKS Anywhere; here it is childrenObservedGeneration.")
    ] = 0
    eksd_release_ref: Annotated[EksdReleaseRef | None, Meta(description="EKS Distro release of the control plane.")] = (
        None
    )
    cluster_certificate_info: Annotated[
        list[ClusterCertificateInfo], Meta(description="When certificates expire.", extra_json_schema=ATOMIC)
    ] = []


def condition_status(type_: str) -> str:
    """JSONPath of the status of a condition."""
    return f'.status.conditions[?(@.type=="{type_}")].status'


_MANAGER = "self.spec.managementCluster.name"
_IS_MANAGED = (
    f"has(self.spec) && has(self.spec.managementCluster) && has({_MANAGER}) && {_MANAGER} != ''"
    f" && {_MANAGER} != self.metadata.name"
)
_FITS = (
    f"(!has(g.name) || g.name == '' || g.name.matches('{_DNS_LABEL}')"
    f" && g.name.size() + self.metadata.name.size() <= {LONGEST_GROUP_NAME})"
)


def _managed_has(field: str, message: str, more: str = "", allowed: str = "") -> Rule:
    """A field that a cluster needs which another one manages; the record of a self-managed one may say less."""
    path = f"self.spec.{field}"
    needed = f"has({path}) && {path}{more}" if more else f"has({path})"
    return Rule(f"!({_IS_MANAGED}) || {needed}", message, f".spec.{field}", found="'nothing'", allowed=allowed)


@kind(
    Resource(GROUP, VERSION, "clusters", "Cluster"),
    short_names=("eksac",),
    categories=("eks-anywhere",),
    columns=(
        Column("Version", ".spec.kubernetesVersion", "string", "Kubernetes version asked for"),
        Column("Control Plane", condition_status("ControlPlaneReady"), "string", "Whether the control plane is ready"),
        Column("Workers", condition_status("WorkersReady"), "string", "Whether all workers are ready"),
        Column("Ready", condition_status("Ready"), "string", "Whether the cluster is ready for use"),
        AGE,
        Column("Phase", ".status.phase", "string", "Where the cluster is in its life", 1),
        Column("Release", ".spec.eksaVersion", "string", "Release whose components the cluster has", 1),
        Column("Managed By", ".spec.managementCluster.name", "string", "Cluster that manages this one", 1),
        Column(
            "Message",
            '.status.conditions[?(@.type=="Ready")].message',
            "string",
            "What the cluster waits for",
            1,
        ),
    ),
    status=True,
)
class Cluster(KubeObject):
    """A Kubernetes cluster."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.metadata.name.matches('{NAME}') && self.metadata.name.matches('{_DNS_LABEL}')",
            sentences.NAME_FORM,
            ".metadata.name",
            found="self.metadata.name",
            allowed=f"{NAME}, lower case, not ending in a dash",
        ),
        Rule(
            f"self.metadata.name.size() <= {LONGEST_NAME}",
            sentences.NAME_LENGTH,
            ".metadata.name",
            found="'%d characters'.format([self.metadata.name.size()])",
            allowed=f"at most {LONGEST_NAME}",
        ),
        _managed_has("kubernetesVersion", sentences.NO_KUBERNETES_VERSION),
        _managed_has("datacenterRef", sentences.NO_DATACENTER),
        _managed_has("controlPlaneConfiguration", sentences.NO_CONTROL_PLANE),
        _managed_has("clusterNetwork", sentences.NO_NETWORK),
        _managed_has("workerNodeGroupConfigurations", sentences.NO_GROUPS, ".size() > 0", "at least one group"),
        *(
            Rule(
                f"!({_IS_MANAGED}) || !has(self.spec.packages) || !has(self.spec.packages.{name})",
                sentences.PACKAGES,
                f".spec.packages.{name}",
                found="'settings'",
                allowed="nothing",
            )
            for name in ("controller", "cronjob")
        ),
        Rule(
            f"!has(self.spec) || !has(self.spec{_GROUPS[4:]}) || self.spec{_GROUPS[4:]}.all(g, {_FITS})",
            sentences.GROUP_NAME,
            ".spec.workerNodeGroupConfigurations",
            found=f"self.spec{_GROUPS[4:]}.filter(g, !{_FITS})[0].name",
            allowed=f"a DNS label, with the name of the cluster at most {LONGEST_GROUP_NAME} characters",
        ),
    )

    spec: ClusterSpec = msgspec.field(default_factory=ClusterSpec)
    status: ClusterStatus = ClusterStatus()
