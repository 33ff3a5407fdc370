"""Machines with Bottlerocket, for any provider, as in EKS Anywhere's build of Cluster API.

Bottlerocket has neither a shell nor a package manager and is configured by settings. A container of the release runs
kubeadm; its output below `/etc/kubernetes` is in another folder of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from espalier.api.capi import bottlerocket as capi
from espalier.api.capi.etcdadm import (
    EtcdadmConfigSpec,
    EtcdBootstrapContainer,
    EtcdBottlerocketConfig,
)
from espalier.api.capi.kubeadm import (
    ClusterConfiguration,
    Component,
    Etcd,
    HostPathMount,
    KubeadmConfigSpec,
)
from espalier.api.eksa.parts.host_os import (
    BottlerocketBoot,
    BottlerocketConfiguration,
    BottlerocketKernel,
    BottlerocketKubernetes,
    HostOSConfiguration,
)
from espalier.api.eksa.parts.network import RegistryMirrorConfiguration
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.releases.components import Image
from espalier.api.eksa.releases.release import VersionsBundle
from espalier.clusters.design import registry_mirror
from espalier.clusters.design.provider import Components, RenderInput
from espalier.clusters.design.render.nodes import node_setup

C = TypeVar("C", bound=capi.BottlerocketFields)

_MOUNTED, _HOST = "/etc/kubernetes/", "/var/lib/kubeadm/"
"""The path of a file in static pods, and on the machine."""

KUBECONFIG = f"{_HOST}admin.conf"
"""The administrator's kubeconfig on control plane machines."""

_CERTIFICATES = f"{_HOST}pki"

_DEFAULT = registry_mirror.DEFAULT_REGISTRY

_RENAMED = {"clusterDNS": "clusterDNSIPs"}
"""Fields of a KubeletConfiguration with another name in Bottlerocket."""

_SETTINGS = frozenset(field.encode_name for field in msgspec.structs.fields(BottlerocketKubernetes))
_KINDS = frozenset({"apiVersion", "kind"})


class AtBoot(NamedTuple):
    """A container that machines run at boot."""

    name: str
    image: str
    mode: str
    """`always`, or `once`."""


class Containers(NamedTuple):
    """The provider's host containers; by default Bottlerocket's own."""

    admin: str = ""
    control: str = ""
    at_boot: Sequence[AtBoot] = ()


NO_CONTAINERS = Containers()


def control_plane_config(
    render_input: RenderInput,
    config: KubeadmConfigSpec,
    asked: HostOSConfiguration | None,
    containers: Containers = NO_CONTAINERS,
) -> KubeadmConfigSpec:
    """The configuration of control plane machines: `config`, without files and commands that set up a machine.

    It must list the taints: the kubelet registers with them before kubeadm would set its defaults.
    """
    cluster, join = config.cluster_configuration, config.join_configuration
    if cluster is None or join is None:
        return config
    kubelet = render_input.control_plane.kubelet_configuration
    fields = _fields(render_input, render_input.of_control_plane, kubelet, asked, containers)
    return replace(
        config,
        format=capi.FORMAT,
        cluster_configuration=_with(_on_host(cluster), fields),
        join_configuration=_with(join, fields),
    )


def worker_config(
    render_input: RenderInput,
    group: WorkerNodeGroupConfiguration,
    config: KubeadmConfigSpec,
    asked: HostOSConfiguration | None,
    containers: Containers = NO_CONTAINERS,
) -> KubeadmConfigSpec:
    """The configuration of workers, likewise."""
    join = config.join_configuration
    if join is None:
        return config
    fields = _fields(render_input, render_input.of_group(group), group.kubelet_configuration, asked, containers)
    return replace(config, format=capi.FORMAT, join_configuration=_with(join, fields))


def etcd_config(
    render_input: RenderInput,
    config: EtcdadmConfigSpec,
    asked: HostOSConfiguration | None,
    containers: Containers = NO_CONTAINERS,
) -> EtcdadmConfigSpec:
    """The configuration of external etcd machines. It has no kubelet settings: such a machine is no node."""
    components = render_input.of_control_plane
    settings = _settings(None, asked) or BottlerocketConfiguration()
    return replace(
        config,
        format=capi.FORMAT,
        cloud_init_config=None,
        cert_bundles=_cert_bundles(asked),
        registry_mirror=registry_mirror.of_etcd(render_input.spec.registry_mirror_configuration),
        bottlerocket_config=EtcdBottlerocketConfig(
            admin_image=containers.admin,
            bootstrap_image=uri(bootstrap_image(components.bundle)),
            control_image=containers.control,
            etcd_image=str(components.distro.etcd),
            pause_image=str(components.distro.pause),
            custom_bootstrap_containers=[
                EtcdBootstrapContainer(name=container.name, image=container.image, mode=container.mode)
                for container in containers.at_boot
            ],
            boot=settings.boot,
            kernel=settings.kernel,
        ),
    )


def bootstrap_image(bundle: VersionsBundle) -> Image | None:
    """The container that runs kubeadm."""
    images = bundle.bottlerocket_host_containers
    return images.kubeadm_bootstrap if images is not None else None


def uri(image: Image | None) -> str:
    """The URI of an image of the release; `clusters/observe/rules/machines/bottlerocket.py` checks that it exists."""
    return str(image.uri) if image is not None else ""


def kubelet_settings(configuration: Mapping[str, Any] | None) -> dict[str, Any]:
    """A KubeletConfiguration as settings of Bottlerocket, as far as it has them."""
    named = {_RENAMED.get(name, name): value for name, value in (configuration or {}).items()}
    return {name: value for name, value in named.items() if name in _SETTINGS}


