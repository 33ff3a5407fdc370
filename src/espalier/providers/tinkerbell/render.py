"""Renders the objects of Cluster API's provider for Tinkerbell from a render input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from espalier.api.capi.cluster import Endpoint
from espalier.api.capi.kubeadm import KubeadmConfigSpec
from espalier.api.capi.machine import MachineDeletion, MachineDeployment, TemplateMeta
from espalier.api.eksa.parts.host_os import BOTTLEROCKET_USER
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import Tree
from espalier.clusters.design import registry_mirror
from espalier.clusters.design.cluster_objects.linked_objects import datacenter, of_group, of_kind
from espalier.clusters.design.provider import Components, RenderInput
from espalier.clusters.design.render import kubeadm
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.render.nodes import host_os, kube_vip, node_setup
from espalier.clusters.design.rendered import Rendered, RenderedGroup, Settings
from espalier.kube.transports.wire import in_url
from espalier.providers.tinkerbell import workflow
from espalier.providers.tinkerbell.cluster_api import (
    BootOptions,
    HardwareAffinity,
    HardwareAffinityTerm,
    TinkerbellCluster,
    TinkerbellClusterSpec,
    TinkerbellMachineSpec,
    TinkerbellMachineTemplate,
)
from espalier.providers.tinkerbell.kinds import (
    TinkerbellDatacenterConfig,
    TinkerbellDatacenterConfigSpec,
    TinkerbellMachineConfig,
    TinkerbellMachineConfigSpec,
    TinkerbellTemplateConfig,
    Workflow,
)
from espalier.providers.tinkerbell.references import template

API_PORT = 6443
_ISO_PORT = 7171

NODE_STARTUP_TIMEOUT = "20m0s"
"""Bare metal boots slowly, and twice."""

POOL_LABEL = "pool"
"""Label of a MachineDeployment and its machines with the worker node group, as in EKS Anywhere."""

_NODE = kubeadm.NodeSettings({"provider-id": "PROVIDER_ID"})
"""Cluster API's provider puts the ID of the machine there."""

_DELETION = MachineDeletion(node_deletion_timeout_seconds=30)


def infrastructure_cluster(render_input: RenderInput) -> TinkerbellCluster:
    """The TinkerbellCluster, without images: the workflows of machine templates have these."""
    return TinkerbellCluster(
        metadata=meta(render_input, render_input.name),
        spec=TinkerbellClusterSpec(
            image_lookup_format=f"--kube-{render_input.of_control_plane.version}.raw.gz",
            image_lookup_base_registry="/",
            image_lookup_os_distro="",
            image_lookup_os_version="",
        ),
    )


def control_plane_config(render_input: RenderInput) -> KubeadmConfigSpec:
    """The kubeadm configuration of control plane machines."""
    config = kubeadm.control_plane_config(render_input, _NODE)
    machine_config = kube_vip.joins(
        _with_machine_settings(config, of_group(TinkerbellMachineConfig, render_input, None).spec)
    )
    if render_input.control_plane.skip_load_balancer_deployment:
        return machine_config
    datacenter_spec = datacenter(TinkerbellDatacenterConfig, render_input).spec
    keeps_services = not render_input.groups and not datacenter_spec.skip_load_balancer_deployment
    variant = kube_vip.Variant(kube_vip.OF_SERVICES) if keeps_services else kube_vip.USUAL
    vip = kube_vip.file(_kube_vip_image(render_input), render_input.spec.endpoint_host, variant)
    return replace(
        machine_config,
        files=[vip, *machine_config.files],
        pre_kubeadm_commands=[
            *machine_config.pre_kubeadm_commands,
            *kube_vip.first_machine(render_input.of_control_plane.version),
        ],
    )


