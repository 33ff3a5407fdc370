"""Renders the objects of Cluster API's provider for vSphere from a render input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from espalier.api.capi.cluster import Endpoint
from espalier.api.capi.etcdadm import EtcdadmConfigSpec
from espalier.api.capi.kubeadm import KubeadmConfigSpec
from espalier.api.core import SECRET, Secret
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.host_os import BOTTLEROCKET
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.releases.release import VersionsBundle
from espalier.api.kinds import KubeObject
from espalier.clusterapi.contract import MOVE_LABELS
from espalier.clusterapi.infrastructures.infrastructure_kinds import LocalReference
from espalier.clusters.design.cluster_objects import linked_objects
from espalier.clusters.design.provider import Components, Name, RenderInput
from espalier.clusters.design.render import etcd, kubeadm
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.render.nodes import bottlerocket, host_os, kube_vip
from espalier.clusters.design.rendered import Settings
from espalier.kube.objects import Object
from espalier.providers.vsphere.cluster_api import (
    MachineNetwork,
    NetworkDevice,
    PlacementConstraint,
    TaggedPlace,
    Topology,
    VSphereCluster,
    VSphereClusterSpec,
    VSphereDeploymentZone,
    VSphereDeploymentZoneSpec,
    VSphereFailureDomain,
    VSphereFailureDomainSpec,
    VSphereMachineSpec,
    VSphereMachineTemplate,
)
from espalier.providers.vsphere.kinds import (
    FailureDomain,
    VSphereDatacenterConfig,
    VSphereDatacenterConfigSpec,
    VSphereMachineConfig,
    VSphereMachineConfigSpec,
)
from espalier.providers.vsphere.references import (
    administrator,
    for_version,
    value,
    zone_name,
)
from espalier.providers.vsphere.sizes import sizes

API_PORT = 6443

_NODE = kubeadm.NodeSettings({"cloud-provider": "external"}, kubeadm.CRI_SOCKET, host_os.NODE_NAME)

SECOND_NETWORK = "second-network-interface-bootstrap-container"
"""Name of the container that sets up the second network interface of Bottlerocket, as in EKS Anywhere."""

CLUSTER_LABEL = "infrastructure.cluster.x-k8s.io/cluster-name"
DATACENTER_LABEL = "infrastructure.cluster.x-k8s.io/vsphere-datacenter-config-name"
"""Labels of a VSphereDeploymentZone, by which EKS Anywhere finds those of a datacenter."""

REGION, ZONE = "k8s-region", "k8s-zone"
"""Categories of tags in the vCenter."""


def infrastructure_cluster(render_input: RenderInput) -> VSphereCluster:
    """The VSphereCluster: the vCenter, its credentials, and the address of the API server."""
    spec = linked_objects.datacenter(VSphereDatacenterConfig, render_input).spec
    return VSphereCluster(
        metadata=meta(render_input, render_input.name),
        spec=VSphereClusterSpec(
            server=spec.server,
            thumbprint=thumbprint(spec),
            identity_ref=LocalReference(kind=SECRET.kind, name=credentials_name(render_input.name)),
            control_plane_endpoint=Endpoint(host=render_input.spec.endpoint_host, port=API_PORT),
        ),
    )


def control_plane_config(render_input: RenderInput) -> KubeadmConfigSpec:
    """The kubeadm configuration of control plane machines."""
    machine_config = linked_objects.of_group(VSphereMachineConfig, render_input, None)
    if machine_config.spec.os == BOTTLEROCKET:
        return _control_plane_of_bottlerocket(render_input, machine_config.spec)
    config = kubeadm.control_plane_config(
        render_input,
        _NODE,
        usual_taints=[kubeadm.CONTROL_PLANE_TAINT],
    )
    vip = kube_vip.file(image(render_input, "kube_vip"), render_input.spec.endpoint_host)
    kubeadm_config = _with_machine_settings(config, machine_config)
    return replace(
        kubeadm_config,
        files=[vip, *kubeadm_config.files],
        pre_kubeadm_commands=[
            *kubeadm_config.pre_kubeadm_commands,
            *kube_vip.first_machine(render_input.of_control_plane.version),
        ],
    )


def worker_config(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
    """The kubeadm configuration of workers."""
    machine_config = linked_objects.of_group(VSphereMachineConfig, render_input, group)
    if machine_config.spec.os == BOTTLEROCKET:
        return _worker_of_bottlerocket(render_input, group, machine_config.spec)
    config = kubeadm.worker_config(
        render_input,
        group,
        _NODE,
    )
    return _with_machine_settings(config, machine_config)


def _with_machine_settings(config: KubeadmConfigSpec, machine_config: VSphereMachineConfig) -> KubeadmConfigSpec:
    """A kubeadm configuration with users, time servers, and the name of the machine."""
    return replace(
        config,
        users=host_os.users(machine_config.spec.users, machine_config.spec.default_user),
        ntp=host_os.ntp(machine_config.spec.host_os_configuration),
        pre_kubeadm_commands=[*config.pre_kubeadm_commands, *host_os.NAMED],
    )


def _control_plane_of_bottlerocket(render_input: RenderInput, spec: VSphereMachineConfigSpec) -> KubeadmConfigSpec:
    config = kubeadm.control_plane_config(
        render_input,
        _NODE,
        by_settings=True,
        usual_taints=[kubeadm.CONTROL_PLANE_TAINT],
    )
    variant = kube_vip.Variant(kubeconfig=bottlerocket.KUBECONFIG)
    vip = kube_vip.file(image(render_input, "kube_vip"), render_input.spec.endpoint_host, variant)
    bottlerocket_config = bottlerocket.control_plane_config(render_input, config, spec.host_os_configuration)
    users, ntp = host_os.users(spec.users, spec.default_user), host_os.ntp(spec.host_os_configuration)
    return replace(bottlerocket_config, files=[vip, *bottlerocket_config.files], users=users, ntp=ntp)


def _worker_of_bottlerocket(
    render_input: RenderInput, group: WorkerNodeGroupConfiguration, spec: VSphereMachineConfigSpec
) -> KubeadmConfigSpec:
    config = kubeadm.worker_config(
        render_input,
        group,
        _NODE,
        by_settings=True,
    )
    containers = bottlerocket.Containers()
    if len(spec.networks) > 1:
        second = multi_network_image(render_input.of_group(group).bundle)
        containers = bottlerocket.Containers(at_boot=[bottlerocket.AtBoot(SECOND_NETWORK, second, "once")])
    bottlerocket_config = bottlerocket.worker_config(
        render_input, group, config, spec.host_os_configuration, containers
    )
    return replace(
        bottlerocket_config,
        users=host_os.users(spec.users, spec.default_user),
        ntp=host_os.ntp(spec.host_os_configuration),
    )


def lacks_images_of_bottlerocket(render_input: RenderInput) -> Iterator[str]:
    """The image for a second network, if workers with Bottlerocket need it and the release lacks it."""
    for group in render_input.groups:
        spec, bundle = (
            linked_objects.of_group(VSphereMachineConfig, render_input, group).spec,
            render_input.of_group(group).bundle,
        )
        if spec.os == BOTTLEROCKET and len(spec.networks) > 1 and not multi_network_image(bundle):
            yield "bottlerocketBootstrapContainers.multiNetworkBootstrap"


def multi_network_image(bundle: VersionsBundle) -> str:
    """The image that sets up the second network interface of Bottlerocket; empty if there is none."""
    images = bundle.bottlerocket_bootstrap_containers
    return bottlerocket.uri(images.multi_network_bootstrap if images is not None else None)


def machine_template(
    render_input: RenderInput, components: Components, name: str, group: WorkerNodeGroupConfiguration | None
) -> VSphereMachineTemplate:
    """The VSphereMachineTemplate of the control plane or of a group."""
    return _template(render_input, name, linked_objects.of_group(VSphereMachineConfig, render_input, group), components)


def etcd_config(render_input: RenderInput) -> EtcdadmConfigSpec:
    """The configuration by which a machine becomes an etcd member."""
    spec = linked_objects.of_etcd(VSphereMachineConfig, render_input).spec
    config = replace(
        etcd.config(render_input, install_dir="/usr/bin", format="cloud-config"),
        users=host_os.users(spec.users, spec.default_user),
        ntp=host_os.ntp(spec.host_os_configuration),
    )
    if spec.os == BOTTLEROCKET:
        return bottlerocket.etcd_config(render_input, config, spec.host_os_configuration)
    return replace(config, pre_etcdadm_commands=list(host_os.NAMED))


def etcd_machine_template(render_input: RenderInput, name: str) -> VSphereMachineTemplate:
    """The template of etcd machines."""
    return _template(
        render_input,
        name,
        linked_objects.of_etcd(VSphereMachineConfig, render_input),
        render_input.of_control_plane,
        of_etcd=True,
    )


def settings(render_input: RenderInput) -> Settings:
    """Settings as in EKS Anywhere, with an external cloud controller."""
    external = kubeadm.with_cloud_controller(render_input)
    return replace(external, feature_gates=kubeadm.members_at_once(render_input), empty_worker_taints=True)


def no_proxy(render_input: RenderInput) -> Sequence[str]:
    """Hosts without proxy: the vCenter, and the API server."""
    return [
        linked_objects.datacenter(VSphereDatacenterConfig, render_input).spec.server,
        render_input.spec.endpoint_host,
    ]


def extra_names(name: str, _spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Name]:
    """The Secret with credentials, and the objects of failure domains."""
    yield Name(SECRET, credentials_name(name))
    for datacenter in linked_objects.of_kind(VSphereDatacenterConfig, children).values():
        for domain in datacenter.spec.failure_domains:
            for resource in (VSphereFailureDomain.resource, VSphereDeploymentZone.resource):
                yield Name(resource, zone_name(name, datacenter.metadata.name, domain.name))


def extras(render_input: RenderInput) -> Iterable[KubeObject]:
    """The extra objects, with content."""
    login, datacenter = administrator(render_input), linked_objects.datacenter(VSphereDatacenterConfig, render_input)
    metadata = meta(render_input, credentials_name(render_input.name))
    metadata.labels = metadata.labels | MOVE_LABELS
    yield Secret(metadata=metadata, type="Opaque", data={"username": login.user, "password": login.password})
    for domain in datacenter.spec.failure_domains:
        yield from _failure_domain(render_input, datacenter.metadata.name, datacenter.spec, domain)


def _failure_domain(
    render_input: RenderInput, datacenter: str, spec: VSphereDatacenterConfigSpec, domain: FailureDomain
) -> Iterator[KubeObject]:
    name = zone_name(render_input.name, datacenter, domain.name)
    yield VSphereFailureDomain(
        metadata=meta(render_input, name, namespaced=False),
        spec=VSphereFailureDomainSpec(
            region=TaggedPlace(name=spec.datacenter, type="Datacenter", tag_category=REGION),
            zone=TaggedPlace(name=domain.compute_cluster, type="ComputeCluster", tag_category=ZONE),
            topology=Topology(
                datacenter=spec.datacenter,
                compute_cluster=domain.compute_cluster,
                datastore=domain.datastore,
                networks=[domain.network],
            ),
        ),
    )
    metadata = meta(render_input, name, namespaced=False)
    metadata.labels = metadata.labels | {CLUSTER_LABEL: render_input.name, DATACENTER_LABEL: datacenter}
    yield VSphereDeploymentZone(
        metadata=metadata,
        spec=VSphereDeploymentZoneSpec(
            server=spec.server,
            failure_domain=name,
            placement_constraint=PlacementConstraint(folder=domain.folder, resource_pool=domain.resource_pool),
        ),
    )


def credentials_name(cluster: str) -> str:
    """The name of the Secret with the credentials of a cluster's machines, as in EKS Anywhere."""
    return f"{cluster}-vsphere-credentials"


