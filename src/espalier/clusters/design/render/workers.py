"""The objects of a worker node group, for any provider: MachineDeployment and KubeadmConfigTemplate."""

from __future__ import annotations

from espalier.api.capi.kubeadm import (
    KubeadmConfigSpec,
    KubeadmConfigTemplate,
    KubeadmConfigTemplateResource,
    KubeadmConfigTemplateSpec,
)
from espalier.api.capi.machine import (
    Bootstrap,
    DeploymentRollout,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineSpec,
    MachineTemplate,
    RollingUpdate,
    RolloutStrategy,
    TemplateMeta,
)
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Resource
from espalier.clusterapi.contract import (
    AUTOSCALER_MAX_ANNOTATION,
    AUTOSCALER_MIN_ANNOTATION,
    CLUSTER_NAME_LABEL,
    DEPLOYMENT_NAME_LABEL,
    reference,
)
from espalier.clusters.design import names
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.render_input import group_count, group_name


def config_template(render_input: RenderInput, config: KubeadmConfigSpec, name: str) -> KubeadmConfigTemplate:
    """The KubeadmConfigTemplate of a group."""
    return KubeadmConfigTemplate(
        metadata=meta(render_input, name),
        spec=KubeadmConfigTemplateSpec(template=KubeadmConfigTemplateResource(spec=config)),
    )


def machine_deployment(
    render_input: RenderInput,
    group: WorkerNodeGroupConfiguration,
    machine_template: Resource,
    *,
    machine_template_name: str,
    config_template_name: str,
) -> MachineDeployment:
    """The MachineDeployment of a group, with these templates."""
    name = names.machine_deployment(render_input.name, group_name(group))
    labels = {CLUSTER_NAME_LABEL: render_input.name, DEPLOYMENT_NAME_LABEL: name}
    return MachineDeployment(
        metadata=_meta(render_input, group, name),
        spec=MachineDeploymentSpec(
            cluster_name=render_input.name,
            replicas=None if group.autoscaling_configuration is not None else group_count(group),
            selector=LabelSelector(match_labels=labels),
            rollout=DeploymentRollout(strategy=_strategy(group)),
            template=MachineTemplate(
                metadata=TemplateMeta(labels=labels),
                spec=MachineSpec(
                    cluster_name=render_input.name,
                    version=render_input.of_group(group).version,
                    bootstrap=Bootstrap(config_ref=reference(KubeadmConfigTemplate.resource, config_template_name)),
                    infrastructure_ref=reference(machine_template, machine_template_name),
                    failure_domain=_failure_domain(render_input, group),
                ),
            ),
        ),
    )


def _meta(render_input: RenderInput, group: WorkerNodeGroupConfiguration, name: str) -> ObjectMeta:
    """Metadata, with the worker node group of a group in one failure domain, and the limits of an autoscaler."""
    metadata, own = meta(render_input, name), group_name(group)
    if own in render_input.domains:
        metadata.annotations = {metadata_keys.GROUP_ANNOTATION: render_input.undivided_group(own)}
    if (limits := group.autoscaling_configuration) is not None:
        numbers = {AUTOSCALER_MIN_ANNOTATION: str(limits.min_count), AUTOSCALER_MAX_ANNOTATION: str(limits.max_count)}
        metadata.annotations = metadata.annotations | numbers
    return metadata


def _failure_domain(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> str:
    zone = render_input.provider.links.zone(render_input.name, group, render_input.children)
    return render_input.domains.get(group_name(group), zone)


def _strategy(group: WorkerNodeGroupConfiguration) -> RolloutStrategy:
    asked = group.upgrade_rollout_strategy
    limits = asked.rolling_update if asked else None
    return RolloutStrategy(
        type="RollingUpdate",
        rolling_update=RollingUpdate(
            max_surge=limits.max_surge if limits else 1, max_unavailable=limits.max_unavailable if limits else 0
        ),
    )
