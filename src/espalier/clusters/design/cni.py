"""The CNI of a workload cluster: its objects, and a content hash of those that were installed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from espalier.api.core import DAEMON_SET
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.design.rendered import Manifest

__all__ = ["Manifest", "content_hash", "objects"]


def objects(render_input: RenderInput) -> list[Manifest]:
    """The objects to apply to the workload cluster, in order; empty when no CNI is configured. Shared, to read."""
    return list(rendered(render_input).cni)


def content_hash(manifests: Sequence[Manifest]) -> str:
    """The content hash of the objects: `kindnet-1a2b3c4d5e6f`."""
    if not manifests:
        return ""
    name = next((manifest.body["metadata"]["name"] for manifest in manifests if manifest.resource == DAEMON_SET), "cni")
    digest = hashlib.sha256(msgspec.json.encode(manifests, order="sorted")).hexdigest()
    return f"{name}-{digest[:12]}"