def image(render_input: RenderInput, name: str) -> str:
    """An image of the release for vSphere; `lacks` ensures that the release has it."""
    image_of_release = getattr(render_input.of_control_plane.bundle.v_sphere, name, None)
    return str(image_of_release.uri) if image_of_release is not None else ""


def thumbprint(spec: VSphereDatacenterConfigSpec) -> str:
    """The thumbprint of the vCenter's certificate, in the format of vCenters."""
    return spec.thumbprint.upper()


def _template(
    render_input: RenderInput, name: str, config: VSphereMachineConfig, components: Components, *, of_etcd: bool = False
) -> VSphereMachineTemplate:
    spec, datacenter = config.spec, linked_objects.datacenter(VSphereDatacenterConfig, render_input).spec

    def path(field: str, default: str) -> str:
        return render_input.resolved.get(value(config, field), default)

    networks, machine_sizes = spec.networks or [datacenter.network], sizes(spec, of_etcd=of_etcd)
    machine = VSphereMachineSpec(
        server=datacenter.server,
        datacenter=datacenter.datacenter,
        datastore=path("datastore", spec.datastore),
        folder=path("folder", spec.folder),
        resource_pool=path("resourcePool", spec.resource_pool),
        storage_policy_name=spec.storage_policy_name,
        template=path("template", spec.template) or path(for_version(components.bundle.kube_version), ""),
        clone_mode=spec.clone_mode or path("cloneMode", ""),
        num_cpus=machine_sizes.cpus,
        memory_mi_b=machine_sizes.memory,
        disk_gi_b=machine_sizes.disk,
        network=MachineNetwork(devices=[_device(datacenter, network) for network in networks]),
        tag_ids=spec.tags,
    )
    return VSphereMachineTemplate.of(meta(render_input, name), machine)


def _device(datacenter: VSphereDatacenterConfigSpec, network: str) -> NetworkDevice:
    is_path = network.startswith("/")
    name = network if is_path else f"/{datacenter.datacenter.strip('/')}/network/{network}"
    return NetworkDevice(network_name=name, dhcp4=True)
