"""Rules about a single Cluster (EKS Anywhere's; all violations are reported at once)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence

from espalier.api.core import Taint
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.cluster_rules import LONGEST_GROUP_NAME, LONGEST_NAME, NAME
from espalier.api.eksa.parts.fields import (
    KUBELET_LABEL,
    KUBELET_LABELS,
    KUBERNETES_LABEL,
)
from espalier.api.eksa.parts.rollouts import ControlPlaneUpgradeRolloutStrategy, WorkerNodesUpgradeRolloutStrategy
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.vocabulary import sentences
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.text import forms
from espalier.api.text.patterns import LABEL_NAME, LABEL_NAMES, LABEL_VALUE, LABEL_VALUES
from espalier.api.text.violations import Violation
from espalier.clusterapi.kubernetes_versions import MAXIMUM_WORKER_LAG, minor
from espalier.clusters.design import names
from espalier.clusters.design.provider import Provider, Providers
from espalier.clusters.design.render_input import group_name
from espalier.clusters.observe.rules import connections, networks, numbers, unsupported
from espalier.clusters.observe.rules.control_planes import api_server, identity
from espalier.clusters.observe.rules.machines import feature_gates, kubelet

SELF_MANAGED = (
    "a self-managed cluster (spec.managementCluster.name is its own name, or missing) can't be created or changed "
    "through the API, because that would delete its own running controllers: name the cluster that manages it, "
    f"or set annotation {PAUSED_ANNOTATION}, which makes this the record of a cluster that is managed elsewhere"
)

_NAME = re.compile(NAME)
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_DNS_NAME = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(LABEL_VALUE)
_KUBERNETES_LABEL, _KUBELET_LABEL = re.compile(KUBERNETES_LABEL), re.compile(KUBELET_LABEL)
_LABEL_NAME = re.compile(LABEL_NAME)
_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")


def violations(cluster: eksa.Cluster, providers: Providers) -> list[Violation]:
    """All violations of a managed Cluster by itself, including unsupported fields."""
    spec = cluster.spec
    return [
        *name_violations(cluster.metadata.name),
        *_required(spec),
        *_control_plane(spec),
        *_workers(spec, cluster.metadata.name, unsupported.provider_of(spec, providers)),
        *numbers.sizes(spec),
        *networks.violations(spec.cluster_network),
        *numbers.autoscaling(spec),
        *numbers.health_checks(spec),
        *connections.violations(spec),
        *identity.violations(spec),
        *_strategies(spec),
        *kubelet.violations(spec),
        *api_server.violations(spec),
        *feature_gates.violations(spec),
        *_packages(spec),
        *unsupported.violations(spec, providers),
    ]


def name_violations(name: str) -> Iterator[Violation]:
    """Violations of the name, which is also that of many objects and part of host names."""
    if len(name) == 1 and _NAME.fullmatch(name):
        yield Violation("metadata.name", name, "at least 2 characters", sentences.NAME_SHORT)
    elif not _NAME.fullmatch(name):
        yield Violation(
            "metadata.name",
            name or "nothing",
            forms.CLUSTER_NAME.words,
            sentences.NAME_FORM,
        )
    if len(name) > LONGEST_NAME:
        yield Violation(
            "metadata.name",
            f"{len(name)} characters",
            f"at most {LONGEST_NAME}",
            sentences.NAME_LENGTH,
        )


def _required(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    if not spec.kubernetes_version:
        yield Violation("spec.kubernetesVersion", "nothing", "", sentences.NO_KUBERNETES_VERSION)
    if spec.datacenter_ref is None:
        yield Violation("spec.datacenterRef", "nothing", "", sentences.NO_DATACENTER)
    if spec.control_plane_configuration is None:
        yield Violation("spec.controlPlaneConfiguration", "nothing", "", sentences.NO_CONTROL_PLANE)
    if spec.eksa_version and spec.bundles_ref is not None:
        yield Violation("spec.bundlesRef", spec.bundles_ref.name, "nothing", sentences.BOTH)


def _control_plane(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    field = "spec.controlPlaneConfiguration"
    control_plane = spec.control_plane_configuration
    if control_plane is None:
        return
    is_even = control_plane.count % 2 == 0 and spec.external_etcd_configuration is None
    if control_plane.count < 1 or is_even:
        yield Violation(
            f"{field}.count",
            str(control_plane.count),
            "1, 3, 5, …",
            sentences.EVEN,
        )
    etcd = spec.external_etcd_configuration
    if etcd is not None and etcd.count % 2 == 0:
        yield Violation("spec.externalEtcdConfiguration.count", str(etcd.count), "1, 3, 5, …", sentences.ETCD_EVEN)
    yield from _labels(f"{field}.labels", control_plane.labels)
    yield from _taints(f"{field}.taints", control_plane.taints)
    for index, name in enumerate(control_plane.cert_sans):
        if not _is_address(name) and not _DNS_NAME.fullmatch(name):
            allowed = "an IP address or a DNS name"
            yield Violation(f"{field}.certSans[{index}]", name, allowed, sentences.CERTIFICATE_NAME)
    strategy = control_plane.upgrade_rollout_strategy
    if strategy and strategy.rolling_update and strategy.rolling_update.max_surge == 0 and control_plane.count < 3:
        surge = f"{field}.upgradeRolloutStrategy.rollingUpdate.maxSurge"
        yield Violation(surge, "0", "1", sentences.NO_SUCCESSOR)


def _workers(spec: eksa.ClusterSpec, cluster: str, provider: Provider | None) -> Iterator[Violation]:
    field = "spec.workerNodeGroupConfigurations"
    groups = spec.worker_node_group_configurations
    if not groups and (provider is None or provider.needs_workers):
        yield Violation(field, "nothing", "at least one group", sentences.NO_GROUPS)
    seen: set[str] = set()
    for index, group in enumerate(groups):
        at = f"{field}[{index}]"
        name = group_name(group)
        if name in seen:
            yield Violation(f"{at}.name", name, "", sentences.GROUP_TWICE)
        seen.add(name)
        if name == names.ETCD_GROUP and spec.external_etcd_configuration is not None:
            yield Violation(f"{at}.name", name, "another name", "its machines would have the names of etcd machines")
        of_cluster = len(cluster) if len(cluster) <= LONGEST_NAME else 2  # a name that is too long is one fault
        if not _DNS_LABEL.fullmatch(name) or len(name) + of_cluster > LONGEST_GROUP_NAME:
            allowed = f"a DNS label, with the name of the cluster at most {LONGEST_GROUP_NAME} characters"
            yield Violation(f"{at}.name", name, allowed, sentences.GROUP_NAME)
        yield from _labels(f"{at}.labels", group.labels)
        yield from _taints(f"{at}.taints", group.taints)
        yield from _lag(spec, group, f"{at}.kubernetesVersion")
        strategy = group.upgrade_rollout_strategy
        limits = strategy.rolling_update if strategy else None
        if limits and limits.max_surge == 0 and limits.max_unavailable == 0:
            yield Violation(f"{at}.upgradeRolloutStrategy.rollingUpdate", "0 and 0", "", sentences.NO_ROLLOUT)
    if groups and not any(_takes_pods(group) for group in groups):
        yield Violation(field, "taints on all groups", "", sentences.ALL_TAINTED)


def _lag(spec: eksa.ClusterSpec, group: WorkerNodeGroupConfiguration, field: str) -> Iterator[Violation]:
    """The version skew policy of Kubernetes: nodes are never newer than the API server, and only a few versions
    older.
    """
    if not group.kubernetes_version or not spec.kubernetes_version:
        return
    lag = minor(spec.kubernetes_version) - minor(group.kubernetes_version)
    if not 0 <= lag <= MAXIMUM_WORKER_LAG:
        yield Violation(
            field,
            group.kubernetes_version,
            f"{spec.kubernetes_version}, or up to {MAXIMUM_WORKER_LAG} minor versions before it",
            sentences.WORKER_LAG,
        )


def _takes_pods(group: WorkerNodeGroupConfiguration) -> bool:
    return not any(taint.effect in _KEEPS_PODS_AWAY for taint in group.taints)


def _taints(field: str, taints: Sequence[Taint]) -> Iterator[Violation]:
    for index, taint in enumerate(taints):
        if not _LABEL_NAME.fullmatch(taint.key):
            yield Violation(f"{field}[{index}].key", taint.key or "nothing", LABEL_NAMES, sentences.TAINT_KEY)
        elif not _LABEL_VALUE.fullmatch(taint.value):
            yield Violation(f"{field}[{index}].value", taint.value, LABEL_VALUES, "not a valid taint value")


def _packages(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Packages of all clusters are installed by controllers of the management cluster."""
    for name in ("controller", "cronjob"):
        if getattr(spec.packages, name, None) is not None:
            yield Violation(f"spec.packages.{name}", "settings", "nothing", sentences.PACKAGES)


