"""The definition of Flux's Kustomizations, without their schema."""

from __future__ import annotations

from espalier.api.flux import KUSTOMIZATION
from espalier.api.meta import Tree

DEFINITION: Tree = {
    "metadata": {"name": KUSTOMIZATION.group_resource},
    "spec": {
        "group": KUSTOMIZATION.group,
        "names": {"kind": KUSTOMIZATION.kind, "plural": KUSTOMIZATION.plural},
        "scope": "Namespaced",
        "versions": [
            {
                "name": KUSTOMIZATION.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}
