"""Renders the objects of Cluster API's provider for Nutanix from a render input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from espalier.api.capi.cluster import Endpoint
from espalier.api.capi.etcdadm import EtcdadmConfigSpec
from espalier.api.capi.kubeadm import BootstrapUser, KubeadmConfigSpec
from espalier.api.core import CONFIG_MAP, SECRET, ConfigMap, Secret
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.clusterapi.contract import MOVE_LABELS
from espalier.clusters.design.cluster_objects import linked_objects
from espalier.clusters.design.provider import Components, Name, RenderInput
from espalier.clusters.design.render import etcd, kubeadm
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.render.nodes import host_os, kube_vip
from espalier.clusters.design.rendered import Settings
from espalier.kube.objects import Object
from espalier.providers.nutanix import references
from espalier.providers.nutanix.cluster_api import (
    CredentialReference,
    MachineCategory,
    MachineGpu,
    NutanixCluster,
    NutanixClusterSpec,
    NutanixFailureDomain,
    NutanixMachineSpec,
    NutanixMachineTemplate,
    PrismCentral,
    ResourceIdentifier,
    TrustBundle,
)
from espalier.providers.nutanix.kinds import (
    DEFAULT_USER,
    FailureDomain,
    Gpu,
    Identifier,
    NutanixDatacenterConfig,
    NutanixMachineConfig,
)

API_PORT = 6443

CERT_SANS = ("localhost", "127.0.0.1", "0.0.0.0")  # noqa: S104  a name in a certificate, as in EKS Anywhere
AUTHORITIES = "ca.crt"
"""The key of certificates in ConfigMaps."""

_NODE = kubeadm.NodeSettings(
    {
        "cloud-provider": "external",
        "eviction-hard": "nodefs.available<0%,nodefs.inodesFree<0%,imagefs.available<0%",
    },
    kubeadm.CRI_SOCKET,
    host_os.NODE_NAME,
)
_KUBE_VIP = kube_vip.Variant({"svc_enable": "false", "lb_enable": "false"}, kubeconfig_type="FileOrCreate")
"""As in EKS Anywhere."""

_SET_HOST_NAME = f'hostnamectl set-hostname "{host_os.NODE_NAME}"'
_ROOT_KUBECONFIG = "echo export KUBECONFIG=/etc/kubernetes/admin.conf >> /root/.bashrc"
"""Whoever is root on a machine of the control plane has kubectl."""


def infrastructure_cluster(render_input: RenderInput) -> NutanixCluster:
    """The NutanixCluster: Prism Central, its credentials, failure domains, and the address of the API server."""
    spec, namespace = references.datacenter(render_input), SYSTEM_NAMESPACE
    bundle = TrustBundle(kind=CONFIG_MAP.kind, name=trust_bundle_name(render_input.name), namespace=namespace)
    return NutanixCluster(
        metadata=meta(render_input, render_input.name),
        spec=NutanixClusterSpec(
            control_plane_endpoint=Endpoint(host=render_input.spec.endpoint_host, port=API_PORT),
            prism_central=PrismCentral(
                address=spec.endpoint,
                port=spec.port,
                insecure=spec.insecure,
                credential_ref=CredentialReference(
                    kind=SECRET.kind, name=credentials_name(render_input.name), namespace=namespace
                ),
                additional_trust_bundle=bundle if spec.additional_trust_bundle else None,
            ),
            failure_domains=[_failure_domain(domain) for domain in spec.failure_domains],
        ),
    )


def _failure_domain(domain: FailureDomain) -> NutanixFailureDomain:
    return NutanixFailureDomain(
        name=domain.name,
        cluster=_identifier(domain.cluster),
        subnets=[_identifier(subnet) for subnet in domain.subnets],
        control_plane=True,
    )


def control_plane_config(render_input: RenderInput) -> KubeadmConfigSpec:
    """The kubeadm configuration of control plane machines."""
    config = kubeadm.control_plane_config(
        render_input,
        _NODE,
        cert_sans=CERT_SANS,
    )
    machine_config = _with_machine_settings(config, linked_objects.of_group(NutanixMachineConfig, render_input, None))
    first = kube_vip.first_machine(render_input.of_control_plane.version)
    return replace(
        machine_config,
        files=[
            kube_vip.file(image(render_input, "kube_vip"), render_input.spec.endpoint_host, _KUBE_VIP),
            *machine_config.files,
        ],
        pre_kubeadm_commands=[*machine_config.pre_kubeadm_commands, *host_os.HOSTS_COMMANDS, *first],
        post_kubeadm_commands=[_ROOT_KUBECONFIG],
    )


def worker_config(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
    """The kubeadm configuration of workers."""
    config = kubeadm.worker_config(
        render_input,
        group,
        _NODE,
    )
    return _with_machine_settings(config, linked_objects.of_group(NutanixMachineConfig, render_input, group))


def _with_machine_settings(config: KubeadmConfigSpec, machine_config: NutanixMachineConfig) -> KubeadmConfigSpec:
    """A kubeadm configuration with users, and the name of the machine."""
    return replace(
        config, users=_users(machine_config), pre_kubeadm_commands=[*config.pre_kubeadm_commands, _SET_HOST_NAME]
    )


def _users(machine_config: NutanixMachineConfig) -> list[BootstrapUser]:
    """Users with unlocked passwords, as in EKS Anywhere: with locked passwords, some images reject keys, too."""
    return [replace(user, lock_password=False) for user in host_os.users(machine_config.spec.users, DEFAULT_USER)]


def machine_template(
    render_input: RenderInput, _components: Components, name: str, group: WorkerNodeGroupConfiguration | None
) -> NutanixMachineTemplate:
    """The NutanixMachineTemplate of the control plane, or of a group, in its failure domain."""
    return _template(
        render_input,
        name,
        linked_objects.of_group(NutanixMachineConfig, render_input, group),
        references.domain(render_input, group),
    )


def etcd_config(render_input: RenderInput) -> EtcdadmConfigSpec:
    """The configuration by which a machine becomes an etcd member."""
    return replace(
        etcd.config(render_input, install_dir="/usr/bin", format="cloud-config"),
        users=_users(linked_objects.of_etcd(NutanixMachineConfig, render_input)),
        pre_etcdadm_commands=[_SET_HOST_NAME, *host_os.HOSTS_COMMANDS],
    )


def etcd_machine_template(render_input: RenderInput, name: str) -> NutanixMachineTemplate:
    """The template of etcd machines."""
    return _template(render_input, name, linked_objects.of_etcd(NutanixMachineConfig, render_input), None)


def settings(render_input: RenderInput) -> Settings:
    """Settings as in EKS Anywhere, with an external cloud controller."""
    external = kubeadm.with_cloud_controller(render_input)
    manager = {**external.controller_manager, "enable-hostpath-provisioner": "true"}
    return replace(external, service_domain="cluster.local", controller_manager=manager)


def no_proxy(render_input: RenderInput) -> Sequence[str]:
    """Hosts without proxy: Prism Central, and the API server."""
    return [references.datacenter(render_input).endpoint, render_input.spec.endpoint_host]


def extra_names(name: str, _spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Name]:
    """The Secret with credentials, and the ConfigMap with certificates of authorities."""
    yield Name(SECRET, credentials_name(name))
    if any(
        datacenter.spec.additional_trust_bundle
        for datacenter in linked_objects.of_kind(NutanixDatacenterConfig, children).values()
    ):
        yield Name(CONFIG_MAP, trust_bundle_name(name))


def extras(render_input: RenderInput) -> Iterable[KubeObject]:
    """The extra objects, with content."""
    metadata = meta(render_input, credentials_name(render_input.name))
    metadata.labels = metadata.labels | MOVE_LABELS
    yield Secret(metadata=metadata, type="Opaque", data={references.OF_MACHINES: references.of_machines(render_input)})
    if bundle := references.datacenter(render_input).additional_trust_bundle:
        yield ConfigMap(metadata=meta(render_input, trust_bundle_name(render_input.name)), data={AUTHORITIES: bundle})


def credentials_name(cluster: str) -> str:
    """The name of the Secret with the credentials of a cluster's machines, as in EKS Anywhere."""
    return f"capx-{cluster}"


