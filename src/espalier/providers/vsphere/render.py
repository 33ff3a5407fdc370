"""Renders the objects of Cluster API's provider for vSphere from a render input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from espalier.api.capi.cluster import Endpoint
from espalier.api.capi.etcdadm import EtcdadmConfigSpec
from espalier.api.capi.kubeadm import KubeadmConfigSpec
from espalier.api.core import SECRET, Secret
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.host_os import BOTTLEROCKET
from espalier.api.eksa.release import VersionsBundle
from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.api.kinds import KubeObject
from espalier.clusterapi.contract import MOVED
from espalier.clusters import linked_objects
from espalier.clusters.provider import Name
from espalier.clusters.render import bottlerocket, etcd, host_os, kube_vip, kubeadm
from espalier.clusters.render.cluster import meta
from espalier.clusters.render_input import Components, RenderInput
from espalier.clusters.rendered import Settings
from espalier.kube.objects import Object
from espalier.providers.vsphere.cluster_api import (
    IdentityReference,
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
    VSphereMachineTemplateResource,
    VSphereMachineTemplateSpec,
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

CRI_SOCKET = "unix:///var/run/containerd/containerd.sock"
API_PORT = 6443

_KUBELET_ARGS = {"cloud-provider": "external"}

SECOND_NETWORK = "second-network-interface-bootstrap-container"
"""Name of that container, as in EKS Anywhere."""

CLUSTER_LABEL = "infrastructure.cluster.x-k8s.io/cluster-name"
DATACENTER_LABEL = "infrastructure.cluster.x-k8s.io/vsphere-datacenter-config-name"
"""Of a VSphereDeploymentZone, as in EKS Anywhere, which finds those of a datacenter by them."""

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
            identity_ref=IdentityReference(kind=SECRET.kind, name=credentials_name(render_input.name)),
            control_plane_endpoint=Endpoint(host=render_input.spec.endpoint_host, port=API_PORT),
        ),
    )


def control_plane_config(render_input: RenderInput) -> KubeadmConfigSpec:
    """The kubeadm configuration of control plane machines."""
    asked = linked_objects.of_group(VSphereMachineConfig, render_input, None)
    if asked.spec.os == BOTTLEROCKET:
        return _control_plane_of_bottlerocket(render_input, asked.spec)
    configuration = render_input.control_plane.kubelet_configuration
    config = kubeadm.control_plane_config(
        render_input,
        kubelet_args=_KUBELET_ARGS | kubeadm.fixed_kubelet_args(configuration),
        cri_socket=CRI_SOCKET,
        node_name=host_os.NODE_NAME,
        usual_taints=[kubeadm.CONTROL_PLANE_TAINT],
    )
    vip = kube_vip.file(image(render_input, "kube_vip"), render_input.spec.endpoint_host)
    made = _of_machine(config, asked)
    return replace(
        made,
        files=[vip, *made.files],
        pre_kubeadm_commands=[
            *made.pre_kubeadm_commands,
            *kube_vip.first_machine(render_input.of_control_plane.version),
        ],
    )


def worker_config(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
    """The kubeadm configuration of workers."""
    asked = linked_objects.of_group(VSphereMachineConfig, render_input, group)
    if asked.spec.os == BOTTLEROCKET:
        return _worker_of_bottlerocket(render_input, group, asked.spec)
    config = kubeadm.worker_config(
        render_input,
        group,
        kubelet_args=_KUBELET_ARGS | kubeadm.fixed_kubelet_args(group.kubelet_configuration),
        cri_socket=CRI_SOCKET,
        node_name=host_os.NODE_NAME,
    )
    return _of_machine(config, asked)


def _of_machine(config: KubeadmConfigSpec, asked: VSphereMachineConfig) -> KubeadmConfigSpec:
    """A kubeadm configuration with users, time servers, and the name of the machine."""
    return replace(
        config,
        users=host_os.users(asked.spec.users),
        ntp=host_os.ntp(asked.spec.host_os_configuration),
        pre_kubeadm_commands=[*config.pre_kubeadm_commands, *host_os.NAMED],
    )


def _control_plane_of_bottlerocket(render_input: RenderInput, asked: VSphereMachineConfigSpec) -> KubeadmConfigSpec:
    config = kubeadm.control_plane_config(
        render_input,
        kubelet_args=_KUBELET_ARGS,
        cri_socket=CRI_SOCKET,
        node_name=host_os.NODE_NAME,
        by_settings=True,
        usual_taints=[kubeadm.CONTROL_PLANE_TAINT],
    )
    variant = kube_vip.Variant(kubeconfig=bottlerocket.KUBECONFIG)
    vip = kube_vip.file(image(render_input, "kube_vip"), render_input.spec.endpoint_host, variant)
    made = bottlerocket.control_plane_config(render_input, config, asked.host_os_configuration)
    users, ntp = host_os.users(asked.users), host_os.ntp(asked.host_os_configuration)
    return replace(made, files=[vip, *made.files], users=users, ntp=ntp)


def _worker_of_bottlerocket(
    render_input: RenderInput, group: WorkerNodeGroupConfiguration, asked: VSphereMachineConfigSpec
) -> KubeadmConfigSpec:
    config = kubeadm.worker_config(
        render_input,
        group,
        kubelet_args=_KUBELET_ARGS,
        cri_socket=CRI_SOCKET,
        node_name=host_os.NODE_NAME,
        by_settings=True,
    )
    containers = bottlerocket.Containers()
    if len(asked.networks) > 1:
        second = multi_network_image(render_input.of_group(group).bundle)
        containers = bottlerocket.Containers(at_boot=[bottlerocket.AtBoot(SECOND_NETWORK, second, "once")])
    made = bottlerocket.worker_config(render_input, group, config, asked.host_os_configuration, containers)
    return replace(made, users=host_os.users(asked.users), ntp=host_os.ntp(asked.host_os_configuration))


def lacks_images_of_bottlerocket(render_input: RenderInput) -> Iterator[str]:
    """The image for a second network, if workers with Bottlerocket need it and the release lacks it."""
    for group in render_input.groups:
        asked, bundle = (
            linked_objects.of_group(VSphereMachineConfig, render_input, group).spec,
            render_input.of_group(group).bundle,
        )
        if asked.os == BOTTLEROCKET and len(asked.networks) > 1 and not multi_network_image(bundle):
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
    asked = linked_objects.of_etcd(VSphereMachineConfig, render_input).spec
    config = replace(
        etcd.config(render_input, install_dir="/usr/bin", format="cloud-config"),
        users=host_os.users(asked.users),
        ntp=host_os.ntp(asked.host_os_configuration),
    )
    if asked.os == BOTTLEROCKET:
        return bottlerocket.etcd_config(render_input, config, asked.host_os_configuration)
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
    for one in linked_objects.of_kind(VSphereDatacenterConfig, children).values():
        for domain in one.spec.failure_domains:
            for resource in (VSphereFailureDomain.resource, VSphereDeploymentZone.resource):
                yield Name(resource, zone_name(name, one.metadata.name, domain.name))


def extras(render_input: RenderInput) -> Iterable[KubeObject]:
    """The extra objects, with content."""
    login, where = administrator(render_input), linked_objects.datacenter(VSphereDatacenterConfig, render_input)
    metadata = meta(render_input, credentials_name(render_input.name))
    metadata.labels = metadata.labels | MOVED
    yield Secret(metadata=metadata, type="Opaque", data={"username": login.user, "password": login.password})
    for domain in where.spec.failure_domains:
        yield from _failure_domain(render_input, where.metadata.name, where.spec, domain)


def _failure_domain(
    render_input: RenderInput, of: str, spec: VSphereDatacenterConfigSpec, domain: FailureDomain
) -> Iterator[KubeObject]:
    name = zone_name(render_input.name, of, domain.name)
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
    metadata.labels = metadata.labels | {CLUSTER_LABEL: render_input.name, DATACENTER_LABEL: of}
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
    """An image of the release for vSphere; `lacks` ensures that there is one."""
    found = getattr(render_input.of_control_plane.bundle.v_sphere, name, None)
    return str(found.uri) if found is not None else ""


def thumbprint(spec: VSphereDatacenterConfigSpec) -> str:
    """The thumbprint of the vCenter's certificate, in the format of vCenters."""
    return spec.thumbprint.upper()


