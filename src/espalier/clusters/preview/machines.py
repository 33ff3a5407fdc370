"""Which machines Cluster API would replace, remove and make, in which order and why, once objects are as foreseen.

Cluster API's rules: a control plane is changed machine by machine, the oldest first; a MachineDeployment gets a new set
when its template asks for other machines, and its old sets go, machine by machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.eksa.upgrades import FALLBACK_ANNOTATION, IN_PLACE_CONTROL_PLANE, IN_PLACE_DEPLOYMENT, IN_PLACE_HOOKS
from espalier.api.meta import ObjectMeta
from espalier.clusterapi import contract, in_place_fields, machine_change, removal
from espalier.clusterapi.infrastructure import Infrastructure, Infrastructures
from espalier.clusterapi.intstr import share
from espalier.clusterapi.machine_change import ChangeKind, MachineChange
from espalier.clusters import in_place
from espalier.clusters.preview.diff import ObjectChange
from espalier.clusters.preview.simulate import Foreseen

SCALED_IN = "replicas"
GROUP_REMOVED = "the group is removed"


class SeenMachine(NamedTuple):
    """A machine, and what it was made of as far as that is there."""

    machine: Machine
    config: KubeadmConfig | None = None
    infrastructure: ObjectMeta | None = None

    @property
    def name(self) -> str:
        """Name of the Machine."""
        return self.machine.metadata.name

    @property
    def goes(self) -> bool:
        """Whether somebody has asked for its deletion already."""
        return self.machine.metadata.deletion_timestamp is not None


class Fleet(msgspec.Struct, frozen=True):
    """The machines of a cluster, as they are."""

    machines: Sequence[SeenMachine] = ()
    sets: Mapping[str, MachineSet] = msgspec.field(default_factory=dict)

    def of_control_plane(self, name: str) -> list[SeenMachine]:
        """Machines of a control plane that stay, oldest first."""
        return sorted(self._owned(KubeadmControlPlane.resource.kind, name), key=_age)

    def sets_of(self, deployment: str) -> list[MachineSet]:
        """The sets of a MachineDeployment, oldest first."""
        owned = [one for one in self.sets.values() if _owner(one.metadata) == ("MachineDeployment", deployment)]
        return sorted(owned, key=lambda one: (int(one.metadata.annotations.get(_REVISION, "0")), one.metadata.name))

    def of_set(self, name: str) -> list[SeenMachine]:
        """Machines of a set that stay, in the order in which they would go."""
        return sorted(self._owned(MachineSet.resource.kind, name), key=lambda one: removal.of_set(one.machine))

    def _owned(self, kind: str, name: str) -> Iterable[SeenMachine]:
        return (one for one in self.machines if not one.goes and _owner(one.machine.metadata) == (kind, name))


_REVISION = "machinedeployment.clusters.x-k8s.io/revision"


class Going(NamedTuple):
    """A machine that goes, and the fields because of which it does; without name when only their number is known."""

    name: str
    why: tuple[str, ...]


class Group(msgspec.Struct, frozen=True):
    """What happens to the machines of the control plane, or of a worker node group."""

    name: str
    """Of the MachineDeployment; empty for the control plane."""
    present: int
    going: tuple[Going, ...] = ()
    """In their order."""
    coming: int = 0
    at_once: int = 1
    """How many machines are made at a time."""
    in_place: tuple[str, ...] = ()
    """Fields that follow in the machines that stay."""
    upgraded: tuple[Going, ...] = ()
    """Machines that are upgraded where they stand, instead of being replaced, and why."""
    refused: tuple[str, ...] = ()
    """Fields for which machines that are to be upgraded in place stay as they are until somebody acts."""

    def __bool__(self) -> bool:
        return bool(self.going or self.coming or self.in_place or self.upgraded or self.refused)

    @property
    def replaced(self) -> tuple[Going, ...]:
        """Machines that go because they are no longer what is asked for."""
        return tuple(one for one in self.going if one.why not in ((SCALED_IN,), (GROUP_REMOVED,)))

    @property
    def rounds(self) -> int:
        """How often it has to be waited for a machine to come."""
        return math.ceil(self.coming / self.at_once)


def groups(foreseen: Foreseen, fleet: Fleet | None, known: Infrastructures) -> tuple[Group, ...]:
    """What happens to all machines of a cluster: the control plane first, then the worker node groups side by side.

    Without a fleet, machines are counted by what Cluster API reports, and have no names. `known` says which fields of
    machine templates do not matter in place.
    """
    found = []
    before, after = foreseen.before, foreseen.after
    why = _reasons(foreseen.objects)
    if after.control_plane is not None:
        found.append(_control_plane(before.control_plane, after.control_plane, fleet, why, known))
    for name in dict.fromkeys((*before.typed_deployments, *after.typed_deployments)):
        live, wanted = before.typed_deployments.get(name), after.typed_deployments.get(name)
        if wanted is None:
            if live is not None and name in foreseen.gone:
                found.append(_removed(live, fleet))
        else:
            found.append(_deployment(live, wanted, fleet, why, known))
    return tuple(group for group in found if group)


Reasons = Mapping[tuple[str, str], tuple[str, ...]]
"""By kind and name of a template that comes into use: in what it differs from the one before."""


def _reasons(objects: Iterable[ObjectChange]) -> Reasons:
    prefix = "spec.template.spec."
    return {
        (change.kind, change.name): tuple(one.field.removeprefix(prefix) for one in change.fields)
        for change in objects
        if change.instead_of
    }


def _explained(
    change: MachineChange, machine_template: tuple[str, str], config: tuple[str, str], why: Reasons
) -> tuple[str, ...]:
    """The fields of a change; in place of a template's name, what is different in the template."""
    fields: list[str] = []
    for name in change.fields:
        if name == "infrastructure":
            fields += [f"infrastructure.{inner}" for inner in why.get(machine_template, ())] or [name]
        elif name == "bootstrap.configRef.name":
            fields += [f"bootstrap.{inner}" for inner in why.get(config, ())] or [name]
        else:
            fields.append(name)
    return tuple(fields)


