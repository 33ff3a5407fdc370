"""Fields that this release does not support yet.

Refused if ignoring the field would give a different cluster, else warned about.
"""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.control_plane import ControlPlaneConfiguration
from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.api.violations import Violation
from espalier.clusters.provider import Provider, Providers

_REMOVE = "this release does not support the field; remove it"


def violations(spec: eksa.ClusterSpec, providers: Providers) -> Iterator[Violation]:
    """Fields that this release and the provider of the cluster refuse."""
    reference = spec.datacenter_ref
    if reference is not None and reference.kind not in providers:
        message = "this release does not support this provider"
        yield Violation("spec.datacenterRef.kind", reference.kind, ", ".join(providers), message)
    whole = {
        "externalEtcdConfiguration": (spec.external_etcd_configuration, "etcd on machines of its own"),
        "proxyConfiguration": (spec.proxy_configuration, "a proxy"),
        "registryMirrorConfiguration": (spec.registry_mirror_configuration, "a registry mirror"),
        "identityProviderRefs": (spec.identity_provider_refs, "identity providers"),
        "podIamConfig": (spec.pod_iam_config, "IAM roles for service accounts"),
        "etcdEncryption": (spec.etcd_encryption, "encryption in etcd"),
    }
    for name, (value, what) in whole.items():
        if value:
            yield Violation(f"spec.{name}", what, "nothing", _REMOVE)
    yield from _control_plane(spec.control_plane_configuration)
    for index, group in enumerate(spec.worker_node_group_configurations):
        yield from _group(group, f"spec.workerNodeGroupConfigurations[{index}]")
    if provider := provider_of(spec, providers):
        yield from provider.rules.violations(spec)
    network = spec.cluster_network
    cilium = network.cni_config.cilium if network and network.cni_config else None
    if cilium and cilium.helm_values:
        field = "spec.clusterNetwork.cniConfig.cilium.helmValues"
        yield Violation(field, ", ".join(sorted(cilium.helm_values)), "nothing", _REMOVE)


def warnings(spec: eksa.ClusterSpec, providers: Providers) -> Iterator[str]:
    """Fields that are accepted without effect, or deprecated."""
    if spec.git_ops_ref is not None:
        yield "spec.gitOpsRef: this release writes nothing to Git; the cluster is created without it"
    if spec.packages is not None and not spec.packages.disable:
        yield "spec.packages: this release does not install curated packages"
    if spec.license_token:
        yield "spec.licenseToken: this release does not check licences"
    if spec.bundles_ref is not None:
        yield "spec.bundlesRef: deprecated; use spec.eksaVersion"
    if spec.cluster_network is not None and spec.cluster_network.cni:
        yield "spec.clusterNetwork.cni: deprecated; use spec.clusterNetwork.cniConfig"
    if provider := provider_of(spec, providers):
        yield from provider.rules.warnings(spec)


def provider_of(spec: eksa.ClusterSpec, providers: Providers) -> Provider | None:
    """The provider of a Cluster; None if this build does not have it."""
    return providers.get(spec.datacenter_ref.kind) if spec.datacenter_ref is not None else None


def _control_plane(control_plane: ControlPlaneConfiguration | None) -> Iterator[Violation]:
    field = "spec.controlPlaneConfiguration"
    if control_plane is None:
        return
    if control_plane.skip_admission_for_system_resources:
        yield Violation(f"{field}.skipAdmissionForSystemResources", "true", "false", _REMOVE)


def _group(group: WorkerNodeGroupConfiguration, field: str) -> Iterator[Violation]:
    scaling = group.autoscaling_configuration
    if scaling is not None:
        found = f"{scaling.min_count} to {scaling.max_count}"
        message = "this release does not support autoscaling; set a count instead"
        yield Violation(f"{field}.autoscalingConfiguration", found, "nothing", message)
