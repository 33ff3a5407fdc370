"""Renders the objects of Cluster API's provider for Snow from a render input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from espalier.api.capi.cluster import Endpoint
from espalier.api.capi.etcdadm import EtcdadmConfigSpec
from espalier.api.capi.kubeadm import Arg, KubeadmConfigSpec
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
from espalier.providers.snow import references
from espalier.providers.snow.cluster_api import (
    AddressRange,
    AWSResource,
    AWSSnowCluster,
    AWSSnowClusterSpec,
    AWSSnowIPPool,
    AWSSnowIPPoolSpec,
    AWSSnowMachineSpec,
    AWSSnowMachineTemplate,
    CloudInit,
    MachineInterface,
    MachineNetwork,
    MachineVolume,
)
from espalier.providers.snow.kinds import (
    DEFAULT_CONNECTOR,
    DEFAULT_INSTANCE_TYPE,
    DirectNetworkInterface,
    SnowIPPool,
    SnowMachineConfig,
    SnowMachineConfigSpec,
    Volume,
)

API_PORT = 6443
REGION = "snow"

INSTANCE_PROFILE = "control-plane.cluster-api-provider-aws.sigs.k8s.io"
"""The IAM instance profile of all machines, as in EKS Anywhere."""

_BOOTSTRAP_COMMAND = "/etc/eks/bootstrap.sh"
"""A command of images for Snow: it sets up network interfaces and disks."""

BOTTLEROCKET_BOOTSTRAP = "snow.bottlerocketBootstrapSnow"
"""The field of Bundles with the image that does the same in Bottlerocket."""

_BOOTSTRAP_CONTAINER = "bottlerocket-bootstrap-snow"
"""The container that runs that image on Bottlerocket."""

_NODE = kubeadm.NodeSettings({"provider-id": "aws-snow:////'{{ ds.meta_data.instance_id }}'"})
_TAINTS = [kubeadm.CONTROL_PLANE_TAINT]
_ETCD_ARGS = {"listen-peer-urls": "https://0.0.0.0:2380", "listen-client-urls": "https://0.0.0.0:2379"}
"""etcd listens at all addresses: the node's is on a direct network interface, and the instance does not know it."""


def infrastructure_cluster(render_input: RenderInput) -> AWSSnowCluster:
    """The AWSSnowCluster: credentials for devices, and the address of the API server."""
    return AWSSnowCluster(
        metadata=meta(render_input, render_input.name),
        spec=AWSSnowClusterSpec(
            region=REGION,
            control_plane_endpoint=Endpoint(host=render_input.spec.endpoint_host, port=API_PORT),
            identity_ref=LocalReference(kind=SECRET.kind, name=credentials_name(render_input.name)),
        ),
    )


def control_plane_config(render_input: RenderInput) -> KubeadmConfigSpec:
    """The kubeadm configuration of control plane machines."""
    spec = linked_objects.of_group(SnowMachineConfig, render_input, None).spec
    if spec.os == BOTTLEROCKET:
        return _control_plane_of_bottlerocket(render_input, spec)
    config = kubeadm.control_plane_config(render_input, _NODE, usual_taints=_TAINTS)
    machine_config = kube_vip.joins(
        _with_machine_settings(
            _with_etcd_at_all_addresses(config), spec, kube_vip.first_machine(render_input.of_control_plane.version)
        )
    )
    vip = kube_vip.file(image(render_input, "kube_vip"), render_input.spec.endpoint_host)
    return replace(machine_config, files=[vip, *machine_config.files])


