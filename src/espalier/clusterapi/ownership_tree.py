"""The objects of a cluster as a tree, each with its state in a word, and the one thing that blocks progress. Pure.

Who belongs below whom, `metadata.ownerReferences` say. How an object is, its conditions say, in the words of Cluster
API: `Ready`, `Available`, `MachinesReady` or `RemediationAllowed` (the first it has), and the conditions that are True
while something is under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from espalier.api.meta import Tree
from espalier.clusterapi import external_etcd

STATES = ("Ready", "Available", "MachinesReady", "RemediationAllowed")
"""Conditions that sum an object up; the first that an object has counts."""

BUSY = ("Deleting", "Paused", "Remediating", "RollingOut", "ScalingUp", "ScalingDown", "Updating")
"""Conditions that are True while something is under way."""


@dataclass(frozen=True)
class Member:
    """An object of a cluster and those that it owns."""

    tree: Tree
    children: tuple[Member, ...] = ()

    @property
    def kind(self) -> str:
        """The kind, with its group if it could be mistaken for EKS Anywhere's kind of the same name."""
        kind: str = self.tree["kind"]
        group = self.tree["apiVersion"].partition("/")[0]
        return f"{kind}.{group}" if (kind, group) == ("Cluster", "cluster.x-k8s.io") else kind

    @property
    def name(self) -> str:
        """`metadata.name`."""
        name: str = self.tree["metadata"]["name"]
        return name

    @property
    def state(self) -> State:
        """State of the object."""
        return state_of(self.tree)

    @property
    def version(self) -> str:
        """The Kubernetes version of a machine, which is that of its kubelet, or that which others should have."""
        spec, status = _map(self.tree, "spec"), _map(self.tree, "status")
        template = spec.get("template")  # text in some machine configs
        of_template = (template.get("spec") or {}) if isinstance(template, dict) else {}
        of_node = _map(status, "nodeInfo").get("kubeletVersion") if self.kind == "Machine" else ""
        return str(of_node or spec.get("version") or spec.get("kubernetesVersion") or of_template.get("version") or "")

    def members(self) -> Iterator[Member]:
        """This member and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.members()

    @property
    def is_healthy(self) -> bool:
        """True if nothing here or below has a problem or is in progress."""
        return all(member.state.is_healthy for member in self.members())


@dataclass(frozen=True)
class State:
    """A condition that sums an object up. `status` is empty for an object that reports nothing."""

    status: str = ""
    reason: str = ""
    message: str = ""
    since: str = ""
    """Time of the last transition, RFC 3339."""
    busy: tuple[str, ...] = field(default=())
    """Operations in progress, as names of conditions."""

    @property
    def is_healthy(self) -> bool:
        """True if there is neither a problem nor work in progress."""
        return self.status in ("True", "") and not self.busy

    @property
    def text(self) -> str:
        """The state in a few words: `True`, `False`, `True, RollingOut`."""
        return ", ".join(filter(None, (self.status, *self.busy)))

    @property
    def sentence(self) -> str:
        """The reason of the problem; empty if there is none."""
        if self.is_healthy:
            return ""
        lines = "; ".join(line.lstrip("* ").strip() for line in self.message.splitlines() if line.strip())
        lines = lines.replace(":; ", ": ")  # a line that ends with a colon is the heading of those below
        reason = "" if self.reason in (self.status, "") or self.status == "True" else self.reason
        return ": ".join(filter(None, (reason, lines)))


def state_of(tree: Tree) -> State:
    """State of an object, as it reports it."""
    conditions = _conditions(tree)
    busy = tuple(type_ for type_ in BUSY if conditions.get(type_, {}).get("status") == "True")
    if tree["metadata"].get("deletionTimestamp") and "Deleting" not in busy:
        busy = ("Deleting", *busy)
    # A member of etcd never becomes a node, so its Machine is never Ready.
    is_etcd = external_etcd.MACHINE_LABEL in (tree["metadata"].get("labels") or {})
    states = ("InfrastructureReady",) if is_etcd and tree["kind"] == "Machine" else STATES
    condition = next((conditions[type_] for type_ in states if type_ in conditions), None)
    if condition is None:
        return replace(_checked(tree), busy=busy)
    reason, message = condition.get("reason", ""), condition.get("message", "")
    deletion = conditions.get("Deleting", {})
    if "Deleting" in busy and deletion.get("message"):  # who blocks a drain; Ready has only the stage
        reason, message = deletion.get("reason", ""), deletion["message"]
    elif condition.get("status") == "True" and busy:
        message = next((text for type_ in busy if (text := conditions.get(type_, {}).get("message"))), message)
    return State(condition.get("status", ""), reason, message, condition.get("lastTransitionTime", ""), busy)


def _checked(tree: Tree) -> State:
    """State of a linked object, which a provider's controller has checked against its infrastructure."""
    status = _map(tree, "status")
    valid = status.get("specValid")
    if not isinstance(valid, bool):
        return State()
    return State(str(valid), str(status.get("failureReason") or ""), str(status.get("failureMessage") or ""))


