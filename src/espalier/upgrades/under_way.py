"""Upgrades that progress as expected: they need time, and no action."""

from __future__ import annotations

from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.clusterapi.ownership_tree import Member
from espalier.upgrades.node.containers import BEGINNING, UNDER_WAY

KINDS = (ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade)


def is_under_way(member: Member) -> bool:
    """True for an upgrade in a cluster's tree that progresses as expected."""
    is_upgrade = member.kind in {kind.resource.kind for kind in KINDS}
    return is_upgrade and member.state.reason in {*UNDER_WAY, *BEGINNING, Reason.UPGRADING_NODES}
