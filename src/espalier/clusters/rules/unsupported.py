"""Fields that nothing acts on yet.

Refused where ignoring one would give another cluster than asked for, else warned of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.control_plane import ControlPlaneConfiguration
from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.api.violations import Violation

_REMOVE = "this release can't do it, and the cluster would be another one without; remove the field"


def violations(spec: eksa.ClusterSpec, datacenters: Collection[str]) -> Iterator[Violation]:
    """Fields that are refused; `datacenters` are the kinds that there are providers for."""
    reference = spec.datacenter_ref
    if reference is not None and reference.kind not in datacenters:
        message = "this release has no such provider yet"
        yield Violation("spec.datacenterRef.kind", reference.kind, ", ".join(datacenters), message)
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
    network = spec.cluster_network
    cilium = network.cni_config.cilium if network and network.cni_config else None
    if cilium and cilium.helm_values:
        field = "spec.clusterNetwork.cniConfig.cilium.helmValues"
        yield Violation(field, ", ".join(sorted(cilium.helm_values)), "nothing", _REMOVE)


def warnings(spec: eksa.ClusterSpec) -> Iterator[str]:
    """Fields that are accepted and not acted on, or out of date."""
    if spec.git_ops_ref is not None:
        yield "spec.gitOpsRef: nothing is written to Git by this release; the cluster itself is made as asked"
    if spec.packages is not None and not spec.packages.disable:
        yield "spec.packages: curated packages are not installed by this release"
    if spec.license_token:
        yield "spec.licenseToken: the licence is not looked at by this release"
    if spec.bundles_ref is not None:
        yield "spec.bundlesRef: deprecated; name a release in spec.eksaVersion"
    if spec.cluster_network is not None and spec.cluster_network.cni:
        yield "spec.clusterNetwork.cni: deprecated; use spec.clusterNetwork.cniConfig"
    control_plane = spec.control_plane_configuration
    if control_plane is not None and control_plane.machine_group_ref is not None:
        yield "spec.controlPlaneConfiguration.machineGroupRef: Docker has no machine configs; the reference is not used"
    if control_plane is not None and control_plane.skip_load_balancer_deployment:
        yield (
            "spec.controlPlaneConfiguration.skipLoadBalancerDeployment: "
            "Docker's load balancer is part of the infrastructure and is there in any case"
        )
    for index, group in enumerate(spec.worker_node_group_configurations):
        if group.machine_group_ref is not None:
            field = f"spec.workerNodeGroupConfigurations[{index}].machineGroupRef"
            yield f"{field}: Docker has no machine configs; the reference is not used"


def _control_plane(control_plane: ControlPlaneConfiguration | None) -> Iterator[Violation]:
    field = "spec.controlPlaneConfiguration"
    if control_plane is None:
        return
    if control_plane.endpoint is not None and control_plane.endpoint.host:
        message = "the address of a Docker cluster is that of its load balancer; remove the field"
        yield Violation(f"{field}.endpoint.host", control_plane.endpoint.host, "nothing", message)
    if control_plane.skip_admission_for_system_resources:
        yield Violation(f"{field}.skipAdmissionForSystemResources", "true", "false", _REMOVE)


def _group(group: WorkerNodeGroupConfiguration, field: str) -> Iterator[Violation]:
    scaling = group.autoscaling_configuration
    if scaling is not None:
        found = f"{scaling.min_count} to {scaling.max_count}"
        message = "this release has no autoscaler; give a count instead"
        yield Violation(f"{field}.autoscalingConfiguration", found, "nothing", message)
    if group.failure_domains:
        message = "Docker has no failure domains; remove the field"
        yield Violation(f"{field}.failureDomains", ", ".join(group.failure_domains), "nothing", message)
