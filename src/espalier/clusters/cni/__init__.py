"""The CNI of a workload cluster: its objects, as data of a release, and a mark that says which were installed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from espalier.api.core import DAEMON_SET
from espalier.api.eksa.network import CiliumConfig, KindnetdConfig
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.cni import cilium, kindnetd
from espalier.clusters.design import Design, cni_of

__all__ = ["Manifest", "mark", "objects"]


class Manifest(NamedTuple):
    """An object of the workload cluster."""

    resource: Resource
    body: Tree


def objects(design: Design) -> list[Manifest]:
    """What the workload cluster gets, in the order in which it is applied; nothing when no CNI is asked for."""
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


def mark(manifests: Sequence[Manifest]) -> str:
    """A short text that differs when the objects do: `kindnet-1a2b3c4d5e6f`."""
    if not manifests:
        return ""
    name = next((manifest.body["metadata"]["name"] for manifest in manifests if manifest.resource == DAEMON_SET), "cni")
    digest = hashlib.sha256(msgspec.json.encode(manifests, order="sorted")).hexdigest()
    return f"{name}-{digest[:12]}"


def _complete(resource: Resource, body: Tree) -> Tree:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}