def tree_of(root: Tree, objects: Iterable[Tree]) -> Member:
    """The tree of a cluster: `root`, and each of `objects` once, below its owner.

    An object whose owner is not among them stands directly below the Cluster of Cluster API, or below the root.
    """
    top: str = root["metadata"]["uid"]
    trees = {tree["metadata"]["uid"]: tree for tree in objects if tree["metadata"]["uid"] != top}
    head = next((uid for uid, tree in trees.items() if _is_cluster_of_cluster_api(tree)), top)
    parents = {uid: _owner(tree, {top, *trees}) or head for uid, tree in trees.items()}
    if head != top:
        parents[head] = top
    for uid in trees:
        if not _leads_to(top, uid, parents):
            parents[uid] = head
    below: dict[str, list[Tree]] = {}
    for uid, parent in parents.items():
        below.setdefault(parent, []).append(trees[uid])

    def member(tree: Tree) -> Member:
        children = sorted(below.get(tree["metadata"]["uid"], ()), key=_rank)
        return Member(tree, tuple(map(member, children)))

    return member(root)


def _leads_to(top: str, uid: str, parents: dict[str, str]) -> bool:
    """True if the root is an ancestor of an object: two objects may own each other."""
    passed = set()
    while uid != top and uid not in passed:
        passed.add(uid)
        uid = parents[uid]
    return uid == top


def obstacle(root: Member) -> Member | None:
    """The one member that blocks progress: the deepest that is not as it should be, on the first path that isn't.

    A False state weighs more than work that is under way: on each level the first False one leads on.
    """
    troubled = [child for child in root.children if not child.is_healthy]
    for child in sorted(troubled, key=lambda child: all(member.state.status != "False" for member in child.members())):
        return obstacle(child)
    return None if root.state.is_healthy else root


def _is_cluster_of_cluster_api(tree: Tree) -> bool:
    return tree["kind"] == "Cluster" and bool(tree["apiVersion"].startswith("cluster.x-k8s.io/"))


def _owner(tree: Tree, known: Set[str]) -> str | None:
    """The uid of the owner that is among the known ones: the controller, else the first."""
    references: Sequence[Any] = tree["metadata"].get("ownerReferences", ())
    for reference in sorted(references, key=lambda reference: not reference.get("controller")):
        if reference["uid"] in known and reference["uid"] != tree["metadata"]["uid"]:
            uid: str = reference["uid"]
            return uid
    return None


_ORDER = ("Cluster", "ControlPlane", "Deployment", "Set", "Machine", "Config", "HealthCheck", "Template")
"""Ends of kinds, in the order in which they are shown: infrastructure of the cluster, control plane, workers, rest."""


def _rank(tree: Tree) -> tuple[int, str, str]:
    kind: str = tree["kind"]
    return (next((at for at, end in enumerate(_ORDER) if kind.endswith(end)), -1), kind, tree["metadata"]["name"])


def _map(tree: Tree, name: str) -> Tree:
    """A part of an object; empty if it is none."""
    part = tree.get(name)
    return part if isinstance(part, dict) else {}


def _conditions(tree: Tree) -> dict[str, Tree]:
    """The conditions of an object by their types. Kinds of others may have anything in their place."""
    conditions = _map(tree, "status").get("conditions")
    return {
        str(condition.get("type", "")): {name: value for name, value in condition.items() if isinstance(value, str)}
        for condition in (conditions if isinstance(conditions, list) else ())
        if isinstance(condition, dict)
    }