def _control_plane(
    live: KubeadmControlPlane | None,
    wanted: KubeadmControlPlane,
    fleet: Fleet | None,
    why: Reasons,
    known: Infrastructures,
) -> Group:
    desired = machine_change.of_control_plane(wanted)
    replicas = contract.desired_replicas(wanted)
    rollout = wanted.spec.rollout
    rolling = rollout.strategy.rolling_update if rollout and rollout.strategy else None
    surge = 1 if rolling is None or rolling.max_surge is None else int(rolling.max_surge)
    reference = wanted.spec.machine_template.spec.infrastructure_ref
    template = (reference.kind, reference.name)
    if live is None:
        return Group("", 0, coming=replicas)
    outdated: dict[str, tuple[str, ...]] = {}
    in_place: tuple[str, ...] = ()
    if fleet is None:
        change = machine_change.machine_change(machine_change.of_control_plane(live), desired)
        staying = [f"#{number}" for number in range(live.status.replicas or 0)]
        changes = dict.fromkeys(staying, change)
    else:
        seen = fleet.of_control_plane(wanted.metadata.name)
        changes = {
            one.name: machine_change.machine_change(machine_change.of_control_plane_machine(*one), desired)
            for one in seen
        }
        marked = {one.name: removal.of_control_plane(one.machine) for one in seen}
        staying = sorted(changes, key=lambda name: marked[name])
    for name, change in changes.items():
        if change.kind is ChangeKind.REPLACE:
            outdated[name] = _explained(change, template, ("", ""), why)
        elif change.kind is ChangeKind.IN_PLACE:
            in_place = change.fields
    is_held = _is_held(wanted.metadata, IN_PLACE_CONTROL_PLANE)
    refused = _refused(outdated.values(), known.of_template(reference.kind)) if is_held else ()
    if refused and not _falls_back(wanted.metadata):
        return Group("", len(staying), in_place=in_place, refused=refused)
    upgraded = tuple(Going(name, why) for name, why in outdated.items()) if is_held and not refused else ()
    going, coming = _one_by_one(staying, {} if upgraded else outdated, replicas, surge)
    if fleet is None:
        going = [Going("", one.why) for one in going]
        upgraded = tuple(Going("", one.why) for one in upgraded)
    return Group("", len(staying), tuple(going), coming, in_place=in_place, upgraded=upgraded)


def _is_held(metadata: ObjectMeta, mark: str) -> bool:
    """Whether outdated machines of an owner are to be upgraded in place (in-place-upgrades.md)."""
    return mark in metadata.annotations or IN_PLACE_HOOKS in metadata.annotations


def _falls_back(metadata: ObjectMeta) -> bool:
    """Whether they are replaced when that can't be."""
    return "RollingUpdate" in (metadata.annotations.get(mark) for mark in (FALLBACK_ANNOTATION, IN_PLACE_HOOKS))


def _refused(changes: Iterable[tuple[str, ...]], infrastructure: Infrastructure | None) -> tuple[str, ...]:
    """The fields that no machine can get in place."""
    fields = dict.fromkeys(field for why in changes for field in why)
    return in_place_fields.refused(fields, infrastructure)


def _one_by_one(
    staying: Sequence[str], outdated: Mapping[str, tuple[str, ...]], replicas: int, surge: int
) -> tuple[list[Going], int]:
    """The moves of a control plane, as Cluster API makes them: a machine more, or one less, until all is as wanted."""
    old = [name for name in staying if name in outdated]
    current: list[str] = [name for name in staying if name not in outdated]
    going: list[Going] = []
    coming = 0
    while True:
        total = len(old) + len(current)
        if (old and total < replicas + surge) or (not old and total < replicas):
            coming += 1
            current.append("")
        elif old:
            name = old.pop(0)
            going.append(Going(name, outdated[name]))
        elif total > replicas:
            going.append(Going(current.pop(0), (SCALED_IN,)))
        else:
            return going, coming