def worker_config(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
    """The kubeadm configuration of workers."""
    config = kubeadm.worker_config(render_input, group, _NODE)
    return _with_machine_settings(config, of_group(TinkerbellMachineConfig, render_input, group).spec)


def machine_template(
    render_input: RenderInput, _components: Components, name: str, group: WorkerNodeGroupConfiguration | None
) -> TinkerbellMachineTemplate:
    """The TinkerbellMachineTemplate of the control plane or of a group."""
    config = of_group(TinkerbellMachineConfig, render_input, group)
    datacenter_spec = datacenter(TinkerbellDatacenterConfig, render_input).spec
    machine = TinkerbellMachineSpec(
        hardware_affinity=_affinity(config.spec),
        template_override=_workflow(render_input, config),
        boot_options=_boot_options(datacenter_spec),
    )
    return TinkerbellMachineTemplate.of(meta(render_input, name), machine)


def complete(render_input: RenderInput, rendered: Rendered) -> Rendered:
    """Adds the address of the API server, timeouts for lost nodes, and the pools of machines."""
    cluster, control_plane = rendered.cluster, rendered.control_plane
    endpoint = Endpoint(host=render_input.spec.endpoint_host, port=API_PORT)
    machines = control_plane.spec.machine_template
    machines = replace(machines, spec=replace(machines.spec, deletion=_DELETION))
    return replace(
        rendered,
        cluster=replace(cluster, spec=replace(cluster.spec, control_plane_endpoint=endpoint)),
        control_plane=replace(control_plane, spec=replace(control_plane.spec, machine_template=machines)),
        groups=tuple(replace(group, deployment=_in_pool(group)) for group in rendered.groups),
    )


def settings(render_input: RenderInput) -> Settings:
    """Settings as in EKS Anywhere."""
    return Settings(feature_gates=kubeadm.members_at_once(render_input))


def no_proxy(render_input: RenderInput) -> Sequence[str]:
    """Hosts without proxy: the API server, and Tinkerbell."""
    return [render_input.spec.endpoint_host, datacenter(TinkerbellDatacenterConfig, render_input).spec.tinkerbell_ip]


def _with_machine_settings(config: KubeadmConfigSpec, spec: TinkerbellMachineConfigSpec) -> KubeadmConfigSpec:
    """A kubeadm configuration with users and time servers."""
    return replace(
        config, users=host_os.users(spec.users, BOTTLEROCKET_USER), ntp=host_os.ntp(spec.host_os_configuration)
    )


def _kube_vip_image(render_input: RenderInput) -> str:
    """The kube-vip image of the release; `lacks` ensures that the release has it."""
    images = render_input.of_control_plane.bundle.tinkerbell
    return images.kube_vip.uri if images is not None and images.kube_vip is not None else ""


def _affinity(spec: TinkerbellMachineConfigSpec) -> HardwareAffinity:
    if spec.hardware_affinity is not None:
        return msgspec.convert(msgspec.to_builtins(spec.hardware_affinity), HardwareAffinity)
    selector = LabelSelector(match_labels=spec.hardware_selector)
    return HardwareAffinity(required=[HardwareAffinityTerm(label_selector=selector)])


def _boot_options(datacenter_spec: TinkerbellDatacenterConfigSpec) -> BootOptions:
    if not datacenter_spec.iso_boot:
        return BootOptions(boot_mode="netboot")
    return BootOptions(
        boot_mode="iso", iso_url=f"http://{in_url(datacenter_spec.tinkerbell_ip)}:{_ISO_PORT}/iso/hook.iso"
    )


def _workflow(render_input: RenderInput, config: TinkerbellMachineConfig) -> str:
    datacenter_spec, template_config = (
        datacenter(TinkerbellDatacenterConfig, render_input).spec,
        template(render_input, config),
    )
    image = config.spec.os_image_url or datacenter_spec.os_image_url
    if template_config is not None:
        provisioning = workflow.with_image(template_config.spec.template, image)
    else:
        provisioning = _usual_workflow(render_input, config)
    text, mirror = workflow.text(provisioning), render_input.spec.registry_mirror_configuration
    if mirror is None:
        return text
    mirror_host = next(
        (host for host in registry_mirror.hosts(mirror) if host.registry == registry_mirror.DEFAULT_REGISTRY), None
    )
    return text.replace(registry_mirror.DEFAULT_REGISTRY, mirror_host.images) if mirror_host is not None else text


def template_configs(render_input: RenderInput) -> list[Tree]:
    """A TinkerbellTemplateConfig for each machine config, of its name, with the workflow that machines get without one:
    to be changed, and named by `spec.templateRef`."""
    configs = of_kind(TinkerbellMachineConfig, render_input.children).values()
    resource = TinkerbellTemplateConfig.resource
    return [
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": config.metadata.name, "namespace": config.metadata.namespace},
            "spec": {"template": msgspec.to_builtins(_usual_workflow(render_input, config))},
        }
        for config in configs
    ]


def _usual_workflow(render_input: RenderInput, config: TinkerbellMachineConfig) -> Workflow:
    datacenter_spec = datacenter(TinkerbellDatacenterConfig, render_input).spec
    image = config.spec.os_image_url or datacenter_spec.os_image_url
    address = datacenter_spec.tinkerbell_ip
    return workflow.usual(render_input.name, config.spec.os, image, address, _proxy(render_input))


def _proxy(render_input: RenderInput) -> Mapping[str, str]:
    proxy = render_input.spec.proxy_configuration
    if proxy is None:
        return {}
    no_proxy_hosts = ",".join(node_setup.reached_directly(render_input, proxy))
    return {"HTTP_PROXY": proxy.http_proxy, "HTTPS_PROXY": proxy.https_proxy, "NO_PROXY": no_proxy_hosts}


def _in_pool(group: RenderedGroup) -> MachineDeployment:
    deployment, pool = group.deployment, {POOL_LABEL: group.name}
    machines = deployment.spec.template
    labels = (machines.metadata.labels if machines.metadata else {}) | pool
    machines = replace(
        machines,
        metadata=replace(machines.metadata or TemplateMeta(), labels=labels),
        spec=replace(machines.spec, deletion=_DELETION),
    )
    metadata = replace(deployment.metadata, labels=deployment.metadata.labels | pool)
    return replace(deployment, metadata=metadata, spec=replace(deployment.spec, template=machines))