def unknown_to_kubelets(configuration: Mapping[str, Any] | None) -> list[str]:
    """The fields of a KubeletConfiguration that Bottlerocket has no setting for."""
    return sorted(name for name in configuration or {} if _RENAMED.get(name, name) not in _SETTINGS | _KINDS)


def _fields(
    render_input: RenderInput,
    components: Components,
    kubelet: Mapping[str, Any] | None,
    asked: HostOSConfiguration | None,
    containers: Containers,
) -> capi.BottlerocketFields:
    proxy, mirror = render_input.spec.proxy_configuration, render_input.spec.registry_mirror_configuration
    return capi.BottlerocketFields(
        bottlerocket=_settings(kubelet, asked),
        bottlerocket_admin=_parts(containers.admin),
        bottlerocket_bootstrap=_parts(uri(bootstrap_image(components.bundle))),
        bottlerocket_control=_parts(containers.control),
        bottlerocket_custom_bootstrap_containers=[_at_boot(container) for container in containers.at_boot],
        cert_bundles=_cert_bundles(asked),
        pause=_parts(str(components.distro.pause)),
        proxy=capi.Proxy(https_proxy=proxy.https_proxy, no_proxy=node_setup.reached_directly(render_input, proxy))
        if proxy is not None
        else None,
        registry_mirror=_mirror(mirror) if mirror is not None else None,
    )


def _cert_bundles(asked: HostOSConfiguration | None) -> list[capi.CertBundle]:
    return [
        capi.CertBundle(name=bundle.name, data=bundle.data)
        for bundle in (asked.cert_bundles if asked is not None else [])
    ]


def _with(configuration: C, fields: capi.BottlerocketFields) -> C:
    return replace(configuration, **msgspec.structs.asdict(fields))


def _settings(kubelet: Mapping[str, Any] | None, asked: HostOSConfiguration | None) -> BottlerocketConfiguration | None:
    """The kubelet settings: those of the Cluster override those of a machine config."""
    given = asked.bottlerocket_configuration if asked is not None else None
    given = given or BottlerocketConfiguration()
    of_kubelets = (msgspec.to_builtins(given.kubernetes) if given.kubernetes else {}) | kubelet_settings(kubelet)
    configuration = BottlerocketConfiguration(
        boot=given.boot if given.boot != BottlerocketBoot() else None,
        kernel=given.kernel if given.kernel != BottlerocketKernel() else None,
        kubernetes=msgspec.convert(of_kubelets, BottlerocketKubernetes) if of_kubelets else None,
    )
    return configuration if configuration != BottlerocketConfiguration() else None


def _parts(image: str) -> capi.ImageParts | None:
    repository, _, tag = image.rpartition(":")
    return capi.ImageParts(image_repository=repository, image_tag=tag) if image else None


def _at_boot(container: AtBoot) -> capi.BootstrapContainer:
    repository, _, tag = container.image.rpartition(":")
    return capi.BootstrapContainer(name=container.name, image_repository=repository, image_tag=tag, mode=container.mode)


def _mirror(mirror: RegistryMirrorConfiguration) -> capi.RegistryMirror:
    """The mirror, as in EKS Anywhere: `endpoint` if it only mirrors its default registry."""
    endpoints = registry_mirror.endpoints(mirror)
    if list(endpoints) == [_DEFAULT]:
        return capi.RegistryMirror(endpoint=endpoints[_DEFAULT], ca_cert=mirror.ca_cert_content)
    mirrors = [capi.Mirror(registry=registry, endpoints=[endpoint]) for registry, endpoint in endpoints.items()]
    return capi.RegistryMirror(ca_cert=mirror.ca_cert_content, mirrors=mirrors)


def _on_host(cluster: ClusterConfiguration) -> ClusterConfiguration:
    """Replace host paths of volumes: static pods use kubeadm's paths, but the machine has another folder for them."""
    api_server = cluster.api_server
    if api_server is not None:
        volumes = [
            replace(volume, host_path=volume.host_path.replace(_MOUNTED, _HOST, 1))
            if volume.host_path.startswith(_MOUNTED)
            else volume
            for volume in api_server.extra_volumes
        ]
        api_server = replace(api_server, extra_volumes=volumes)
    return replace(
        cluster,
        api_server=api_server,
        certificates_dir=_CERTIFICATES,
        controller_manager=_with_kubeconfig(cluster.controller_manager, "controller-manager.conf"),
        etcd=_etcd(cluster.etcd),
        scheduler=_with_kubeconfig(cluster.scheduler, "scheduler.conf"),
    )


def _with_kubeconfig(component: Component | None, name: str) -> Component | None:
    if component is None:
        return None
    mount = HostPathMount(
        name="kubeconfig", host_path=f"{_HOST}{name}", mount_path=f"{_MOUNTED}{name}", path_type="File", read_only=True
    )
    return replace(component, extra_volumes=[*component.extra_volumes, mount])


def _etcd(etcd: Etcd | None) -> Etcd | None:
    if etcd is None or etcd.external is None:
        return etcd
    certificates = replace(
        etcd.external,
        ca_file=f"{_CERTIFICATES}/etcd/ca.crt",
        cert_file=f"{_CERTIFICATES}/server-etcd-client.crt",  # as in EKS Anywhere
        key_file=f"{_CERTIFICATES}/apiserver-etcd-client.key",
    )
    return replace(etcd, external=certificates)
