"""Folders with components of Cluster API's providers, as an operator has them, of simulated ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from espalier.api.meta import Tree
from espalier.cli.management.components import components
from espalier.clusterapi.installed import CORE, PROVIDER_LABEL
from espalier.management.providers.components import BOOTSTRAP, CONTROL_PLANE
from tests.support.environments.managed_environment import RELEASES

DOCKER = "infrastructure-docker"
RELEASE = RELEASES.newest().version
_LABELS = {
    "bootstrap.cluster.x-k8s.io": BOOTSTRAP,
    "controlplane.cluster.x-k8s.io": CONTROL_PLANE,
    "infrastructure.cluster.x-k8s.io": DOCKER,
}
_GROUP = "cluster.x-k8s.io"


def providers(change: Callable[[Tree], object] = lambda _tree: None) -> dict[str, list[Tree]]:
    """The objects of each provider, by its label: the simulated controllers are all in Cluster API's own manager."""
    parts: dict[str, list[Tree]] = {}
    for tree in copy.deepcopy(components.simulated_cluster_api(RELEASE, RELEASES)):
        group = str(tree["spec"]["group"]) if tree["kind"] == "CustomResourceDefinition" else ""
        if group and group != _GROUP and not group.endswith(f".{_GROUP}"):
            continue  # of bare metal
        label = _LABELS.get(group, CORE)
        contract = {f"{_GROUP}/v1beta2": "v1beta2"} if label == DOCKER else {}
        tree["metadata"]["labels"] = {**(tree["metadata"].get("labels") or {}), PROVIDER_LABEL: label, **contract}
        change(tree)
        parts.setdefault(label, []).append(tree)
    return parts


def version() -> str:
    """The version in the images of the simulated controllers."""
    core = RELEASES.newest().bundles.spec.versions_bundles[0].cluster_api
    assert core is not None
    return core.version.partition("-")[0]


def written(folder: Path, parts: Mapping[str, Sequence[Tree]] | None = None, of: str = "") -> Path:
    """A local repository of clusterctl; `of` a version, or that of the simulated controllers."""
    for label, trees in (providers() if parts is None else parts).items():
        place = folder / label / (of or version())
        place.mkdir(parents=True)
        (place / "components.yaml").write_text(yaml.safe_dump_all(trees))
        (place / "metadata.yaml").write_text("apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n")
    return folder
