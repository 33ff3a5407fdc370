"""How far the in-place upgrade of a cluster is: its nodes, the steps of those in work, the time so far and an estimate.

The status of a Cluster counts nodes; the steps of each are in its NodeUpgrade, beside Cluster API's objects. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from espalier.api import conditions as condition_list
from espalier.api.capi.machine import Machine
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.text.spans import span
from espalier.clusterapi import kubernetes_versions
from espalier.clusterapi.contract import CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL
from espalier.clusters.design import names
from espalier.clusters.design.render_input import group_name
from espalier.clusters.effects.duration import UNKNOWN_IN_PLACE, median, seconds_in_place

IN_PLACE = "InPlace"
GroupUpgrade = ControlPlaneUpgrade | MachineDeploymentUpgrade


@dataclass(frozen=True)
class UpgradeProgress:
    """The nodes that are upgraded in place, and how long the rest will take."""

    done: int
    total: int
    nodes: tuple[str, ...]
    """The present step of each node in work."""
    began: datetime | None
    """Creation of the first object of the upgrade that still exists."""
    ends: datetime
    """An estimate."""
    is_measured: bool
    """The estimate is from machines of this cluster, rather than assumed."""

    def sentence(self, now: datetime, began: datetime | None = None) -> str:
        """All of it. `began`: when the upgrade was requested, if that is known better."""
        parts = [f"{self.done} of {self.total} nodes are upgraded", *self.nodes]
        since = min(filter(None, (began, self.began)), default=None)
        if since is not None:
            parts.append(f"{span((now - since).total_seconds())} so far")
        if self.done < self.total:
            assumed = "" if self.is_measured else f", assuming {UNKNOWN_IN_PLACE:g} s for each node"
            left = max(1.0, (self.ends - now).total_seconds())
            parts.append(f"about {span(left)} left{assumed}")
        return "; ".join(parts)


def progress_of(
    cluster: Cluster,
    machines: Sequence[Machine],
    groups: Sequence[GroupUpgrade],
    nodes: Sequence[NodeUpgrade],
    now: datetime,
) -> UpgradeProgress | None:
    """The progress of a cluster's upgrade; None if none of its nodes is upgraded in place."""
    nodes = [node for node in nodes if not node.spec.certificates_only]
    upgrades = [*groups, *nodes]
    if not upgrades:
        return None
    target = upgrades[0].spec.kubernetes_version
    by_machine = {node.spec.machine.name: node for node in nodes}
    requested = {
        machine.name for group in groups for machine in group.spec.machines_require_upgrade
    } | by_machine.keys()
    due = [machine for machine in machines if machine.metadata.name in requested]
    # The NodeUpgrade of a change of the version alone has no other changes, also once its kubelet is of that version.
    is_of_version = any(not node.spec.bootstrap_changes for node in nodes) or any(
        not _has_version(machine, target) for machine in due
    )
    # A group before its turn, or after it, has no upgrade object: its versions and records tell.
    in_place = due + [
        machine
        for machine in machines
        if machine.metadata.name not in requested
        and _is_in_place(machine, cluster)
        and (not _has_version(machine, target) or (is_of_version and seconds_in_place(machine) is not None))
    ]
    counted = {machine.metadata.name: machine for machine in in_place}
    if not counted:
        return None
    done = {
        name
        for name, machine in counted.items()
        if _is_done(machine, by_machine.get(name), target, is_due=name in requested)
    }
    took = [seconds for machine in machines if (seconds := seconds_in_place(machine)) is not None]
    each = median(took) if took else UNKNOWN_IN_PLACE
    working = [node for node in nodes if not node.is_completed]
    spent = max(
        (min(each, (now - at).total_seconds()) for upgrade in working if (at := _created(upgrade))), default=0.0
    )
    left = _rounds([machine for name, machine in counted.items() if name not in done]) * each - spent
    began = [at for upgrade in upgrades if (at := _created(upgrade)) is not None]
    return UpgradeProgress(
        done=len(done),
        total=len(counted),
        nodes=tuple(_step(upgrade) for upgrade in working),
        began=min(began, default=None),
        ends=now + timedelta(seconds=left),
        is_measured=bool(took),
    )


def _is_in_place(machine: Machine, cluster: Cluster) -> bool:
    """True if the strategy of the machine's group says so."""
    labels, spec = machine.metadata.labels, cluster.spec
    if CONTROL_PLANE_LABEL in labels:
        plane = spec.control_plane_configuration
        return (
            plane is not None
            and plane.upgrade_rollout_strategy is not None
            and plane.upgrade_rollout_strategy.type == IN_PLACE
        )
    groups = {group_name(group): group for group in spec.worker_node_group_configurations}
    own = groups.get(names.group_of(labels.get(DEPLOYMENT_NAME_LABEL, ""), cluster.metadata.name, groups))
    strategy = own.upgrade_rollout_strategy if own is not None else None
    return strategy is not None and strategy.type == IN_PLACE


def _is_done(machine: Machine, upgrade: NodeUpgrade | None, target: str, *, is_due: bool) -> bool:
    if upgrade is not None:
        return upgrade.is_completed
    return not is_due and _has_version(machine, target)


def _has_version(machine: Machine, target: str) -> bool:
    """True if the kubelet of a machine has the version, or, before there is one, if the Machine asks for it."""
    version = machine.status.node_info.get("kubeletVersion") or machine.spec.version
    return kubernetes_versions.has_release(str(version), machine.spec.version, target)


def _rounds(machines: Sequence[Machine]) -> int:
    """The nodes that are upgraded one after another: worker node groups side by side, after the control plane."""
    counts: dict[str, int] = {}
    for machine in machines:
        group = (
            ""
            if CONTROL_PLANE_LABEL in machine.metadata.labels
            else machine.metadata.labels.get(DEPLOYMENT_NAME_LABEL, "")
        )
        counts[group] = counts.get(group, 0) + 1
    return counts.get("", 0) + max((count for group, count in counts.items() if group), default=0)


def _step(upgrade: NodeUpgrade) -> str:
    ready = condition_list.get(upgrade.status.conditions, "Ready")
    return ready.message if ready is not None else f"NodeUpgrade {upgrade.metadata.name} has not started"


def _created(upgrade: GroupUpgrade | NodeUpgrade) -> datetime | None:
    return condition_list.parse_timestamp(upgrade.metadata.creation_timestamp or "")
