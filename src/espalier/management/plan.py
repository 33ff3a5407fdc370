"""The steps of operations on management clusters: which, in which order, and what each writes where. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from espalier.api.meta import Tree
from espalier.api.resource import Key


class Planned(NamedTuple):
    """One step."""

    name: str
    """Stored in the record of the operation."""
    title: str
    writes: Sequence[str] = ()
    """The objects that it writes, and where."""


def creation(key: Key, cluster_api: Sequence[Tree], espalier: Sequence[Tree], *, has_git_ops: bool) -> list[Planned]:
    """The steps in the bootstrap that make a management cluster. The bootstrap is removed after them."""
    here, there = "bootstrap", f"cluster {key.name}"
    steps = [
        Planned("create", f"create cluster {key} by the bootstrap", [f"{here}: the objects of the manifest"]),
        Planned("cluster-api", f"install Cluster API in cluster {key.name}", _objects(there, cluster_api)),
        Planned("espalier", f"install Espalier in cluster {key.name}", _objects(there, espalier)),
        Planned(
            "move",
            f"move cluster {key} into itself",
            [f"{there}: the objects of the cluster", f"{here}: their deletion"],
        ),
        Planned("mark", "mark the management cluster", [f"{there}: ConfigMap eksa-system/management-cluster"]),
        Planned("kubeconfig", "write the kubeconfig", ["this machine: the kubeconfig, readable by its owner only"]),
        Planned("gitops", "set up GitOps", [f"{there}: Flux", "Git repository: the files of the cluster"]),
    ]
    return [step for step in steps if has_git_ops or step.name != "gitops"]


def components(key: Key, cluster_api: Sequence[Tree], espalier: Sequence[Tree]) -> list[Planned]:
    """The steps that upgrade what runs in a management cluster: what it needs first."""
    return [
        *_components(key, cluster_api, espalier),
        Planned("release", "set the release", [f"cluster {key.name}: spec.eksaVersion of Cluster {key}"]),
    ]


def upgrade(key: Key, cluster_api: Sequence[Tree], espalier: Sequence[Tree]) -> list[Planned]:
    """The steps that upgrade a management cluster: its components, its control plane, its workers."""
    there = f"cluster {key.name}"
    return [
        *_components(key, cluster_api, espalier),
        Planned(
            "change",
            f"upgrade cluster {key}, its control plane first",
            [f"{there}: the objects of the manifest", f"{there}: ConfigMap eksa-system/management-cluster"],
        ),
        Planned("mark", "mark the management cluster", [f"{there}: ConfigMap eksa-system/management-cluster"]),
    ]


def _components(key: Key, cluster_api: Sequence[Tree], espalier: Sequence[Tree]) -> list[Planned]:
    there = f"cluster {key.name}"
    return [
        Planned("cluster-api", f"upgrade Cluster API in cluster {key.name}", _objects(there, cluster_api)),
        Planned("espalier", f"upgrade Espalier in cluster {key.name}", _objects(there, espalier)),
    ]


def removal(key: Key) -> list[Planned]:
    """The steps in the bootstrap that delete a management cluster."""
    return [
        Planned("return", f"move cluster {key} to the bootstrap", ["bootstrap: the objects of the cluster"]),
        Planned("delete", f"delete cluster {key}", ["bootstrap: the deletion of the cluster, with its machines"]),
    ]


def remaining(steps: Sequence[Planned], done: str) -> Sequence[Planned]:
    """The steps after the last one that is done. An unknown one, of another release, counts as none."""
    names = [step.name for step in steps]
    return steps[names.index(done) + 1 :] if done in names else steps


def _objects(where: str, trees: Sequence[Tree]) -> list[str]:
    """The objects of manifests, those of a kind together."""
    by_kind: dict[str, list[str]] = {}
    for tree in trees:
        by_kind.setdefault(tree["kind"], []).append(tree["metadata"]["name"])
    return [
        f"{where}: {kind} {', '.join(names) if len(names) <= 2 else f'({len(names)} objects)'}"
        for kind, names in by_kind.items()
    ]
