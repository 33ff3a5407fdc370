"""The files of a cluster in a repository, laid out as EKS Anywhere does, with a Kustomization for each cluster.

clusters/MANAGEMENT/CLUSTER/eksa-system/eksa-cluster.yaml   the Cluster and the objects that it names
clusters/MANAGEMENT/CLUSTER/eksa-system/kustomization.yaml
clusters/MANAGEMENT/flux-system/CLUSTER.yaml                Flux's Kustomization of that folder
clusters/MANAGEMENT/flux-system/gotk-components.yaml        Flux itself, where Espalier installed it
clusters/MANAGEMENT/flux-system/gotk-sync.yaml              the repository, and the Kustomization of this folder
clusters/MANAGEMENT/flux-system/kustomization.yaml

One Kustomization for each cluster: a file that is refused stops only the Kustomization that it is in. None waits for
its cluster: meanwhile Flux would neither apply the commit that mends it nor set hand edits back (decision 0197).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from espalier.api import flux
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.violations import ManifestError
from espalier.api.trees import yaml_text, yaml_trees
from espalier.gitops.content import desired, secrets_in

CLUSTER_FILE, KUSTOMIZATION_FILE = "eksa-cluster.yaml", "kustomization.yaml"
SYNC_FILE, COMPONENTS_FILE = "gotk-sync.yaml", "gotk-components.yaml"
FLUX_NAMESPACE = flux.NAMESPACE
"""Namespace of Flux, and folder of its files, unless the FluxConfig names another."""
LFS = b"version https://git-lfs.github.com/spec/"
"""The start of a file that Git LFS keeps elsewhere."""

_KUSTOMIZE = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
_FLUX = {"apiVersion": flux.KUSTOMIZATION.api_version, "kind": flux.KUSTOMIZATION.kind}
_INTERVAL = "5m0s"
"""How often Flux compares."""

Files = dict[str, bytes]
"""Contents by path in the repository."""


class Unfit(ValueError):
    """The objects can't be written into a repository; the message has a line for each reason."""


def base_of(management: str, configured: str = "") -> str:
    """The folder of a management cluster: `clusterConfigPath` of its FluxConfig, or the default."""
    return configured.strip("/") or f"clusters/{management}"


def cluster_files(
    base: str,
    trees: Sequence[Tree],
    existing: Mapping[str, bytes],
    *,
    namespace: str = FLUX_NAMESPACE,
    manages: bool = False,
) -> Files:
    """The files of a cluster, from the objects of its manifest. `existing` are those in the repository.

    `namespace` is that of Flux. Flux never deletes a cluster that `manages` others, and so Flux itself.
    Raises `Unfit` for a manifest without exactly one Cluster, for a name that Flux has, and for secrets.
    """
    clusters = [tree for tree in trees if tree.get("kind") == Cluster.resource.kind]
    if len(clusters) != 1:
        raise Unfit(f"found {len(clusters)} Clusters in the manifest; allowed: 1, with the objects that it names")
    metadata = clusters[0]["metadata"]
    name, default = metadata["name"], metadata.get("namespace", "default")
    if name == namespace:
        raise Unfit(f"metadata.name: {name}; {base}/{name} is the folder of Flux: give the cluster another name")
    folder, of_flux = f"{base}/{name}/eksa-system", f"{base}/{namespace}"
    if f"{name}.yaml" in (SYNC_FILE, COMPONENTS_FILE, KUSTOMIZATION_FILE):
        raise Unfit(f"metadata.name: {name}; {of_flux}/{name}.yaml is a file of Flux: give the cluster another name")
    path = f"{folder}/{CLUSTER_FILE}"
    wanted = [_placed(desired(tree), default) for tree in trees]
    if violations := list(secrets_in(wanted, path)):
        raise Unfit("\n".join(violations))
    kustomization = _kustomization(name, namespace, namespace, {"path": f"./{folder}", "prune": not manages})
    return {
        path: _text(*wanted),
        f"{folder}/{KUSTOMIZATION_FILE}": _text({**_KUSTOMIZE, "resources": [CLUSTER_FILE]}),
        f"{of_flux}/{name}.yaml": _text(kustomization),
        **_listing(of_flux, existing, [f"{name}.yaml"]),
    }