def _template(
    render_input: RenderInput, name: str, config: VSphereMachineConfig, components: Components, *, of_etcd: bool = False
) -> VSphereMachineTemplate:
    asked, where = config.spec, linked_objects.datacenter(VSphereDatacenterConfig, render_input).spec

    def path(field: str, given: str) -> str:
        return render_input.resolved.get(value(config, field), given)

    networks, made = asked.networks or [where.network], sizes(asked, of_etcd=of_etcd)
    machine = VSphereMachineSpec(
        server=where.server,
        datacenter=where.datacenter,
        datastore=path("datastore", asked.datastore),
        folder=path("folder", asked.folder),
        resource_pool=path("resourcePool", asked.resource_pool),
        storage_policy_name=asked.storage_policy_name,
        template=path("template", asked.template) or path(for_version(components.bundle.kube_version), ""),
        clone_mode=asked.clone_mode or path("cloneMode", ""),
        num_cpus=made.cpus,
        memory_mi_b=made.memory,
        disk_gi_b=made.disk,
        network=MachineNetwork(devices=[_device(where, one) for one in networks]),
        tag_ids=asked.tags,
    )
    return VSphereMachineTemplate(
        metadata=meta(render_input, name),
        spec=VSphereMachineTemplateSpec(template=VSphereMachineTemplateResource(spec=machine)),
    )


def _device(where: VSphereDatacenterConfigSpec, network: str) -> NetworkDevice:
    is_path = network.startswith("/")
    name = network if is_path else f"/{where.datacenter.strip('/')}/network/{network}"
    return NetworkDevice(network_name=name, dhcp4=True)
