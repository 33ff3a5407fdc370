"""Renders the objects of Cluster API's provider for CloudStack from a render input."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from espalier.api.capi.etcdadm import EtcdadmConfigSpec
from espalier.api.capi.kubeadm import KubeadmConfigSpec
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.clusters.design.cluster_objects import linked_objects
from espalier.clusters.design.provider import Components, RenderInput
from espalier.clusters.design.render import etcd, kubeadm
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.render.nodes import host_os, kube_vip
from espalier.clusters.design.rendered import Rendered, Settings
from espalier.kube.transports.wire import in_url
from espalier.providers.cloudstack import disks, references
from espalier.providers.cloudstack.cluster_api import (
    AcsEndpoint,
    CloudStackCluster,
    CloudStackClusterSpec,
    CloudStackFailureDomain,
    CloudStackMachineSpec,
    CloudStackMachineTemplate,
    DomainNetwork,
    DomainZone,
    Identifier,
    MachineDisk,
)
from espalier.providers.cloudstack.kinds import (
    DEFAULT_USER,
    AvailabilityZone,
    CloudStackMachineConfig,
    CloudStackMachineConfigSpec,
    DiskOffering,
    Named,
)

_NODE = kubeadm.NodeSettings(
    {"provider-id": "cloudstack:///'{{ ds.meta_data.instance_id }}'"}, kubeadm.CRI_SOCKET, host_os.NODE_NAME
)
"""cloud-init replaces the ID of the instance: there is no cloud controller to set provider IDs."""

_NO_SWAP = "swapoff -a"
_NO_INSTALL_COMMAND = "true"
"""A command in place of those that install etcdadm: it is in the template. With none at all, etcdadm counts as builtin,
and commands before it would not be run."""


def infrastructure_cluster(render_input: RenderInput) -> CloudStackCluster:
    """The CloudStackCluster: zones, credentials, and the address of the API server."""
    return CloudStackCluster(
        metadata=meta(render_input, render_input.name),
        spec=CloudStackClusterSpec(
            control_plane_endpoint=references.endpoint(render_input.spec),
            failure_domains=[_failure_domain(zone) for zone in references.zones(render_input)],
        ),
    )


def _failure_domain(availability_zone: AvailabilityZone) -> CloudStackFailureDomain:
    zone = availability_zone.zone
    return CloudStackFailureDomain(
        name=availability_zone.name,
        zone=DomainZone(id=zone.id, name=zone.name, network=DomainNetwork(id=zone.network.id, name=zone.network.name)),
        domain=availability_zone.domain,
        account=availability_zone.account,
        acs_endpoint=AcsEndpoint(name=references.credentials_of(availability_zone), namespace=SYSTEM_NAMESPACE),
    )


def control_plane_config(render_input: RenderInput) -> KubeadmConfigSpec:
    """The kubeadm configuration of control plane machines."""
    config = kubeadm.control_plane_config(
        render_input,
        _NODE,
    )
    machine_config = _with_machine_settings(
        config, linked_objects.of_group(CloudStackMachineConfig, render_input, None).spec
    )
    return replace(
        machine_config,
        files=[
            kube_vip.file(_kube_vip_image(render_input), references.endpoint(render_input.spec).host),
            *machine_config.files,
        ],
        pre_kubeadm_commands=[
            *machine_config.pre_kubeadm_commands,
            *kube_vip.first_machine(render_input.of_control_plane.version),
        ],
    )


def worker_config(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
    """The kubeadm configuration of workers."""
    config = kubeadm.worker_config(
        render_input,
        group,
        _NODE,
    )
    return _with_machine_settings(config, linked_objects.of_group(CloudStackMachineConfig, render_input, group).spec)


def _with_machine_settings(config: KubeadmConfigSpec, spec: CloudStackMachineConfigSpec) -> KubeadmConfigSpec:
    """A kubeadm configuration with users, the data disk, symlinks, and the name of the machine."""
    disk = spec.disk
    return replace(
        config,
        users=host_os.users(spec.users, DEFAULT_USER),
        disk_setup=disks.disk_setup(disk) if disk is not None else None,
        mounts=disks.mounts(disk) if disk is not None else [],
        pre_kubeadm_commands=[
            _NO_SWAP,
            *disks.links(spec.symlinks),
            *config.pre_kubeadm_commands,
            *host_os.NAMED,
        ],
    )


def machine_template(
    render_input: RenderInput, _components: Components, name: str, group: WorkerNodeGroupConfiguration | None
) -> CloudStackMachineTemplate:
    """The CloudStackMachineTemplate of the control plane or of a group."""
    return _template(render_input, name, linked_objects.of_group(CloudStackMachineConfig, render_input, group))


def etcd_config(render_input: RenderInput) -> EtcdadmConfigSpec:
    """The configuration by which a machine becomes an etcd member."""
    spec = linked_objects.of_etcd(CloudStackMachineConfig, render_input).spec
    return replace(
        etcd.config(render_input, install_dir="/usr/bin", format="cloud-config"),
        etcdadm_builtin=False,
        etcdadm_install_commands=[_NO_INSTALL_COMMAND],
        users=host_os.users(spec.users, DEFAULT_USER),
        pre_etcdadm_commands=[
            _NO_SWAP,
            *(disks.commands(spec.disk) if spec.disk is not None else ()),
            *disks.links(spec.symlinks),
            *host_os.NAMED,
        ],
    )


def etcd_machine_template(render_input: RenderInput, name: str) -> CloudStackMachineTemplate:
    """The template of etcd machines."""
    return _template(render_input, name, linked_objects.of_etcd(CloudStackMachineConfig, render_input))


def settings(render_input: RenderInput) -> Settings:
    """Settings as in EKS Anywhere. There is no cloud controller."""
    external = kubeadm.with_cloud_controller(render_input)
    return replace(external, feature_gates=kubeadm.members_at_once(render_input), empty_worker_taints=True)


def complete(render_input: RenderInput, rendered: Rendered) -> Rendered:
    """Adds the address of the API server."""
    cluster = rendered.cluster
    spec = replace(cluster.spec, control_plane_endpoint=references.endpoint(render_input.spec))
    return replace(rendered, cluster=replace(cluster, spec=spec))


def no_proxy(render_input: RenderInput) -> Sequence[str]:
    """Hosts without proxy: the APIs of CloudStack, and the API server."""
    address = references.endpoint(render_input.spec)
    apis = (references.host_of(zone.management_api_endpoint) for zone in references.zones(render_input))
    return [*dict.fromkeys(apis), f"{in_url(address.host)}:{address.port}"]


def _kube_vip_image(render_input: RenderInput) -> str:
    """The kube-vip image of the release; `lacks` ensures that the release has it."""
    images = render_input.of_control_plane.bundle.cloud_stack
    return images.kube_vip.uri if images is not None and images.kube_vip is not None else ""


def _template(render_input: RenderInput, name: str, config: CloudStackMachineConfig) -> CloudStackMachineTemplate:
    spec = config.spec
    machine = CloudStackMachineSpec(
        offering=_identifier(spec.compute_offering),
        template=_identifier(spec.template),
        disk_offering=_disk(spec.disk) if spec.disk is not None else None,
        affinity=spec.affinity,
        affinity_group_ids=spec.affinity_group_ids,
        details=spec.user_custom_details,
    )
    metadata = meta(render_input, name)
    metadata.annotations = disks.template_annotations(spec)
    return CloudStackMachineTemplate.of(metadata, machine)


def _identifier(named: Named) -> Identifier:
    return Identifier(id=named.id, name=named.name)


def _disk(disk: DiskOffering) -> MachineDisk:
    return MachineDisk(
        id=disk.id,
        name=disk.name,
        custom_size_in_gb=disk.custom_size_in_gb,
        mount_path=disk.mount_path,
        device=disk.device,
        filesystem=disk.filesystem,
        label=disk.label,
    )
