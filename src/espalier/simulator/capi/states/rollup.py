"""Rollup of machines: counts, versions and summary conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import VersionCount
from espalier.api.capi.machine import Machine
from espalier.api.meta import Condition
from espalier.api.text.listing import first
from espalier.clusterapi.conditions import condition


@dataclass(frozen=True)
class Rollup:
    """Counts of machines, and the names of those that are not ready or not up to date."""

    replicas: int = 0
    ready: int = 0
    available: int = 0
    up_to_date: int = 0
    versions: tuple[VersionCount, ...] = ()
    not_ready: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()

    @classmethod
    def of(cls, machines: Iterable[Machine], outdated: Iterable[str] = ()) -> Rollup:
        """Count the machines; `outdated` are the names of those that differ from the template."""
        listed = list(machines)
        old = set(outdated)
        versions = Counter(machine.spec.version for machine in listed if machine.spec.version)
        return cls(
            replicas=len(listed),
            ready=sum(condition_list.is_true(machine.status.conditions, "Ready") for machine in listed),
            available=sum(condition_list.is_true(machine.status.conditions, "Available") for machine in listed),
            up_to_date=sum(machine.metadata.name not in old for machine in listed),
            versions=tuple(VersionCount(version=version, replicas=versions[version]) for version in sorted(versions)),
            not_ready=tuple(
                m.metadata.name for m in listed if not condition_list.is_true(m.status.conditions, "Ready")
            ),
            outdated=tuple(machine.metadata.name for machine in listed if machine.metadata.name in old),
        )

    def conditions(self, desired: int) -> Iterator[Condition]:
        """The conditions that KubeadmControlPlanes, MachineDeployments and MachineSets share."""
        yield condition(
            "MachinesReady",
            not self.not_ready,
            "NotReady" if self.not_ready else "Ready" if self.replicas else "NoReplicas",
            _machines_message("not ready", self.not_ready),
        )
        yield condition(
            "MachinesUpToDate",
            not self.outdated,
            "UpToDate" if not self.outdated else "NotUpToDate",
            _machines_message("not up to date", self.outdated),
        )
        yield condition(
            "RollingOut",
            bool(self.outdated),
            "RollingOut" if self.outdated else "NotRollingOut",
            f"Rolling out {len(self.outdated)} not up-to-date replicas" if self.outdated else "",
        )
        yield _scaling("ScalingUp", self.replicas < desired, self.replicas, desired)
        yield _scaling("ScalingDown", self.replicas > desired, self.replicas, desired)
        yield condition("Remediating", False, "NotRemediating")
        yield condition("Paused", False, "NotPaused")


def deleting_condition(waiting: str | None) -> Condition:
    """The Deleting condition; `waiting` is its message, None unless the object is being deleted."""
    if waiting is None:
        return condition("Deleting", False, "NotDeleting")
    return condition("Deleting", True, "Deleting", waiting)


def available_condition(type_: str, available: int, needed: int, total: int) -> Condition:
    """A condition that is True if at least `needed` of `total` replicas are available."""
    if available >= needed:
        return condition(type_, True, "Available")
    return condition(
        type_, False, "NotAvailable", f"{available} available replicas, at least {needed} required of {total}"
    )


def _scaling(type_: str, is_scaling: bool, replicas: int, desired: int) -> Condition:
    if not is_scaling:
        return condition(type_, False, f"Not{type_}")
    direction = "up" if desired > replicas else "down"
    return condition(type_, True, type_, f"Scaling {direction} from {replicas} to {desired} replicas")


def _machines_message(state: str, machines: Sequence[str]) -> str:
    if not machines:
        return ""
    return f"Machines {first(machines, 3)} {state}"