def other_content(files: Files, existing: Mapping[str, bytes], listing: str) -> str:
    """The first of a cluster's new files that the repository has with other content; empty if there is none.

    `listing` is the kustomization.yaml of Flux, which keeps what is in it.
    """
    return next((path for path, text in files.items() if path != listing and existing.get(path, text) != text), "")


def changed_file(path: str, trees: Sequence[Tree], existing: Mapping[str, bytes]) -> Files:
    """The file of a cluster that the repository has, with these objects in place of those of the same kind and name;
    others in it stay. Nothing if it has them as they are.

    Raises `Unfit` for a file that is missing or can't be read, and for secrets in the objects.
    """
    content = existing.get(path)
    if content is None:
        raise Unfit(f"{path}: the repository has no such file; change the files of the cluster there by hand")
    before = objects(path, content)
    default = next(
        tree["metadata"].get("namespace", "default") for tree in trees if tree.get("kind") == Cluster.resource.kind
    )
    wanted = {_identity(tree): tree for tree in (_placed(desired(tree), default) for tree in trees)}
    if violations := list(secrets_in(list(wanted.values()), path)):
        raise Unfit("\n".join(violations))
    after = [wanted.pop(_identity(tree), tree) for tree in before]
    after += wanted.values()
    return {} if after == before else {path: _text(*after)}


