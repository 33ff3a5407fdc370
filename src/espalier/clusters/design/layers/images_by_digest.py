"""v0.26.0: images of the CNI are pulled by the digests in the Bundles.

Anybody with write access to a registry can move a tag to another image, which would then run on every node.
"""

from __future__ import annotations

from collections.abc import Mapping

import semver

from espalier.api.core import DAEMON_SET, DEPLOYMENT
from espalier.api.meta import Tree
from espalier.clusters.design.layers.layer import Layer
from espalier.clusters.design.layers.pieces import each_manifest
from espalier.clusters.design.rendered import Manifest, Rendered


def _pinned(containers: list[Tree], digests: Mapping[str, str]) -> list[Tree]:
    return [
        container | {"image": f"{container['image']}@{digests[container['image']]}"}
        if container["image"] in digests
        else container
        for container in containers
    ]


def _of_manifest(manifest: Manifest, digests: Mapping[str, str]) -> Manifest:
    if manifest.resource not in (DAEMON_SET, DEPLOYMENT):
        return manifest
    template = manifest.body["spec"]["template"]
    pods = {
        name: _pinned(value, digests) if name in ("containers", "initContainers") else value
        for name, value in template["spec"].items()
    }
    spec = manifest.body["spec"] | {"template": template | {"spec": pods}}
    return manifest._replace(body=manifest.body | {"spec": spec})


def by_digest(rendered: Rendered) -> Rendered:
    """Reference the CNI's images by tag and digest, where the digest is known."""
    return each_manifest(rendered, lambda manifest: _of_manifest(manifest, rendered.digests))


LAYER = Layer(
    name="images-by-digest",
    since=semver.Version(0, 26, 0),
    why="Images of the CNI are pulled by the digests of the Bundles; this replaces its pods.",
    functions=(by_digest,),
)
