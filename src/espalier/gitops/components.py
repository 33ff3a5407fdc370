"""Flux's own manifests (`flux install --export`): checked, and with images from where the cluster gets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from espalier.api.flux import GIT_REPOSITORY, KUSTOMIZATION
from espalier.api.manifests.image_sources import mirrored
from espalier.api.meta import Tree

CONTROLLERS = ("source-controller", "kustomize-controller")
"""Deployments without which nothing is applied. Others in the manifests are installed as well."""


class Unusable(ValueError):
    """Manifests by which Flux can't be installed; the message has a line for each reason."""


def components(trees: Sequence[Tree], namespace: str, images: Mapping[str, str]) -> list[Tree]:
    """Flux's manifests for a cluster.

    `images` are those of a registry mirror (`mirrored`).
    Raises `Unusable`.
    """
    problems = list(_problems(trees, namespace))
    if problems:
        raise Unusable("\n".join(problems))
    return mirrored(trees, images)


def _problems(trees: Sequence[Tree], namespace: str) -> Iterator[str]:
    if any(not isinstance(tree, dict) or not tree.get("kind") or not tree.get("metadata") for tree in trees):
        yield "Flux's manifests: allowed are objects with kind and metadata; give the output of flux install --export"
        return
    kinds = {tree["metadata"]["name"]: tree for tree in trees if tree["kind"] == "CustomResourceDefinition"}
    for resource in (GIT_REPOSITORY, KUSTOMIZATION):
        definition = kinds.get(resource.group_resource)
        served = [
            version["name"]
            for version in (definition or {}).get("spec", {}).get("versions", [])
            if version.get("served")
        ]
        if resource.version not in served:
            state = f"found {', '.join(served)}" if served else "it is missing"
            yield f"Flux's manifests: {resource.group_resource}: {state}; needed is {resource.version}, of Flux 2.3"
    deployments = {tree["metadata"]["name"]: tree for tree in trees if tree["kind"] == "Deployment"}
    for name in CONTROLLERS:
        deployment = deployments.get(name)
        if deployment is None:
            yield f"Flux's manifests: Deployment {name} is missing, without which nothing is applied"
        elif (there := deployment["metadata"].get("namespace")) != namespace:
            yield (
                f"Flux's manifests: Deployment {name} is in namespace {there}, the configuration names {namespace}; "
                f"write them with --namespace={namespace}"
            )
    for tree in trees:
        if tree["kind"] == "Secret":
            yield f"Flux's manifests: Secret {tree['metadata']['name']}; they come into Git, where no Secret may be"
