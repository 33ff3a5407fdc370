"""Makes the input of rendering: from a Cluster and its release, with the defaults of its layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.network import CiliumConfig, CNIConfig, KindnetdConfig
from espalier.api.eksa.parts.workers import AutoScalingConfiguration, WorkerNodeGroupConfiguration
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.clusters.design.layers.layer import Layer
from espalier.clusters.design.provider import Components, Provider, RenderInput
from espalier.kube.objects import Object
from espalier.releases import check_images, resolve, usable


def kubernetes_versions(spec: eksa.ClusterSpec) -> list[str]:
    """All Kubernetes minor versions of a cluster, the control plane's first."""
    groups = (group.kubernetes_version or "" for group in spec.worker_node_group_configurations)
    return list(dict.fromkeys(version for version in (spec.kubernetes_version, *groups) if version))


def make_render_input(
    key: Key,
    spec: eksa.ClusterSpec,
    bundles: Bundles,
    distros: Callable[[str], DistroRelease | None],
    provider: Provider,
    *,
    watch_filter: str = "",
    layers: tuple[Layer, ...] = (),
    front_end: FrontEnd = FrontEnd.ANNOTATIONS,
    children: tuple[Object, ...] = (),
    data: Mapping[str, Mapping[str, bytes]] | None = None,
    resolved: Mapping[str, str] | None = None,
) -> RenderInput:
    """The render input of a cluster with these layers. `distros` returns an EKS Distro Release by name.

    A worker node group in several failure domains becomes one group for each of these. Raises `LookupError` when
    Bundles lack one of its versions, have invalid images for it, or reference an unusable release for it.
    """
    for layer in reversed(layers):  # values set by newer layers count as given for older ones
        for default in reversed(layer.defaults):
            spec = default(spec)
    groups, domains = spread(spec, provider.links.domains(spec, children))
    if domains:
        spec = msgspec.structs.replace(spec, worker_node_group_configurations=groups)
    components = {}
    for version in kubernetes_versions(spec):
        bundle = resolve(bundles, version)
        check_images(bundles, bundle, *_images(spec, provider, children))
        components[version] = Components(bundle, usable(bundles, bundle, distros(bundle.eks_d.name)))
    return RenderInput(
        key, spec, components, provider, watch_filter, layers, front_end, children, data or {}, resolved or {}, domains
    )


_BOTTLEROCKET = (
    "bottlerocketHostContainers.kubeadmBootstrap",
    "bottlerocketHostContainers.admin",
    "bottlerocketHostContainers.control",
    "bottlerocketBootstrapContainers.multiNetworkBootstrap",
)


def _images(spec: eksa.ClusterSpec, provider: Provider, children: Sequence[Object]) -> tuple[list[str], list[str]]:
    """The fields of Bundles with images that a cluster is rendered with; and those that none of its rules asks for."""
    made, cni = provider.bottlerocket, cni_of(spec)
    of_os = (*_BOTTLEROCKET, *made.images) if made is not None and made.groups(spec, children) else ()
    of_cni = {CiliumConfig: ["cilium.cilium", "cilium.operator"], KindnetdConfig: ["kindnetd.image"]}
    return [*provider.images, *provider.optional_images, *of_os], of_cni[type(cni)] if cni is not None else []


def spread(
    spec: eksa.ClusterSpec, domains: Mapping[str, Sequence[str]]
) -> tuple[list[WorkerNodeGroupConfiguration], dict[str, str]]:
    """The worker node groups, each replaced by one group for every failure domain; and the domain of each.

    Machines are spread evenly; the first domain gets the remainder, as in EKS Anywhere.
    """
    groups: list[WorkerNodeGroupConfiguration] = []
    versions: dict[str, str] = {}
    for group in spec.worker_node_group_configurations:
        own = domains.get(group_name(group), ())
        if not own:
            groups.append(group)
            continue
        each, rest = divmod(group_count(group), len(own))
        for index, domain in enumerate(own):
            name = f"{group_name(group)}-{domain}"
            count = each + (rest if index == 0 else 0)
            limits = _share(group.autoscaling_configuration, len(own), index)
            groups.append(msgspec.structs.replace(group, name=name, count=count, autoscaling_configuration=limits))
            versions[name] = domain
    return groups, versions


def _share(limits: AutoScalingConfiguration | None, domains: int, index: int) -> AutoScalingConfiguration | None:
    """The share of an autoscaler's limits for one of several failure domains."""
    if limits is None:
        return None
    fewest, most = (divmod(number, domains) for number in (limits.min_count, limits.max_count))
    return AutoScalingConfiguration(
        min_count=sum(fewest) if index == 0 else fewest[0], max_count=sum(most) if index == 0 else most[0]
    )


def group_name(group: WorkerNodeGroupConfiguration) -> str:
    """The name of a worker node group."""
    return group.name or names.DEFAULT_GROUP


def group_count(group: WorkerNodeGroupConfiguration) -> int:
    """The number of machines of a worker node group; the minimum, with an autoscaler."""
    if group.autoscaling_configuration is not None:
        return group.autoscaling_configuration.min_count
    return names.DEFAULT_WORKERS if group.count is None else group.count


def cni_of(spec: eksa.ClusterSpec) -> CiliumConfig | KindnetdConfig | None:
    """The configured CNI, including the deprecated form (`cni: cilium`)."""
    network = spec.cluster_network
    if network is None:
        return None
    config = network.cni_config or CNIConfig()
    if config.cilium is not None or config.kindnetd is not None:
        return config.cilium or config.kindnetd
    if network.cni in ("cilium", "cilium-enterprise"):
        return CiliumConfig()
    return KindnetdConfig() if network.cni == "kindnetd" else None
