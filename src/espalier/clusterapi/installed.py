"""The Cluster API of a management cluster, from its Deployments and definitions: what fails, and what ends. Pure.

The version is that of the image of Cluster API's own manager, which clusterctl and EKS Anywhere label alike. Simulated
ones have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineHealthCheck, MachineSet
from espalier.api.meta import Tree
from espalier.api.text.listing import first
from espalier.api.version_matrix import (
    CLUSTER_API,
    DOCKER_KINDS,
    OLD_API,
    OLD_CONTRACT,
    Ending,
    minor_of,
    numbers,
)

PROVIDER_LABEL = "cluster.x-k8s.io/provider"
NAMESPACE = "capi-system"
"""The namespace in which clusterctl and EKS Anywhere install Cluster API.

Deployments of other namespaces say nothing, whatever their labels are.
"""
DEPLOYMENT_NAME = "capi-controller-manager"
"""The name of its Deployment there: rights to read it are limited to it."""
CORE = "cluster-api"
"""The value of `PROVIDER_LABEL` on the Deployment of Cluster API's own manager."""
NEEDED = (
    capi.Cluster.resource,
    Machine.resource,
    MachineDeployment.resource,
    MachineSet.resource,
    MachineHealthCheck.resource,
    KubeadmConfigTemplate.resource,
    KubeadmControlPlane.resource,
)
"""Kinds that every cluster consists of, in the version in which they are read and written."""
OLD, NEW = "v1beta1", "v1beta2"
MANAGER = "manager"
"""The container of a provider's own program. Others beside it have versions of their own."""
_MOST_NAMES = 3


def version_of(deployments: Iterable[Tree]) -> str:
    """The version of Cluster API's own manager among Deployments: `1.14.2`; empty if none tells it."""
    for image in _images(deployments):
        tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
        if minor_of(tag):
            return ".".join(map(str, numbers(tag)))
    return ""


def _images(deployments: Iterable[Tree]) -> Iterator[str]:
    for deployment in deployments:
        labels = deployment["metadata"].get("labels") or {}
        if labels.get(PROVIDER_LABEL) == CORE and (image := manager_image(deployment)):
            yield image