def _labels(field: str, labels: Mapping[str, str]) -> Iterator[Violation]:
    for name, value in labels.items():
        if not _LABEL_NAME.fullmatch(name):
            yield Violation(f"{field}[{name}]", name, LABEL_NAMES, sentences.LABEL)
        elif _KUBERNETES_LABEL.search(name) and not _KUBELET_LABEL.search(name):
            yield Violation(f"{field}[{name}]", name, KUBELET_LABELS, sentences.KUBELET_LABEL)
        elif not _LABEL_VALUE.fullmatch(value):
            yield Violation(f"{field}[{name}]", value, LABEL_VALUES, sentences.LABEL_VALUE)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


Strategy = ControlPlaneUpgradeRolloutStrategy | WorkerNodesUpgradeRolloutStrategy


def _strategies(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Reject fields that belong to the other strategy."""
    control_plane = spec.control_plane_configuration
    strategies: list[tuple[str, Strategy | None]] = [
        ("spec.controlPlaneConfiguration", control_plane.upgrade_rollout_strategy if control_plane else None),
        *(
            (f"spec.workerNodeGroupConfigurations[{index}]", group.upgrade_rollout_strategy)
            for index, group in enumerate(spec.worker_node_group_configurations)
        ),
    ]
    for index, group in enumerate(spec.worker_node_group_configurations):
        own = group.upgrade_rollout_strategy
        if group.autoscaling_configuration is not None and own is not None and own.type == "InPlace":
            field = f"spec.workerNodeGroupConfigurations[{index}].upgradeRolloutStrategy.type"
            yield Violation(field, "InPlace", "RollingUpdate", sentences.AUTOSCALED_IN_PLACE)
    has_external_etcd = spec.external_etcd_configuration is not None
    for place, strategy in strategies:
        if strategy is not None:
            yield from _strategy(f"{place}.upgradeRolloutStrategy", strategy, has_external_etcd=has_external_etcd)


def _strategy(field: str, strategy: Strategy, *, has_external_etcd: bool) -> Iterator[Violation]:
    is_in_place = strategy.type == "InPlace"
    if strategy.fallback is not None and not is_in_place:
        yield Violation(f"{field}.fallback", strategy.fallback, "nothing", sentences.NO_FALLBACK)
    if is_in_place and has_external_etcd:
        yield Violation(f"{field}.type", "InPlace", "RollingUpdate", sentences.EXTERNAL_ETCD_IN_PLACE)
    is_of_workers = isinstance(strategy, WorkerNodesUpgradeRolloutStrategy)
    if is_in_place and not is_of_workers and strategy.rolling_update is not None:
        yield Violation(f"{field}.rollingUpdate", "limits", "nothing", sentences.SECOND_ROLLOUT)
