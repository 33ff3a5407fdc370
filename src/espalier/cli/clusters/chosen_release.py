"""Choice of a cluster's release: this program's own, on every creation and upgrade."""

from __future__ import annotations

from espalier.api.manifests.manifests import Document
from espalier.api.meta import Tree
from espalier.api.text.violations import Problem, Violation
from espalier.kube.objects import Object
from espalier.releases import Releases


def own_version() -> str:
    """The eksaVersion of this program."""
    return Releases.load().newest().version


def problems(cluster: Document, tree: Tree, own: str) -> list[Problem]:
    """A manifest that names a release names that of this program, or what is wrong, with both versions.

    `tree` is what can be read of it.
    """
    given = tree["spec"].get("eksaVersion")
    if given and given != own:
        message = (
            f"this espalier is of release {own}, and creates and upgrades clusters to that; remove the field, use the "
            f"espalier of {given}, or apply the manifest with kubectl"
        )
        return [cluster.problem(Violation("spec.eksaVersion", given, own, message))]
    return []


def left_behind_by_move(tree: Tree, existing: Object | None, own: str) -> str:
    """The release that a cluster would leave for that of this program, although its manifest does not name one."""
    if existing is None or tree["spec"].get("eksaVersion"):
        return ""
    spec = existing.tree["spec"]
    if spec.get("bundlesRef") is not None:
        return f"Bundles {spec['bundlesRef'].get('name')}"
    before = spec.get("eksaVersion")
    return f"release {before}" if before and before != own else ""


def upgraded(tree: Tree, existing: Object, own: str, *, moves: bool) -> bool:
    """Set the release in a Cluster that `espalier upgrade cluster` is about to send. True as of `choose`."""
    if moves:
        return choose(tree, existing, own)
    keep(tree, existing)
    return False


def keep(tree: Tree, existing: Object) -> None:
    """Keep the release, or the Bundles, of the existing Cluster in the one to be sent."""
    for field in ("eksaVersion", "bundlesRef"):
        if existing.tree["spec"].get(field) is not None:
            tree["spec"][field] = existing.tree["spec"][field]


def choose(tree: Tree, existing: Object | None, own: str) -> bool:
    """Set the release in a Cluster that is about to be sent. True when it takes the place of Bundles in the one there.

    Bundles in a manifest of a new cluster are left as they are: the server says why they are refused.
    """
    spec: Tree = tree["spec"]
    exchanged = existing is not None and existing.tree["spec"].get("bundlesRef") is not None
    if exchanged:
        spec["bundlesRef"] = None
    if spec.get("bundlesRef") is None:
        spec["eksaVersion"] = own
        if not exchanged:
            spec.pop("bundlesRef", None)
    return exchanged
