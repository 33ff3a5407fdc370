"""The files of a cluster in a repository, laid out as EKS Anywhere does, with a Kustomization for each cluster.

clusters/MANAGEMENT/CLUSTER/eksa-system/eksa-cluster.yaml   the Cluster and the objects that it names
clusters/MANAGEMENT/CLUSTER/eksa-system/kustomization.yaml
clusters/MANAGEMENT/flux-system/CLUSTER.yaml                Flux's Kustomization of that folder
clusters/MANAGEMENT/flux-system/gotk-sync.yaml              the repository, and the Kustomization of this folder
clusters/MANAGEMENT/flux-system/kustomization.yaml

One Kustomization for each cluster: a file that is refused stops only the Kustomization that it is in. None waits for
its cluster: meanwhile Flux would neither apply the commit that mends it nor set hand edits back (decision 0197).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from espalier.api import yaml_trees
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.gitops.content import desired, secrets_in

CLUSTER_FILE, KUSTOMIZATION_FILE, SYNC_FILE = "eksa-cluster.yaml", "kustomization.yaml", "gotk-sync.yaml"
FLUX_NAMESPACE = "flux-system"

_KUSTOMIZE = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
_FLUX = {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization"}
_INTERVAL = "5m0s"
"""How often Flux compares."""

Files = dict[str, bytes]
"""Contents by path in the repository."""


class Unfit(ValueError):
    """The objects can't be written into a repository; the message has a line for each reason."""


def base_of(management: str, configured: str = "") -> str:
    """The folder of a management cluster: `clusterConfigPath` of its FluxConfig, or the default."""
    return configured.strip("/") or f"clusters/{management}"


def cluster_files(base: str, trees: Sequence[Tree], existing: Mapping[str, bytes]) -> Files:
    """The files of a cluster, from the objects of its manifest. `existing` are those in the repository.

    Raises `Unfit` for a manifest without exactly one Cluster, and for secrets in it.
    """
    clusters = [tree for tree in trees if tree.get("kind") == Cluster.resource.kind]
    if len(clusters) != 1:
        raise Unfit(f"found {len(clusters)} Clusters in the manifest; allowed: 1, with the objects that it names")
    metadata = clusters[0]["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "default")
    folder, flux = f"{base}/{name}/eksa-system", f"{base}/{FLUX_NAMESPACE}"
    path = f"{folder}/{CLUSTER_FILE}"
    wanted = [_placed(desired(tree), namespace) for tree in trees]
    if violations := list(secrets_in(wanted, path)):
        raise Unfit("\n".join(violations))
    return {
        path: _text(*wanted),
        f"{folder}/{KUSTOMIZATION_FILE}": _text({**_KUSTOMIZE, "resources": [CLUSTER_FILE]}),
        f"{flux}/{name}.yaml": _text(_flux_kustomization(name, {"path": f"./{folder}", "prune": True})),
        f"{flux}/{KUSTOMIZATION_FILE}": _listed(existing.get(f"{flux}/{KUSTOMIZATION_FILE}"), [f"{name}.yaml"]),
    }


def without_cluster(base: str, name: str, existing: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """The change that removes a cluster's files (None), by which Flux deletes it."""
    flux = f"{base}/{FLUX_NAMESPACE}"
    change: dict[str, bytes | None] = {path: None for path in existing if path.startswith(f"{base}/{name}/")}
    if f"{flux}/{name}.yaml" in existing:
        change[f"{flux}/{name}.yaml"] = None
    listing = existing.get(f"{flux}/{KUSTOMIZATION_FILE}")
    if listing is not None:
        change[f"{flux}/{KUSTOMIZATION_FILE}"] = _listed(listing, [], removed=f"{name}.yaml")
    return change


def flux_files(base: str, url: str, branch: str, existing: Mapping[str, bytes], *, secret: str = "") -> Files:
    """The files by which Flux of a management cluster follows the repository.

    `secret` is the name of the Secret with Flux's credentials, in Flux's namespace; it is no part of the repository.
    """
    flux = f"{base}/{FLUX_NAMESPACE}"
    source: Tree = {"interval": "1m0s", "ref": {"branch": branch}, "url": url}
    if secret:
        source["secretRef"] = {"name": secret}
    repository = {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": FLUX_NAMESPACE, "namespace": FLUX_NAMESPACE},
        "spec": source,
    }
    own = _flux_kustomization(FLUX_NAMESPACE, {"path": f"./{flux}", "prune": True})
    return {
        f"{flux}/{SYNC_FILE}": _text(repository, own),
        f"{flux}/{KUSTOMIZATION_FILE}": _listed(existing.get(f"{flux}/{KUSTOMIZATION_FILE}"), [SYNC_FILE]),
    }


def _placed(tree: Tree, namespace: str) -> Tree:
    """The object with a namespace: Flux, unlike kubectl, has no default for it."""
    metadata = tree["metadata"]
    name, others = metadata.get("name", ""), {key: value for key, value in metadata.items() if key != "name"}
    return {**tree, "metadata": {"name": name, "namespace": namespace, **others}}


def _flux_kustomization(name: str, spec: Tree) -> Tree:
    source = {"kind": "GitRepository", "name": FLUX_NAMESPACE}
    return {
        **_FLUX,
        "metadata": {"name": name, "namespace": FLUX_NAMESPACE},
        "spec": {"force": False, "interval": _INTERVAL, "sourceRef": source, **spec},
    }


def _listed(before: bytes | None, added: Sequence[str], *, removed: str = "") -> bytes:
    """A kustomization.yaml with these files, and all that somebody wrote into it."""
    trees = yaml_trees.trees(before, KUSTOMIZATION_FILE) if before else []
    tree: Tree = trees[0] if trees and isinstance(trees[0], dict) else dict(_KUSTOMIZE)
    listed: list[Any] = [path for path in tree.get("resources") or [] if path != removed]
    resources = [*listed, *(path for path in added if path not in listed)]
    if before is not None and resources == tree.get("resources"):
        return before  # its comments stay
    return _text({**tree, "resources": resources})


def _text(*trees: Tree) -> bytes:
    """YAML in which every version is quoted: what looks like a number would come back as one."""
    text: str = yaml.dump_all(trees, Dumper=_Quoting, sort_keys=False, explicit_start=True, width=120)
    return text.encode()


class _Quoting(yaml.CSafeDumper):
    """Quotes text that any YAML or substitution may take for something else."""


def _represent(dumper: yaml.CSafeDumper, text: str) -> yaml.Node:
    is_ambiguous = text[:1].isdigit() or text.lower() in ("y", "n")  # beyond what the library quotes by itself
    style = "|" if "\n" in text else '"' if is_ambiguous else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Quoting.add_representer(str, _represent)
