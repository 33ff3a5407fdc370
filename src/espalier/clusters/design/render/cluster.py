"""The objects that a cluster has once, for any provider: Cluster, KubeadmControlPlane and its MachineHealthCheck."""

from __future__ import annotations

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import (
    ControlPlaneMachineSpec,
    ControlPlaneMachineTemplate,
    ControlPlaneRollout,
    KubeadmConfigSpec,
    KubeadmControlPlane,
    KubeadmControlPlaneSpec,
)
from espalier.api.capi.machine import RollingUpdate, RolloutStrategy
from espalier.api.eksa.parts.network import Ranges
from espalier.api.identity import ClusterIdentity
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Resource
from espalier.clusterapi import external_etcd
from espalier.clusterapi.contract import reference
from espalier.clusters.design.provider import RenderInput


def meta(render_input: RenderInput, name: str, *, namespaced: bool = True) -> ObjectMeta:
    """Metadata of an object made for a cluster."""
    namespace = ClusterIdentity.of(render_input.key).capi.namespace if namespaced else ""
    return ObjectMeta(name=name, namespace=namespace, labels=render_input.labels)


def cluster(render_input: RenderInput, infrastructure: Resource) -> capi.Cluster:
    """The Cluster of Cluster API; `infrastructure` is the provider's kind."""
    network = render_input.spec.cluster_network
    return capi.Cluster(
        metadata=meta(render_input, render_input.name),
        spec=capi.ClusterSpec(
            cluster_network=capi.ClusterNetwork(
                pods=_ranges(network.pods if network else None),
                services=_ranges(network.services if network else None),
            ),
            control_plane_ref=reference(KubeadmControlPlane.resource, render_input.name),
            infrastructure_ref=reference(infrastructure, render_input.name),
            managed_external_etcd_ref=reference(external_etcd.RESOURCE, external_etcd.name(render_input.name))
            if render_input.spec.external_etcd_configuration is not None
            else None,
        ),
    )


def control_plane(
    render_input: RenderInput, config: KubeadmConfigSpec, machine_template: Resource, template_name: str
) -> KubeadmControlPlane:
    """The KubeadmControlPlane, with machines from a template."""
    strategy = render_input.control_plane.upgrade_rollout_strategy
    max_surge = strategy.rolling_update.max_surge if strategy and strategy.rolling_update else 1
    metadata = meta(render_input, render_input.name)
    if render_input.spec.external_etcd_configuration is not None:
        metadata.annotations = {external_etcd.SKIP_CONTROL_PLANE_PAUSE: "true"}
    return KubeadmControlPlane(
        metadata=metadata,
        spec=KubeadmControlPlaneSpec(
            version=render_input.of_control_plane.version,
            replicas=render_input.control_plane.count,
            machine_template=ControlPlaneMachineTemplate(
                spec=ControlPlaneMachineSpec(infrastructure_ref=reference(machine_template, template_name))
            ),
            kubeadm_config_spec=config,
            rollout=ControlPlaneRollout(
                strategy=RolloutStrategy(type="RollingUpdate", rolling_update=RollingUpdate(max_surge=max_surge))
            ),
        ),
    )


def _ranges(ranges: Ranges | None) -> capi.NetworkRanges | None:
    return capi.NetworkRanges(cidr_blocks=ranges.cidr_blocks) if ranges else None
