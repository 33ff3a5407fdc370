"""Places of a repository that FluxConfigs name."""

from __future__ import annotations

from espalier.api.meta import Tree

HUB: Tree = {"owner": "garden", "repository": "fleet"}
GIT: Tree = {"repositoryUrl": "ssh://git@git.example.com/fleet.git"}


def flux(name: str, namespace: str, **spec: object) -> Tree:
    """A FluxConfig; `spec` replaces fields."""
    return {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "FluxConfig",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "3"},
        "spec": {"github": HUB, **spec},
    }
