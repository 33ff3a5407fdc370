"""Images of Deployments from where a cluster gets them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from espalier.api.meta import Tree


def mirrored(trees: Sequence[Tree], images: Mapping[str, str]) -> list[Tree]:
    """Manifests with other images in their Deployments.

    `images` are prefixes of images and what a registry mirror has in their place. The longest prefix counts.
    """
    prefixes = sorted(images, key=len, reverse=True)
    return [_replaced(tree, prefixes, images) if tree["kind"] == "Deployment" else tree for tree in trees]


def _replaced(deployment: Tree, prefixes: Sequence[str], images: Mapping[str, str]) -> Tree:
    spec = deployment["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]

    def replaced(container: Tree) -> Tree:
        image = str(container["image"])
        source = next((prefix for prefix in prefixes if image.startswith(prefix)), None)
        return container if source is None else {**container, "image": images[source] + image.removeprefix(source)}

    parts = {name: [replaced(entry) for entry in pod[name]] for name in ("initContainers", "containers") if name in pod}
    return {**deployment, "spec": {**spec, "template": {**spec["template"], "spec": {**pod, **parts}}}}
