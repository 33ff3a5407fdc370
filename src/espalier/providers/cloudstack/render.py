"""Renders the objects of Cluster API's provider for CloudStack from a render input."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from espalier.api.capi.etcdadm import EtcdadmConfigSpec
from espalier.api.capi.kubeadm import KubeadmConfigSpec
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.clusters import linked_objects
from espalier.clusters.render import etcd, host_os, kube_vip, kubeadm
from espalier.clusters.render.cluster import meta
from espalier.clusters.render_input import Components, RenderInput
from espalier.clusters.rendered import Rendered, Settings
from espalier.providers.cloudstack import disks, references
from espalier.providers.cloudstack.cluster_api import (
    AcsEndpoint,
    CloudStackCluster,
    CloudStackClusterSpec,
    CloudStackFailureDomain,
    CloudStackMachineSpec,
    CloudStackMachineTemplate,
    CloudStackMachineTemplateResource,
    CloudStackMachineTemplateSpec,
    DomainNetwork,
    DomainZone,
    Identifier,
    MachineDisk,
)
from espalier.providers.cloudstack.kinds import (
    AvailabilityZone,
    CloudStackMachineConfig,
    CloudStackMachineConfigSpec,
    DiskOffering,
    Named,
)

CRI_SOCKET = "unix:///var/run/containerd/containerd.sock"

_KUBELET_ARGS = {"provider-id": "cloudstack:///'{{ ds.meta_data.instance_id }}'"}
"""cloud-init knows the ID of the instance; no cloud controller would find it out."""

_NO_SWAP = "swapoff -a"
_ETCDADM_IS_THERE = "true"
"""A command in place of those that install etcdadm: it is in the template. With none at all, etcdadm counts as builtin,
and commands before it would not be run."""


def infrastructure_cluster(render_input: RenderInput) -> CloudStackCluster:
    """The CloudStackCluster: zones, credentials, and the address of the API server."""
    return CloudStackCluster(
        metadata=meta(render_input, render_input.name),
        spec=CloudStackClusterSpec(
            control_plane_endpoint=references.endpoint(render_input.spec),
            failure_domains=[_failure_domain(one) for one in references.zones(render_input)],
        ),
    )


def _failure_domain(given: AvailabilityZone) -> CloudStackFailureDomain:
    zone = given.zone
    return CloudStackFailureDomain(
        name=given.name,
        zone=DomainZone(id=zone.id, name=zone.name, network=DomainNetwork(id=zone.network.id, name=zone.network.name)),
        domain=given.domain,
        account=given.account,
        acs_endpoint=AcsEndpoint(name=references.credentials_of(given), namespace=SYSTEM_NAMESPACE),
    )


def control_plane_config(render_input: RenderInput) -> KubeadmConfigSpec:
    """The kubeadm configuration of control plane machines."""
    configuration = render_input.control_plane.kubelet_configuration
    config = kubeadm.control_plane_config(
        render_input,
        kubelet_args=_KUBELET_ARGS | kubeadm.fixed_kubelet_args(configuration),
        cri_socket=CRI_SOCKET,
        node_name=host_os.NODE_NAME,
    )
    made = _of_machine(config, linked_objects.of_group(CloudStackMachineConfig, render_input, None).spec)
    return replace(
        made,
        files=[kube_vip.file(_kube_vip_image(render_input), references.endpoint(render_input.spec).host), *made.files],
        pre_kubeadm_commands=[
            *made.pre_kubeadm_commands,
            *kube_vip.first_machine(render_input.of_control_plane.version),
        ],
    )


def worker_config(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
    """The kubeadm configuration of workers."""
    config = kubeadm.worker_config(
        render_input,
        group,
        kubelet_args=_KUBELET_ARGS | kubeadm.fixed_kubelet_args(group.kubelet_configuration),
        cri_socket=CRI_SOCKET,
        node_name=host_os.NODE_NAME,
    )
    return _of_machine(config, linked_objects.of_group(CloudStackMachineConfig, render_input, group).spec)


def _of_machine(config: KubeadmConfigSpec, asked: CloudStackMachineConfigSpec) -> KubeadmConfigSpec:
    """A kubeadm configuration with users, the data disk, symlinks, and the name of the machine."""
    disk = asked.disk
    return replace(
        config,
        users=host_os.users(asked.users),
        disk_setup=disks.disk_setup(disk) if disk is not None else None,
        mounts=disks.mounts(disk) if disk is not None else [],
        pre_kubeadm_commands=[
            _NO_SWAP,
            *disks.links(asked.symlinks),
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
    asked = linked_objects.of_etcd(CloudStackMachineConfig, render_input).spec
    return replace(
        etcd.config(render_input, install_dir="/usr/bin", format="cloud-config"),
        etcdadm_builtin=False,
        etcdadm_install_commands=[_ETCDADM_IS_THERE],
        users=host_os.users(asked.users),
        pre_etcdadm_commands=[
            _NO_SWAP,
            *(disks.commands(asked.disk) if asked.disk is not None else ()),
            *disks.links(asked.symlinks),
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
    host = f"[{address.host}]" if ":" in address.host else address.host
    apis = (references.host_of(one.management_api_endpoint) for one in references.zones(render_input))
    return [*dict.fromkeys(apis), f"{host}:{address.port}"]


def _kube_vip_image(render_input: RenderInput) -> str:
    """The kube-vip image of the release; `lacks` ensures that there is one."""
    images = render_input.of_control_plane.bundle.cloud_stack
    return images.kube_vip.uri if images is not None and images.kube_vip is not None else ""


def _template(render_input: RenderInput, name: str, config: CloudStackMachineConfig) -> CloudStackMachineTemplate:
    asked = config.spec
    machine = CloudStackMachineSpec(
        offering=_identifier(asked.compute_offering),
        template=_identifier(asked.template),
        disk_offering=_disk(asked.disk) if asked.disk is not None else None,
        affinity=asked.affinity,
        affinity_group_ids=asked.affinity_group_ids,
        details=asked.user_custom_details,
    )
    metadata = meta(render_input, name)
    metadata.annotations = disks.template_annotations(asked)
    return CloudStackMachineTemplate(
        metadata=metadata,
        spec=CloudStackMachineTemplateSpec(template=CloudStackMachineTemplateResource(spec=machine)),
    )


def _identifier(given: Named) -> Identifier:
    return Identifier(id=given.id, name=given.name)


def _disk(given: DiskOffering) -> MachineDisk:
    return MachineDisk(
        id=given.id,
        name=given.name,
        custom_size_in_gb=given.custom_size_in_gb,
        mount_path=given.mount_path,
        device=given.device,
        filesystem=given.filesystem,
        label=given.label,
    )
