"""The manifests of the CNI that a cluster asks for, as data of its release."""

from __future__ import annotations

from espalier.api.eksa.network import CiliumConfig, KindnetdConfig
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.render.cni import cilium, kindnetd
from espalier.clusters.render_input import Design, cni_of
from espalier.clusters.rendered import Manifest


def manifests(design: Design) -> list[Manifest]:
    """In the order in which they are applied; none when no CNI is asked for."""
    config = cni_of(design.spec)
    bundle = design.of_control_plane.bundle
    network = design.spec.cluster_network
    pods = network.pods.cidr_blocks if network and network.pods else []
    if isinstance(config, KindnetdConfig):
        found = kindnetd.objects(bundle.kindnetd, pods)
    elif isinstance(config, CiliumConfig):
        found = cilium.objects(bundle.cilium, config, design.name)
    else:
        found = []
    return [Manifest(resource, _complete(resource, body)) for resource, body in found]


def _complete(resource: Resource, body: Tree) -> Tree:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}