def trust_bundle_name(cluster: str) -> str:
    """The name of the ConfigMap with trusted CAs, as in EKS Anywhere."""
    return f"{cluster}-trust-bundle"


def image(render_input: RenderInput, name: str) -> str:
    """An image of the release for Nutanix; `lacks` ensures that the release has it."""
    image_of_release = getattr(render_input.of_control_plane.bundle.nutanix, name, None)
    return str(image_of_release.uri) if image_of_release is not None else ""


def _template(
    render_input: RenderInput, name: str, config: NutanixMachineConfig, domain: FailureDomain | None
) -> NutanixMachineTemplate:
    spec = config.spec
    machine = NutanixMachineSpec(
        vcpus_per_socket=spec.vcpus_per_socket,
        vcpu_sockets=spec.vcpu_sockets,
        memory_size=spec.memory_size,
        system_disk_size=spec.system_disk_size,
        image=_identifier(spec.image),
        cluster=_identifier(domain.cluster if domain is not None else spec.cluster),
        subnet=[_identifier(subnet) for subnet in (domain.subnets if domain is not None else [spec.subnet])],
        project=_identifier(spec.project) if spec.project is not None else None,
        boot_type=spec.boot_type or "",
        additional_categories=[
            MachineCategory(category.key, category.value) for category in spec.additional_categories
        ],
        gpus=[_gpu(gpu) for gpu in spec.gpus],
    )
    return NutanixMachineTemplate.of(meta(render_input, name), machine)


def _identifier(identifier: Identifier) -> ResourceIdentifier:
    """The identifier with only the field of its type."""
    name, uuid = (identifier.name, "") if identifier.type == "name" else ("", identifier.uuid)
    return ResourceIdentifier(type=identifier.type, name=name, uuid=uuid)


def _gpu(gpu: Gpu) -> MachineGpu:
    if gpu.type == "name":
        return MachineGpu(type=gpu.type, name=gpu.name)
    return MachineGpu(type=gpu.type, device_id=gpu.device_id)