def worker_config(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
    """The kubeadm configuration of workers."""
    spec = linked_objects.of_group(SnowMachineConfig, render_input, group).spec
    if spec.os == BOTTLEROCKET:
        config = kubeadm.worker_config(render_input, group, _NODE, by_settings=True)
        containers = _containers(render_input.of_group(group).bundle)
        bottlerocket_config = bottlerocket.worker_config(
            render_input, group, config, spec.host_os_configuration, containers
        )
        return replace(bottlerocket_config, ntp=host_os.ntp(spec.host_os_configuration))
    config = kubeadm.worker_config(render_input, group, _NODE)
    return _with_machine_settings(config, spec)


def _control_plane_of_bottlerocket(render_input: RenderInput, spec: SnowMachineConfigSpec) -> KubeadmConfigSpec:
    config = kubeadm.control_plane_config(render_input, _NODE, by_settings=True, usual_taints=_TAINTS)
    variant = kube_vip.Variant(kubeconfig=bottlerocket.KUBECONFIG)
    vip = kube_vip.file(image(render_input, "kube_vip"), render_input.spec.endpoint_host, variant)
    containers = _containers(render_input.of_control_plane.bundle)
    bottlerocket_config = bottlerocket.control_plane_config(
        render_input, _with_etcd_at_all_addresses(config), spec.host_os_configuration, containers
    )
    return replace(
        bottlerocket_config, files=[vip, *bottlerocket_config.files], ntp=host_os.ntp(spec.host_os_configuration)
    )


def _containers(bundle: VersionsBundle) -> bottlerocket.Containers:
    """Bottlerocket's containers on devices: one sets up network interfaces and disks at each boot."""
    host_containers, snow_images = bundle.bottlerocket_host_containers, bundle.snow
    at_boot = bottlerocket.uri(snow_images.bottlerocket_bootstrap_snow if snow_images is not None else None)
    return bottlerocket.Containers(
        admin=bottlerocket.uri(host_containers.admin if host_containers is not None else None),
        control=bottlerocket.uri(host_containers.control if host_containers is not None else None),
        at_boot=[bottlerocket.AtBoot(_BOOTSTRAP_CONTAINER, at_boot, "always")],
    )


def _with_machine_settings(
    config: KubeadmConfigSpec, spec: SnowMachineConfigSpec, commands: Sequence[str] = ()
) -> KubeadmConfigSpec:
    """A kubeadm configuration with time servers, and with the image's own command first."""
    return replace(
        config,
        ntp=host_os.ntp(spec.host_os_configuration),
        pre_kubeadm_commands=[_BOOTSTRAP_COMMAND, *commands, *config.pre_kubeadm_commands],
    )


def lacks_images_of_bottlerocket(render_input: RenderInput) -> Iterator[str]:
    """The images of Bottlerocket's containers that the release lacks."""
    for components in render_input.components.values():
        containers = _containers(components.bundle)
        if not (containers.admin and containers.control):
            yield "bottlerocketHostContainers.admin and control"
        if not containers.at_boot[0].image:
            yield BOTTLEROCKET_BOOTSTRAP


def _with_etcd_at_all_addresses(config: KubeadmConfigSpec) -> KubeadmConfigSpec:
    """The configuration with stacked etcd listening at all addresses of its machine."""
    cluster = config.cluster_configuration
    local = cluster.etcd.local if cluster is not None and cluster.etcd is not None else None
    if cluster is None or cluster.etcd is None or local is None:
        return config
    args = [*local.extra_args, *(Arg(name=name, value=value) for name, value in _ETCD_ARGS.items())]
    listening = replace(cluster.etcd, local=replace(local, extra_args=args))
    return replace(config, cluster_configuration=replace(cluster, etcd=listening))


def machine_template(
    render_input: RenderInput, _components: Components, name: str, group: WorkerNodeGroupConfiguration | None
) -> AWSSnowMachineTemplate:
    """The AWSSnowMachineTemplate of the control plane or of a group."""
    return _template(render_input, name, linked_objects.of_group(SnowMachineConfig, render_input, group).spec)


def etcd_config(render_input: RenderInput) -> EtcdadmConfigSpec:
    """The configuration by which a machine becomes an etcd member."""
    spec = linked_objects.of_etcd(SnowMachineConfig, render_input).spec
    config = replace(
        etcd.config(render_input, install_dir="/usr/bin", format="cloud-config"),
        ntp=host_os.ntp(spec.host_os_configuration),
    )
    if spec.os == BOTTLEROCKET:
        containers = _containers(render_input.of_control_plane.bundle)
        return bottlerocket.etcd_config(render_input, config, spec.host_os_configuration, containers)
    return replace(config, pre_etcdadm_commands=[_BOOTSTRAP_COMMAND])


def etcd_machine_template(render_input: RenderInput, name: str) -> AWSSnowMachineTemplate:
    """The template of etcd machines."""
    return _template(render_input, name, linked_objects.of_etcd(SnowMachineConfig, render_input).spec)


def settings(render_input: RenderInput) -> Settings:
    """Settings as in EKS Anywhere."""
    return Settings(feature_gates=kubeadm.members_at_once(render_input))


def no_proxy(render_input: RenderInput) -> Sequence[str]:
    """Hosts without proxy: the API server."""
    return [render_input.spec.endpoint_host]


def extra_names(name: str, _spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Name]:
    """The Secret with credentials, and IP pools."""
    yield Name(SECRET, credentials_name(name))
    for pool in linked_objects.of_kind(SnowIPPool, children):
        yield Name(AWSSnowIPPool.resource, pool_name(name, pool))


def extras(render_input: RenderInput) -> Iterable[KubeObject]:
    """The extra objects, with content."""
    metadata = meta(render_input, credentials_name(render_input.name))
    metadata.labels = metadata.labels | MOVE_LABELS
    yield Secret(metadata=metadata, type="Opaque", data=dict(references.credentials(render_input)))
    for name, pool in linked_objects.of_kind(SnowIPPool, render_input.children).items():
        ranges = [
            AddressRange(range_.ip_start, range_.ip_end, range_.subnet, range_.gateway) for range_ in pool.spec.pools
        ]
        yield AWSSnowIPPool(
            metadata=meta(render_input, pool_name(render_input.name, name)), spec=AWSSnowIPPoolSpec(pools=ranges)
        )


def credentials_name(cluster: str) -> str:
    """The name of the Secret with the credentials of a cluster's machines, as in EKS Anywhere."""
    return f"{cluster}-snow-credentials"


def pool_name(cluster: str, pool: str) -> str:
    """The AWSSnowIPPool of a SnowIPPool, per cluster, because pools of several namespaces may share a name."""
    return f"{cluster}-{pool}"


def image(render_input: RenderInput, name: str) -> str:
    """An image of the release for Snow; `lacks` ensures that the release has it."""
    image_of_release = getattr(render_input.of_control_plane.bundle.snow, name, None)
    return str(image_of_release.uri) if image_of_release is not None else ""


def _template(render_input: RenderInput, name: str, machine_spec: SnowMachineConfigSpec) -> AWSSnowMachineTemplate:
    interfaces = [_interface(render_input, interface) for interface in machine_spec.network.direct_network_interfaces]
    machine = AWSSnowMachineSpec(
        ami=AWSResource(id=machine_spec.ami_id) if machine_spec.ami_id else None,
        cloud_init=CloudInit(insecure_skip_secrets_manager=True),
        containers_volume=_volume(machine_spec.containers_volume)
        if machine_spec.containers_volume is not None
        else None,
        devices=machine_spec.devices,
        iam_instance_profile=INSTANCE_PROFILE,
        image_lookup_base_os=BOTTLEROCKET if machine_spec.os == BOTTLEROCKET else "",
        instance_type=machine_spec.instance_type or DEFAULT_INSTANCE_TYPE,
        network=MachineNetwork(direct_network_interfaces=interfaces),
        non_root_volumes=[_volume(volume) for volume in machine_spec.non_root_volumes],
        os_family=machine_spec.os,
        physical_network_connector_type=machine_spec.physical_network_connector or DEFAULT_CONNECTOR,
        ssh_key_name=machine_spec.ssh_key_name,
    )
    return AWSSnowMachineTemplate.of(meta(render_input, name), machine)


def _interface(render_input: RenderInput, interface: DirectNetworkInterface) -> MachineInterface:
    pool = interface.ip_pool_ref
    name = pool_name(render_input.name, pool.name) if pool is not None else ""
    return MachineInterface(
        index=interface.index,
        vlan_id=interface.vlan_id,
        dhcp=interface.dhcp,
        primary=interface.primary,
        ip_pool=LocalReference(kind=AWSSnowIPPool.resource.kind, name=name) if name else None,
    )


def _volume(volume: Volume) -> MachineVolume:
    return MachineVolume(size=volume.size, device_name=volume.device_name, type=volume.type or "")
