"""The manifests of a cluster's CNI, rendered with the images of its release."""

from __future__ import annotations

from espalier.api.eksa.parts.network import CiliumConfig, KindnetdConfig
from espalier.api.eksa.releases.release import VersionsBundle
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.cni import cilium, kindnetd
from espalier.clusters.design.render_input import cni_of
from espalier.clusters.design.rendered import Manifest
from espalier.releases.contents import DIGEST


def manifests(render_input: RenderInput) -> list[Manifest]:
    """The objects in the order in which they are applied; empty when no CNI is configured."""
    config = cni_of(render_input.spec)
    bundle = render_input.of_control_plane.bundle
    network = render_input.spec.cluster_network
    pods = network.pods.cidr_blocks if network and network.pods else []
    if isinstance(config, KindnetdConfig):
        manifests = kindnetd.objects(bundle.kindnetd, pods)
    elif isinstance(config, CiliumConfig):
        manifests = cilium.objects(bundle.cilium, config, render_input.name)
    else:
        manifests = []
    return [Manifest(resource, _complete(resource, body)) for resource, body in manifests]


def digests(bundle: VersionsBundle) -> dict[str, str]:
    """Digests of the images of all CNIs by URI, where the Bundles have them."""
    of_cilium, of_kindnetd = bundle.cilium, bundle.kindnetd
    images = (
        *((of_cilium.cilium, of_cilium.operator) if of_cilium is not None else ()),
        *((of_kindnetd.image,) if of_kindnetd is not None else ()),
    )
    return {
        image.uri: image.image_digest for image in images if image is not None and DIGEST.fullmatch(image.image_digest)
    }


def _complete(resource: Resource, body: Tree) -> Tree:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}