def _removed(live: MachineDeployment, fleet: Fleet | None) -> Group:
    why = (GROUP_REMOVED,)
    if fleet is None:
        going = [Going("", why)] * (live.status.replicas or 0)
    else:
        sets = fleet.sets_of(live.metadata.name)
        going = [Going(one.name, why) for owned in sets for one in fleet.of_set(owned.metadata.name)]
    return Group(live.metadata.name, len(going), tuple(going))


def _deployment(
    live: MachineDeployment | None,
    wanted: MachineDeployment,
    fleet: Fleet | None,
    why: Reasons,
    known: Infrastructures,
) -> Group:
    name, replicas = wanted.metadata.name, contract.desired_replicas(wanted)
    if live is not None and wanted.spec.replicas is None:  # Cluster API keeps what its autoscaler could have chosen
        replicas = contract.within(wanted, contract.desired_replicas(live))
    rolling = (
        wanted.spec.rollout.strategy.rolling_update if wanted.spec.rollout and wanted.spec.rollout.strategy else None
    )
    at_once = _at_once(rolling.max_surge if rolling else None, rolling.max_unavailable if rolling else None, replicas)
    if live is None:
        return Group(name, 0, coming=replicas, at_once=max(1, replicas))
    spec = wanted.spec.template.spec
    template = (spec.infrastructure_ref.kind, spec.infrastructure_ref.name)
    config = ("KubeadmConfigTemplate", spec.bootstrap.config_ref.name if spec.bootstrap.config_ref else "")
    desired = machine_change.of_machine_template(wanted.spec.template)
    sets: list[tuple[MachineChange, list[str]]]
    if fleet is None:
        change = machine_change.machine_change(machine_change.of_machine_template(live.spec.template), desired)
        sets = [(change, [""] * (live.status.replicas or 0))]
    else:
        sets = [
            (
                machine_change.machine_change(machine_change.of_machine_template(owned.spec.template), desired),
                [one.name for one in fleet.of_set(owned.metadata.name)],
            )
            for owned in fleet.sets_of(name)
        ]
    if _is_held(wanted.metadata, IN_PLACE_DEPLOYMENT):
        explained = [(_explained(change, template, config, why), ones) for change, ones in sets]
        refused = _refused((fields for fields, ones in explained if ones), known.of_template(template[0]))
        if not refused:
            return _upgraded(name, replicas, explained)
        if not _falls_back(wanted.metadata):
            return Group(name, sum(len(ones) for _, ones in sets), refused=refused)
    newest = next((index for index, (change, _) in enumerate(sets) if change.kind is not ChangeKind.REPLACE), None)
    kept = sets[newest][1] if newest is not None else []
    going = [Going(one, (SCALED_IN,)) for one in kept[: max(0, len(kept) - replicas)]]
    for index, (change, names) in enumerate(sets):
        if index != newest:
            reasons = _explained(change, template, config, why) or ("an older template",)
            going += [Going(one, reasons) for one in names]
    coming = max(0, replicas - len(kept))
    present = sum(len(names) for _, names in sets)
    in_place = sets[newest][0].fields if newest is not None and kept else ()
    rolls = len(going) > 0 and coming > 0
    return Group(name, present, tuple(going), coming, at_once if rolls else max(1, coming), in_place)


def _upgraded(name: str, replicas: int, sets: Sequence[tuple[tuple[str, ...], Sequence[str]]]) -> Group:
    """A group whose machines stay, and are brought to what is asked for where they stand."""
    machines = [Going(one, why) for why, names in sets for one in names]
    fewer = max(0, len(machines) - replicas)
    coming = max(0, replicas - len(machines))
    going = tuple(Going(one.name, (SCALED_IN,)) for one in machines[:fewer])
    outdated = tuple(one for one in machines[fewer:] if one.why)
    return Group(name, len(machines), going, coming, max(1, coming), upgraded=outdated)


def _at_once(surge: int | str | None, unavailable: int | str | None, replicas: int) -> int:
    """How many machines of a deployment are under way at a time during a rollout; by default 1."""
    return max(1, share(surge, replicas, default=1, round_up=True) + share(unavailable, replicas, default=0))


def _age(seen: SeenMachine) -> str:
    return seen.machine.metadata.creation_timestamp or ""


def _owner(metadata: ObjectMeta) -> tuple[str, str]:
    owner = next((one for one in metadata.owner_references if one.controller), None)
    return (owner.kind, owner.name) if owner else ("", "")


def refused_in_place(groups: Sequence[Group], cluster: str) -> str:
    """What is said of machines that are to be upgraded in place and can't be; empty when all can."""
    said = [
        in_place_fields.sentence(group.refused, group.name or f"the control plane of {cluster}")
        for group in groups
        if group.refused
    ]
    return f"{in_place.STOPPED}: {'; '.join(said)}" if said else ""
