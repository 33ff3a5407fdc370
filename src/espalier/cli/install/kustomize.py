"""A kustomize base: the objects of `espalier manifests` in files, with a kustomization."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from espalier.api.meta import Tree
from espalier.cli.install import written
from espalier.cli.kit.printing import output

IMAGE = "espalier"
"""Name of the image in a base that was made without one: what `images` of a kustomization replaces."""

_FILES: Mapping[str, tuple[str, ...]] = {
    "namespace.yaml": ("Namespace",),
    "crds.yaml": ("CustomResourceDefinition",),
    "webhooks.yaml": ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    "manager.yaml": ("ConfigMap", "Service", "NetworkPolicy", "PodDisruptionBudget", "Deployment"),
}
"""Files by the kinds of their objects; all others are in `rights.yaml`."""
_RIGHTS = "rights.yaml"


def files(trees: Iterable[Tree]) -> dict[str, str]:
    """The files of a base, by their names."""
    by_kind = {kind: name for name, kinds in _FILES.items() for kind in kinds}
    sorted_trees: dict[str, list[Tree]] = {name: [] for name in ("namespace.yaml", "crds.yaml", _RIGHTS, *_FILES)}
    for tree in trees:
        sorted_trees[by_kind.get(tree["kind"], _RIGHTS)].append(tree)
    filled = {name: written.documents(objects) for name, objects in sorted_trees.items() if objects}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(filled),
    }
    return {"kustomization.yaml": output.to_yaml(kustomization), **filled}
