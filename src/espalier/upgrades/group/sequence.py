"""The order in which nodes of one group are upgraded: which is next, and which block it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from espalier.api import conditions as condition_list
from espalier.api.eksa.upgrades import PROGRESSING, NodeUpgrade
from espalier.kube.objects import Object
from espalier.upgrades import names
from espalier.upgrades.observed.cluster_view import MachineView


@dataclass(frozen=True)
class Member:
    """A machine of the group. `machine` is None once it is gone, `upgrade` until its turn."""

    name: str
    machine: MachineView | None
    object: Object | None
    upgrade: NodeUpgrade | None
    is_expected: bool = False
    """True if the machine's Cluster API objects record what was reached on the node."""

    @property
    def is_gone(self) -> bool:
        """True if the machine is gone or being deleted: there is nothing to upgrade."""
        return self.machine is None or self.machine.machine.metadata.deletion_timestamp is not None

    @property
    def is_done(self) -> bool:
        """True if its node was upgraded."""
        return self.upgrade is not None and self.upgrade.is_completed

    @property
    def is_recorded(self) -> bool:
        """True if its objects record the upgrade, and its NodeUpgrade is gone."""
        return self.upgrade is None and self.is_expected

    @property
    def is_active(self) -> bool:
        """True if its node is being upgraded, or its upgrade failed."""
        return self.upgrade is not None and not self.upgrade.is_completed and not self.is_gone

    @property
    def progress(self) -> list[str]:
        """The times at which its NodeUpgrade was created, and its steps ended."""
        if self.upgrade is None:
            return []
        steps = [condition.last_transition_time for condition in self.upgrade.status.conditions]
        return [self.upgrade.metadata.creation_timestamp or "", *steps]

    @property
    def message(self) -> str:
        """The message of its NodeUpgrade."""
        ready = condition_list.get(self.upgrade.status.conditions, names.READY) if self.upgrade else None
        return ready.message if ready else "its NodeUpgrade has not been reconciled yet"

    @property
    def reason(self) -> str:
        """The reason of its NodeUpgrade."""
        ready = condition_list.get(self.upgrade.status.conditions, names.READY) if self.upgrade else None
        return ready.reason if ready else "NodeUpgradePending"

    @property
    def is_under_way(self) -> bool:
        """True if its upgrade is progressing as expected."""
        return self._progressing in ("", "True")

    @property
    def has_failed(self) -> bool:
        """True if its upgrade can't continue until somebody acts."""
        return self.is_active and self._progressing == "False"

    @property
    def is_unknown(self) -> bool:
        """True if it has no condition Progressing: it is new, or was reported by a version without that condition."""
        return self.is_active and not self._progressing

    @property
    def _progressing(self) -> str:
        progressing = condition_list.get(self.upgrade.status.conditions, PROGRESSING) if self.upgrade else None
        return progressing.status if progressing else ""


@dataclass(frozen=True)
class Counts:
    """The numbers of machines that are upgraded, and that are left."""

    upgraded: int
    left: int


def counts(members: Sequence[Member]) -> Counts:
    """The counts, without machines that are gone."""
    existing = [member for member in members if not member.is_gone]
    done = sum(member.is_done and member.is_expected for member in existing)
    return Counts(done, len(existing) - done)


def to_record(members: Sequence[Member]) -> list[Member]:
    """Machines whose node is upgraded, but whose objects do not record that yet."""
    return [member for member in members if member.is_done and not member.is_expected and not member.is_gone]


def active(members: Sequence[Member]) -> list[Member]:
    """Machines that are being upgraded; failed machines come first, to be reported."""
    return sorted((member for member in members if member.is_active), key=lambda member: not member.has_failed)


def next_members(members: Sequence[Member], at_once: int) -> list[Member]:
    """Machines to start now, in order, with at most `at_once` being upgraded at the same time.

    A failed node stops the sequence, and so does a node whose state is unknown.
    """
    running = active(members)
    if any(member.has_failed or member.is_unknown for member in running):
        return []
    waiting = [member for member in members if member.upgrade is None and not member.is_gone]
    return waiting[: max(0, at_once - len(running))]
