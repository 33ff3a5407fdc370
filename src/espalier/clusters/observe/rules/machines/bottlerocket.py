"""Rules about machines with Bottlerocket, for any provider that supports them: settings that Bottlerocket lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.host_os import HostOSConfiguration
from espalier.api.text.violations import Violation, shown
from espalier.clusters.design.provider import Provider, RenderInput, bottlerocket_groups
from espalier.clusters.design.render.nodes.bottlerocket import bootstrap_image, unknown_to_kubelets, uri
from espalier.clusters.observe.rules.connections import is_certificates
from espalier.kube.objects import Object

_PLANE, _GROUPS = "spec.controlPlaneConfiguration", "spec.workerNodeGroupConfigurations"
_IN_PLACE = "InPlace"


def violations(provider: Provider | None, spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Violation]:
    """Requests that such machines can't fulfil."""
    groups = bottlerocket_groups(provider, spec, children)
    if not groups:
        return
    mirror, network = spec.registry_mirror_configuration, spec.cluster_network
    if mirror is not None and mirror.insecure_skip_verify:
        field = "spec.registryMirrorConfiguration.insecureSkipVerify"
        message = "machines with Bottlerocket always verify the mirror; give the certificate of its CA"
        yield Violation(field, "true", "false, with caCertContent", message)
    if network is not None and network.dns and network.dns.resolv_conf and network.dns.resolv_conf.path:
        field, path = "spec.clusterNetwork.dns.resolvConf.path", network.dns.resolv_conf.path
        message = "Bottlerocket has no such setting of the kubelet; remove the field"
        yield Violation(field, path, "nothing", message)
    yield from _certificates(children)
    for field, _, kubelet in _machines(spec):
        if field in groups and (unknown := unknown_to_kubelets(kubelet)):
            message = "Bottlerocket has no such settings of the kubelet; remove them"
            yield Violation(f"{field}.kubeletConfiguration", ", ".join(unknown), "", message)


def in_place(provider: Provider | None, spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Violation]:
    """Groups of such machines with in-place upgrades."""
    groups = bottlerocket_groups(provider, spec, children)
    for field, strategy, _ in _machines(spec):
        if field in groups and strategy == _IN_PLACE:
            message = "Bottlerocket is not upgraded in place, because its image is immutable"
            yield Violation(f"{field}.upgradeRolloutStrategy.type", _IN_PLACE, "RollingUpdate", message)


def _certificates(children: Sequence[Object]) -> Iterator[Violation]:
    """Certificate bundles with other content: machines do not boot with them."""
    for child in children:
        asked = msgspec.convert((child.tree.get("spec") or {}).get("hostOSConfiguration"), HostOSConfiguration | None)
        for index, bundle in enumerate(asked.cert_bundles if asked is not None else []):
            if not is_certificates(bundle.data):
                field = f"{child.kind} {child.name}: spec.hostOSConfiguration.certBundles[{index}].data"
                yield Violation(field, shown("…"), "certificates as PEM", "machines trust these CAs")


def _machines(spec: eksa.ClusterSpec) -> Iterator[tuple[str, str, dict[str, object] | None]]:
    """For each field: the upgrade strategy of its machines, and the configuration of their kubelets."""
    if (plane := spec.control_plane_configuration) is not None:
        own = plane.upgrade_rollout_strategy
        yield _PLANE, (own.type if own else "") or "", plane.kubelet_configuration
    for index, group in enumerate(spec.worker_node_group_configurations):
        of_group = group.upgrade_rollout_strategy
        yield f"{_GROUPS}[{index}]", (of_group.type if of_group else "") or "", group.kubelet_configuration


def lacks(render_input: RenderInput) -> list[str]:
    """The images that such machines of a cluster need and the release lacks."""
    made = render_input.provider.bottlerocket
    if made is None or not made.groups(render_input.spec, render_input.children):
        return []
    own = (
        "bottlerocketHostContainers.kubeadmBootstrap"
        for components in render_input.components.values()
        if not uri(bootstrap_image(components.bundle))
    )
    return list(dict.fromkeys((*own, *made.lacks(render_input))))