def removed_files(folder: str, kustomization: Key, existing: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """The files of a workload cluster that leave the repository, by which Flux deletes it: those in its folder, and
    Flux's Kustomization of that. Nothing if they have left it before.

    Raises `Unfit` for a repository that is laid out otherwise, and for a list of files that can't be read.
    """
    base, _, rest = folder.rpartition(f"/{kustomization.name}/")
    of_flux = f"{base}/{kustomization.namespace}"
    own, path = f"{of_flux}/{kustomization.name}.yaml", f"{of_flux}/{KUSTOMIZATION_FILE}"
    gone: dict[str, bytes | None] = dict.fromkeys(sorted(file for file in existing if file.startswith(f"{folder}/")))
    if not base or rest != "eksa-system" or (gone and not _is_kustomization(own, existing.get(own), kustomization)):
        raise Unfit(
            f"{folder}: found no {own or 'file'} with Flux's Kustomization {kustomization} of this folder: the "
            "repository is laid out otherwise; remove the cluster's files there by hand"
        )
    if own in existing:
        gone[own] = None
    return gone | _unlisted(path, existing.get(path), f"{kustomization.name}.yaml")


def removed_management_files(folder: str, kustomization: Key, existing: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """The same of a management cluster: also Flux's own files, and the list of these once nothing else is in it.

    Raises `Unfit` as `removed_files`.
    """
    gone = removed_files(folder, kustomization, existing)
    of_flux = f"{folder.rpartition(f'/{kustomization.name}/')[0]}/{kustomization.namespace}"
    path = f"{of_flux}/{KUSTOMIZATION_FILE}"
    for name in (COMPONENTS_FILE, SYNC_FILE):
        if f"{of_flux}/{name}" in existing:
            gone[f"{of_flux}/{name}"] = None
        gone |= _unlisted(path, gone.get(path, existing.get(path)), name)
    listed = gone.get(path)
    if listed is not None and [tree.get("resources") for tree in objects(path, listed)] in ([[]], [None]):
        gone[path] = None
    return gone


def _is_kustomization(path: str, content: bytes | None, key: Key) -> bool:
    """True if a file has this Kustomization of Flux alone. Raises `Unfit` if it can't be read."""
    trees = objects(path, content) if content is not None else []
    return [(tree.get("kind"), tree.get("metadata", {}).get("name")) for tree in trees] == [
        (flux.KUSTOMIZATION.kind, key.name)
    ]


def _unlisted(path: str, content: bytes | None, name: str) -> Files:
    """A kustomization.yaml without a file; what else somebody wrote into it stays, comments too if there are any."""
    trees = objects(path, content) if content is not None else []
    entries = trees[0].get("resources") if trees else None
    if content is None or not isinstance(entries, list) or not {name, f"./{name}"} & {str(each) for each in entries}:
        return {}
    wanted = [*({**trees[0], "resources": [each for each in entries if each not in (name, f"./{name}")]},), *trees[1:]]
    lines = [line for line in content.splitlines(keepends=True) if line.split() not in ([b"-", name.encode()],)]
    shorter = b"".join(lines)
    return {path: shorter if objects(path, shorter) == wanted else _text(*wanted)}


def objects(path: str, content: bytes) -> list[Tree]:
    """The objects of a file. Raises `Unfit` if it can't be read."""
    if content.startswith(LFS):
        raise Unfit(f"{path}: it is a pointer of Git LFS, which Flux does not follow; take it out of LFS")
    try:
        trees = [tree for tree in yaml_trees.trees(content, path) if tree is not None]
    except ManifestError as error:
        raise Unfit(f"{error}; mend the file in the repository") from None
    if not all(isinstance(tree, dict) and isinstance(tree.get("metadata", {}), dict) for tree in trees):
        raise Unfit(f"{path}: allowed are objects with kind and metadata; mend the file in the repository")
    return trees


def flux_files(
    base: str,
    url: str,
    branch: str,
    existing: Mapping[str, bytes],
    *,
    secret: str = "",
    namespace: str = FLUX_NAMESPACE,
    components: Sequence[Tree] = (),
) -> Files:
    """The files by which Flux of a management cluster follows the repository, and itself, if `components` are given.

    `secret` is the name of the Secret with Flux's credentials, in Flux's namespace; it is no part of the repository.
    """
    folder = f"{base}/{namespace}"
    source: Tree = {"interval": "1m0s", "ref": {"branch": branch}, "url": url}
    if secret:
        source["secretRef"] = {"name": secret}
    repository = {
        "apiVersion": flux.GIT_REPOSITORY.api_version,
        "kind": flux.GIT_REPOSITORY.kind,
        "metadata": {"name": namespace, "namespace": namespace},
        "spec": source,
    }
    # What leaves its folder is deleted; who deletes the Kustomization itself would delete all clusters, and Flux.
    spec: Tree = {"deletionPolicy": "Orphan", "path": f"./{folder}", "prune": True}
    own = _kustomization(namespace, namespace, namespace, spec)
    parts = {COMPONENTS_FILE: components} if components else {}
    files = {f"{folder}/{name}": _text(*trees) for name, trees in (*parts.items(), (SYNC_FILE, (repository, own)))}
    return files | _listing(folder, existing, [*parts, SYNC_FILE])


def _identity(tree: Tree) -> tuple[str, str, str]:
    metadata = tree.get("metadata", {})
    return str(tree.get("kind")), str(metadata.get("namespace", "default")), str(metadata.get("name"))


def _placed(tree: Tree, namespace: str) -> Tree:
    """The object with a namespace: Flux, unlike kubectl, has no default for it."""
    metadata = tree["metadata"]
    name, others = metadata.get("name", ""), {key: value for key, value in metadata.items() if key != "name"}
    return {**tree, "metadata": {"name": name, "namespace": namespace, **others}}


def _kustomization(name: str, namespace: str, source: str, spec: Tree) -> Tree:
    return {
        **_FLUX,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "force": False,
            "interval": _INTERVAL,
            "sourceRef": {"kind": flux.GIT_REPOSITORY.kind, "name": source},
            **spec,
        },
    }


def _listing(folder: str, existing: Mapping[str, bytes], added: Sequence[str]) -> Files:
    """A kustomization.yaml with these files, and all that somebody wrote into it."""
    path = f"{folder}/{KUSTOMIZATION_FILE}"
    before = existing.get(path)
    if before is not None and before.startswith(LFS):
        raise Unfit(f"{path}: it is a pointer of Git LFS, which Flux does not follow; take it out of LFS")
    try:
        trees = yaml_trees.trees(before, path) if before else []
    except ManifestError as error:
        raise Unfit(f"{error}; mend the file in the repository") from None
    tree: Tree = trees[0] if trees and isinstance(trees[0], dict) else dict(_KUSTOMIZE)
    resources = tree.get("resources") or []
    if not isinstance(resources, list):
        raise Unfit(f"{path}: resources: allowed: a list of files; mend the file in the repository")
    wanted = [*resources, *(entry for entry in added if entry not in resources)]
    if before is not None and wanted == resources:
        return {path: before}  # its comments stay
    return {path: _text({**tree, "resources": wanted})}


def _text(*trees: Tree) -> bytes:
    """YAML in which every version is quoted: what Flux puts into a text stays text."""
    return yaml_text.dump(*trees, blocks=True, quote_digits=True, explicit_start=True, width=120).encode()