def manager_image(deployment: Tree) -> str:
    """The image of the manager of a Deployment, of its first container if none has that name; empty if it has none."""
    template = (deployment.get("spec") or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or ()
    images = {container.get("name"): str(container.get("image", "")) for container in containers}
    return images.get(MANAGER) or next(iter(images.values()), "")


def problems(version: str, definitions: Sequence[Tree], *, is_upgraded: bool = False) -> Iterator[str]:
    """The reasons why clusters can't be managed with what is installed, a sentence each.

    An older version is none where it `is_upgraded`.
    """
    is_older = numbers(version) < min(map(numbers, CLUSTER_API))
    if version and minor_of(version) not in CLUSTER_API and not (is_older and is_upgraded):
        tested = ", ".join(CLUSTER_API)
        newest = max(CLUSTER_API.values(), key=lambda minor: numbers(minor.patch)).patch
        advice = f"upgrade it to {newest}" if is_older else f"install {newest}, or a release of Espalier that has it"
        yield f"Cluster API: found {version}, allowed are versions {tested}; {advice}"
    defined = {definition["metadata"]["name"]: definition for definition in definitions}
    for name, definition in sorted(defined.items()):
        if _is_of_cluster_api(definition):
            yield from _gone(name, definition)
    for resource in NEEDED:
        name = f"{resource.plural}.{resource.group}"
        served = _versions(defined[name], served=True) if name in defined else []
        if served and resource.version not in served and not is_upgraded:
            yield (
                f"CustomResourceDefinition {name}: found {', '.join(served)} served, allowed is {resource.version}; "
                "upgrade Cluster API to a version that serves it"
            )


def _gone(name: str, definition: Tree) -> Iterator[str]:
    known = _versions(definition)
    stored = (definition.get("status") or {}).get("storedVersions") or []
    gone = [version for version in stored if version not in known]
    storage = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
    if gone:
        yield (
            f"CustomResourceDefinition {name}: found objects stored as {', '.join(gone)}, which it has no more (it has "
            f"{', '.join(known)}); install the version of its provider that has it, and migrate the objects with "
            "that one first"
        )
    elif not storage:
        yield (
            f"CustomResourceDefinition {name}: found no version that is stored among {', '.join(known) or 'none'}; "
            "install the definitions of its provider again"
        )


def unread(deployments: Iterable[Tree]) -> Iterator[str]:
    """A warning about a Cluster API whose version its image does not tell."""
    images = list(_images(deployments))
    if images and not version_of(deployments):
        tested = ", ".join(CLUSTER_API)
        yield (
            f"Cluster API: found image {images[0]}, which does not tell the version; allowed are versions {tested}: "
            "check that it is one of them"
        )


def unsupported(version: str, kubernetes_versions: Iterable[str]) -> Iterator[str]:
    """Warnings about versions of Kubernetes that Cluster API of a version does not support for workload clusters."""
    known = CLUSTER_API.get(minor_of(version))
    if known is None:
        return
    oldest, newest = known.workload
    for kubernetes in sorted(set(kubernetes_versions), key=numbers):
        first_patch = known.first_patches.get(kubernetes, "")
        if first_patch and numbers(version) < numbers(first_patch):
            advice = f"upgrade Cluster API to {first_patch} or a later one first"
        elif first_patch or not numbers(kubernetes) or numbers(oldest) <= numbers(kubernetes) <= numbers(newest):
            continue
        else:
            advice = "choose one of these, or another version of Cluster API"
        patches = (minor for minor, patch in known.first_patches.items() if numbers(patch) <= numbers(version))
        last = max((newest, *patches), key=numbers)
        yield f"Kubernetes: found {kubernetes}, Cluster API {version} supports {oldest} to {last}; {advice}"


def warnings(version: str, definitions: Sequence[Tree], infrastructure_kinds: Iterable[str]) -> Iterator[str]:
    """Warnings about what later versions of Cluster API do not have: API versions, contracts, and kinds of machines.

    `infrastructure_kinds` are those of the clusters that are asked about. Nothing is said of an unknown version.
    """
    if not version:
        return
    of_cluster_api = [definition for definition in definitions if _is_of_cluster_api(definition)]
    old = [
        definition["metadata"]["name"]
        for definition in of_cluster_api
        if OLD in ((definition.get("status") or {}).get("storedVersions") or ()) and NEW in _versions(definition)
    ]
    kinds = {definition["spec"]["names"]["kind"]: definition for definition in of_cluster_api}
    used = [kind for kind in infrastructure_kinds if kind in kinds]
    docker = [kind for kind in used if kind.startswith("Docker")]
    contracts = [kinds[kind]["metadata"]["name"] for kind in used if _is_of_old_contract(kinds[kind])]
    for ending, names in ((DOCKER_KINDS, docker), (OLD_API, old), (OLD_CONTRACT, contracts)):
        if names:
            yield _sentence(ending, names)


def _sentence(ending: Ending, names: Sequence[str]) -> str:
    shown = first(sorted(names), _MOST_NAMES)
    announced = f", announced for {ending.date}" if ending.date else ""
    gone = f"Cluster API {ending.release}{announced} does not have it"
    return f"{ending.subject}: found {shown}; {gone}: use {ending.instead}"


def _is_of_old_contract(definition: Tree) -> bool:
    labels = definition["metadata"].get("labels") or {}
    return f"cluster.x-k8s.io/{OLD}" in labels and f"cluster.x-k8s.io/{NEW}" not in labels


def _is_of_cluster_api(definition: Tree) -> bool:
    group = str(definition["spec"]["group"])
    return group == capi.GROUP or group.endswith(f".{capi.GROUP}")


def _versions(definition: Tree, *, served: bool = False) -> list[str]:
    versions = definition["spec"].get("versions") or ()
    return [version["name"] for version in versions if not served or version.get("served")]
