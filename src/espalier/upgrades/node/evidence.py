"""The parts of a NodeUpgrade's status that its node and its pods confirm. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.conditions import is_true
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.meta import Condition
from espalier.kube.objects import Object
from espalier.upgrades.node import status
from espalier.upgrades.node.containers import KUBELET, ONLY_CERTIFICATES, STEPS, NodeStep
from espalier.upgrades.observed.evidence import contradiction, is_outdated
from espalier.upgrades.observed.views import Node


def steps_of(upgrade: NodeUpgrade) -> Sequence[NodeStep]:
    """The steps of a NodeUpgrade, in order."""
    return ONLY_CERTIFICATES if upgrade.spec.certificates_only else STEPS


def is_completed(upgrade: NodeUpgrade, node: Node | None, pod: Object | None) -> bool:
    """True if its status says that every step succeeded, and neither the node nor its own pod shows otherwise."""
    is_reported = upgrade.is_completed and status.are_all_done(upgrade.status.conditions, steps_of(upgrade))
    return is_reported and not contradiction(upgrade, node, pod)


def credible(upgrade: NodeUpgrade, node: Node | None) -> Sequence[Condition]:
    """The conditions that were reported before. None if they say that the kubelet was upgraded, and the node shows that
    it was not: somebody has edited them, and any step may be left."""
    before = upgrade.status.conditions
    return () if is_outdated(upgrade, node) and is_true(before, KUBELET.condition) else before
