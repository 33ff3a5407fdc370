"""Which machines Cluster API would replace, remove and create, in which order and why, after the simulated writes.

Cluster API's rules: a control plane is rolled out machine by machine, the oldest first; a MachineDeployment gets a new
set when its template requires other machines, and its old sets are scaled down, machine by machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineSet
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import (
    FALLBACK_ANNOTATION,
    IN_PLACE_CONTROL_PLANE,
    IN_PLACE_DEPLOYMENT,
    IN_PLACE_HOOKS,
    UNFINISHED,
)
from espalier.api.meta import ObjectMeta, Tree
from espalier.clusterapi import contract, external_etcd
from espalier.clusterapi.changes import in_place_fields, machine_change
from espalier.clusterapi.changes.classification import Classification, MachineEffect, UpdateStrategy, classify
from espalier.clusterapi.changes.machine_change import MachineParts
from espalier.clusterapi.infrastructures.infrastructure import Infrastructures
from espalier.clusterapi.machines import removal
from espalier.clusterapi.machines.intstr import share
from espalier.clusterapi.machines.machine_objects import MachineObjects
from espalier.clusterapi.names import REVISION
from espalier.clusters.effects.simulate import Simulated
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report import readiness

ETCD = "external etcd"
"""Name of the group of external etcd machines; no MachineDeployment can have it."""

SCALED_IN = "replicas"
GROUP_REMOVED = "the group is removed"


class Fleet(msgspec.Struct, frozen=True):
    """The existing machines of a cluster."""

    machines: Sequence[MachineObjects] = ()
    sets: Mapping[str, MachineSet] = msgspec.field(default_factory=dict)

    def of_control_plane(self, name: str) -> list[MachineObjects]:
        """Machines of a control plane that are not being deleted, oldest first."""
        return sorted(self._owned(KubeadmControlPlane.resource.kind, name), key=_age)

    def sets_of(self, deployment: str) -> list[MachineSet]:
        """The sets of a MachineDeployment, oldest first."""
        owned = [
            machine_set
            for machine_set in self.sets.values()
            if _owner(machine_set.metadata) == ("MachineDeployment", deployment)
        ]
        return sorted(
            owned,
            key=lambda machine_set: (
                int(machine_set.metadata.annotations.get(REVISION, "0")),
                machine_set.metadata.name,
            ),
        )

    def of_set(self, name: str) -> list[MachineObjects]:
        """Machines of a set that are not being deleted, in the order of their removal."""
        return sorted(
            self._owned(MachineSet.resource.kind, name), key=lambda machine: removal.machine_set_order(machine.machine)
        )

    def of_etcd(self, name: str) -> list[MachineObjects]:
        """Members of an etcd that are not being deleted, oldest first."""
        return sorted(self._owned(external_etcd.RESOURCE.kind, name), key=_age)

    def _owned(self, kind: str, name: str) -> Iterable[MachineObjects]:
        return (
            machine
            for machine in self.machines
            if not machine.is_deleted and _owner(machine.machine.metadata) == (kind, name)
        )


class RemovedMachine(NamedTuple):
    """A machine that is removed, and the fields that cause it; without name if only the number is known."""

    name: str
    why: tuple[str, ...]


class Group(msgspec.Struct, frozen=True):
    """The effects on machines of the control plane, of a worker node group, or of external etcd."""

    name: str
    """The name of the MachineDeployment; `ETCD`; empty for the control plane."""
    present: int
    going: tuple[RemovedMachine, ...] = ()
    """In the order of removal."""
    coming: int = 0
    at_once: int = 1
    """The number of machines created at a time."""
    in_place: tuple[str, ...] = ()
    """Fields that are updated in the machines that stay."""
    upgraded: tuple[RemovedMachine, ...] = ()
    """Machines that are upgraded in place instead of replaced, and why."""
    refused: tuple[str, ...] = ()
    """Fields that can't be changed in place, so that the machines stay unchanged until somebody acts."""
    fallback: tuple[str, ...] = ()
    """Fields that can't be changed in place, so that the machines are replaced by the `fallback`."""
    blocked: tuple[str, ...] = ()
    """The reasons why the group's in-place upgrade does not start until somebody acts, one per machine."""

    def __bool__(self) -> bool:
        return bool(self.going or self.coming or self.in_place or self.upgraded or self.refused or self.blocked)

    @property
    def is_of_workers(self) -> bool:
        """True for a worker node group."""
        return self.name not in ("", ETCD)

    @property
    def replaced(self) -> tuple[RemovedMachine, ...]:
        """Machines that are removed because they are outdated."""
        return tuple(machine for machine in self.going if machine.why not in ((SCALED_IN,), (GROUP_REMOVED,)))

    @property
    def rounds(self) -> int:
        """How often a rollout waits for a new machine."""
        return math.ceil(self.coming / self.at_once)


def paused(scope: Scope, changing: Iterable[Group]) -> str:
    """The obstacle, as `Simulated.stops`, if somebody paused what has to change machines; empty if nobody did."""
    names = {group.name for group in changing if group.going or group.coming or group.in_place or group.upgraded}
    texts = [
        pause.message
        for pause in readiness.pauses(scope)
        if (pause.kind == "Cluster" and names)
        or (pause.kind == KubeadmControlPlane.resource.kind and "" in names)
        or (pause.kind == MachineDeployment.resource.kind and pause.name in names)
    ]
    return f"{Reason.CLUSTER_API_PAUSED}: {'; '.join(texts)}" if texts else ""


def refused_groups(simulated: Simulated) -> tuple[Group, ...]:
    """The groups of which nothing is changed because the change can't be made in place."""
    return tuple(
        Group(
            change.wanted.metadata.name if change.group else "",
            (change.live.status.replicas or 0) if change.live else 0,
            refused=change.classified.refused,
        )
        for change in simulated.owner_changes
        if change.refusal
    )


def groups(simulated: Simulated, fleet: Fleet | None, known: Infrastructures) -> tuple[Group, ...]:
    """The effects on all machines of a cluster: etcd first, then the control plane, then the worker node groups side by
    side.

    Without a fleet, machines are counted by Cluster API's reports, and have no names. `known` says which fields of
    machine templates are ignored in place.
    """
    groups = []
    before, after = simulated.before, simulated.after
    classified = _classifier(simulated, known)
    falling_back = [change for change in simulated.owner_changes if change.classified.effect is MachineEffect.REPLACED]
    fallback = {
        change.wanted.metadata.name if change.group else "": change.classified.refused for change in falling_back
    }
    if after.etcd is not None:
        groups.append(_etcd(before.etcd, after.etcd, fleet, classified))
    if after.control_plane is not None:
        because = fallback.get("", ())
        groups.append(_control_plane(before.control_plane, after.control_plane, fleet, classified, because))
    for name in dict.fromkeys((*before.typed_deployments, *after.typed_deployments)):
        live, wanted = before.typed_deployments.get(name), after.typed_deployments.get(name)
        if wanted is None:
            if live is not None and name in simulated.gone:
                groups.append(_removed(live, fleet))
        else:
            groups.append(_deployment(live, wanted, fleet, classified, fallback.get(name, ())))
    return tuple(group for group in groups if group)


Classify: TypeAlias = Callable[[MachineParts, MachineParts, UpdateStrategy], Classification]


def _classifier(simulated: Simulated, known: Infrastructures) -> Classify:
    def content(kind: str, name: str) -> Tree | None:
        template = simulated.after.template(kind, name) or simulated.before.template(kind, name)
        spec: Tree | None = (template.tree.get("spec") or {}) if template else None
        return spec

    return lambda current, desired, update_strategy: classify(current, desired, update_strategy, known, content)


def _update_strategy(metadata: ObjectMeta, annotation: str) -> UpdateStrategy:
    """How Cluster API, or component `upgrades`, updates outdated machines of an owner."""
    annotations = metadata.annotations
    is_in_place = annotation in annotations or IN_PLACE_HOOKS in annotations
    falls_back = "RollingUpdate" in (annotations.get(FALLBACK_ANNOTATION), annotations.get(IN_PLACE_HOOKS))
    return UpdateStrategy.of("InPlace" if is_in_place else None, "RollingUpdate" if falls_back else None)


def _refused(changes: Iterable[Classification]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(field for change in changes for field in change.refused))


def _control_plane(
    live: KubeadmControlPlane | None,
    wanted: KubeadmControlPlane,
    fleet: Fleet | None,
    classified: Classify,
    fallback: tuple[str, ...],
) -> Group:
    desired = machine_change.of_control_plane(wanted)
    replicas = contract.desired_replicas(wanted)
    rollout = wanted.spec.rollout
    rolling = rollout.strategy.rolling_update if rollout and rollout.strategy else None
    surge = 1 if rolling is None or rolling.max_surge is None else int(rolling.max_surge)
    if live is None:
        return Group("", 0, coming=replicas)
    update_strategy = _update_strategy(wanted.metadata, IN_PLACE_CONTROL_PLANE)
    if fleet is None:
        change, seen = classified(machine_change.of_control_plane(live), desired, update_strategy), []
        staying = [f"#{number}" for number in range(live.status.replicas or 0)]
        changes = dict.fromkeys(staying, change)
    else:
        seen = fleet.of_control_plane(wanted.metadata.name)
        changes = {machine.name: classified(machine.parts, desired, update_strategy) for machine in seen}
        order = {machine.name: removal.control_plane_order(machine.machine) for machine in seen}
        staying = sorted(changes, key=lambda name: order[name])
    outdated = {name: change.fields for name, change in changes.items() if change.is_outdated}
    metadata = next((change.fields for change in changes.values() if change.effect is MachineEffect.METADATA), ())
    refused = _refused(changes.values())
    if refused and update_strategy is UpdateStrategy.IN_PLACE:
        return Group("", len(staying), in_place=metadata, refused=refused)
    if outdated and not refused and (blocked := _blocked(seen, wanted.metadata, IN_PLACE_CONTROL_PLANE)):
        return Group("", len(staying), in_place=metadata, blocked=blocked)
    is_in_place = update_strategy is not UpdateStrategy.ROLLING and not refused
    upgraded = tuple(RemovedMachine(name, why) for name, why in outdated.items()) if is_in_place else ()
    going, coming = _replaced_in_order(staying, {} if upgraded else outdated, replicas, surge)
    if fleet is None:
        going = [RemovedMachine("", machine.why) for machine in going]
        upgraded = tuple(RemovedMachine("", machine.why) for machine in upgraded)
    return Group(
        "",
        len(staying),
        tuple(going),
        coming,
        in_place=metadata,
        upgraded=upgraded,
        fallback=(refused or fallback) if outdated else (),
    )


def _etcd(live: EtcdadmCluster | None, wanted: EtcdadmCluster, fleet: Fleet | None, classified: Classify) -> Group:
    """The moves of etcd: its controller adds one member, then removes the oldest outdated one, until all are up to
    date.
    """
    replicas = 1 if wanted.spec.replicas is None else wanted.spec.replicas
    if live is None:
        return Group(ETCD, 0, coming=replicas)
    desired, current = machine_change.of_etcd(wanted), machine_change.of_etcd(live)
    if fleet is None:
        change = classified(current, desired, UpdateStrategy.ROLLING)
        changes = {f"#{number}": change for number in range(live.status.replicas or 0)}
    else:
        seen = fleet.of_etcd(wanted.metadata.name)
        parts = {
            machine.name: machine_change.of_etcd_machine(live, machine.infrastructure_metadata) for machine in seen
        }
        changes = {
            name: classified(machine_parts, desired, UpdateStrategy.ROLLING) for name, machine_parts in parts.items()
        }
    outdated = {name: change.fields for name, change in changes.items() if change.is_outdated}
    going, coming = _replaced_in_order(list(changes), outdated, replicas, surge=1)
    if fleet is None:
        going = [RemovedMachine("", machine.why) for machine in going]
    return Group(ETCD, len(changes), tuple(going), coming)


def _replaced_in_order(
    staying: Sequence[str], outdated: Mapping[str, tuple[str, ...]], replicas: int, surge: int
) -> tuple[list[RemovedMachine], int]:
    """The moves of a control plane or of etcd, as controllers make them: one machine more or less at a time."""
    old = [name for name in staying if name in outdated]
    current: list[str] = [name for name in staying if name not in outdated]
    going: list[RemovedMachine] = []
    coming = 0
    while True:
        total = len(old) + len(current)
        if (old and total < replicas + surge) or (not old and total < replicas):
            coming += 1
            current.append("")
        elif old:
            name = old.pop(0)
            going.append(RemovedMachine(name, outdated[name]))
        elif total > replicas:
            going.append(RemovedMachine(current.pop(0), (SCALED_IN,)))
        else:
            return going, coming


def _removed(live: MachineDeployment, fleet: Fleet | None) -> Group:
    why = (GROUP_REMOVED,)
    if fleet is None:
        going = [RemovedMachine("", why)] * (live.status.replicas or 0)
    else:
        sets = fleet.sets_of(live.metadata.name)
        going = [RemovedMachine(machine.name, why) for owned in sets for machine in fleet.of_set(owned.metadata.name)]
    return Group(live.metadata.name, len(going), tuple(going))


def _deployment(
    live: MachineDeployment | None,
    wanted: MachineDeployment,
    fleet: Fleet | None,
    classified: Classify,
    fallback: tuple[str, ...],
) -> Group:
    name, replicas = wanted.metadata.name, contract.desired_replicas(wanted)
    if live is not None and wanted.spec.replicas is None:  # Cluster API keeps what its autoscaler could have chosen
        replicas = contract.within_autoscaler_limits(wanted, contract.desired_replicas(live))
    rolling = (
        wanted.spec.rollout.strategy.rolling_update if wanted.spec.rollout and wanted.spec.rollout.strategy else None
    )
    at_once = _at_once(rolling.max_surge if rolling else None, rolling.max_unavailable if rolling else None, replicas)
    if live is None:
        return Group(name, 0, coming=replicas, at_once=max(1, replicas))
    desired, update_strategy = (
        machine_change.of_machine_template(wanted.spec.template),
        _update_strategy(wanted.metadata, IN_PLACE_DEPLOYMENT),
    )
    sets: list[tuple[Classification, list[str]]]
    if fleet is None:
        change = classified(machine_change.of_machine_template(live.spec.template), desired, update_strategy)
        sets = [(change, [""] * (live.status.replicas or 0))]
    else:
        sets = [
            (
                classified(machine_change.of_machine_template(owned.spec.template), desired, update_strategy),
                [machine.name for machine in fleet.of_set(owned.metadata.name)],
            )
            for owned in fleet.sets_of(name)
        ]
    present = sum(len(names) for _, names in sets)
    refused = _refused(change for change, names in sets if names)
    if refused and update_strategy is UpdateStrategy.IN_PLACE:
        return Group(name, present, refused=refused)
    if update_strategy is not UpdateStrategy.ROLLING and not refused:
        is_due = any(change.is_outdated and names for change, names in sets)
        latest = fleet.of_set(fleet.sets_of(name)[-1].metadata.name) if fleet is not None and sets else []
        if is_due and (blocked := _blocked(latest, wanted.metadata, IN_PLACE_DEPLOYMENT)):
            return Group(name, present, blocked=blocked)
        done = {machine.name for machine in fleet.machines if _is_reached(machine, wanted)} if fleet is not None else ()
        machines = [
            RemovedMachine(machine, () if machine in done else change.fields) for change, of in sets for machine in of
        ]
        return _upgraded(name, replicas, machines)
    newest = next((index for index, (change, _) in enumerate(sets) if not change.is_outdated), None)
    staying = sets[newest][1] if newest is not None else []
    going = [RemovedMachine(machine, (SCALED_IN,)) for machine in staying[: max(0, len(staying) - replicas)]]
    for index, (change, names) in enumerate(sets):
        if index != newest:
            going += [RemovedMachine(machine, change.fields or ("an older template",)) for machine in names]
    coming = max(0, replicas - len(staying))
    in_place = sets[newest][0].fields if newest is not None and staying else ()
    rolls = len(going) > 0 and coming > 0
    because = (refused or fallback) if rolls else ()
    return Group(name, present, tuple(going), coming, at_once if rolls else max(1, coming), in_place, fallback=because)


def _blocked(machines: Iterable[MachineObjects], owner: ObjectMeta, annotation: str) -> tuple[str, ...]:
    """The messages of component `upgrades` about machines of an annotated owner before it changes any of them."""
    if annotation not in owner.annotations:
        return ()
    return tuple(filter(None, (machine.lost_config for machine in machines)))


def _is_reached(seen: MachineObjects, wanted: MachineDeployment) -> bool:
    """True if an in-place upgrade has recorded a machine as up to date before its set was updated.

    The node's state is unknown if the machine has no KubeadmConfig, or its upgrade was aborted.
    """
    template, machine = wanted.spec.template.spec, seen.machine
    bootstrap, config, infrastructure = template.bootstrap.config_ref, seen.config, seen.infrastructure
    if bootstrap is None or config is None or infrastructure is None or UNFINISHED in machine.metadata.annotations:
        return False
    cloned_from = [
        object_.metadata.annotations.get(machine_change.CLONED_FROM_NAME) for object_ in (infrastructure, config)
    ]
    return [machine.spec.version, *cloned_from] == [template.version, template.infrastructure_ref.name, bootstrap.name]


def _upgraded(name: str, replicas: int, machines: Sequence[RemovedMachine]) -> Group:
    """A group whose outdated machines are upgraded in place."""
    fewer = max(0, len(machines) - replicas)
    coming = max(0, replicas - len(machines))
    going = tuple(RemovedMachine(machine.name, (SCALED_IN,)) for machine in machines[:fewer])
    outdated = tuple(machine for machine in machines[fewer:] if machine.why)
    return Group(name, len(machines), going, coming, max(1, coming), upgraded=outdated)


def _at_once(surge: int | str | None, unavailable: int | str | None, replicas: int) -> int:
    """The number of machines of a deployment that a rollout changes at a time; by default 1."""
    return max(1, share(surge, replicas, default=1, round_up=True) + share(unavailable, replicas, default=0))


def _age(seen: MachineObjects) -> str:
    return seen.machine.metadata.creation_timestamp or ""


def _owner(metadata: ObjectMeta) -> tuple[str, str]:
    owner = next((reference for reference in metadata.owner_references if reference.controller), None)
    return (owner.kind, owner.name) if owner else ("", "")


def refused_in_place(groups: Sequence[Group], cluster: str) -> str:
    """The reasons why machines can't be upgraded in place as requested, or wait for somebody; empty when all can."""
    counts = [
        in_place_fields.sentence(group.refused, group.name or f"the control plane of {cluster}")
        for group in groups
        if group.refused
    ]
    if counts:
        return f"{Reason.IN_PLACE_UPGRADE_REFUSED}: {'; '.join(counts)}"
    blocked = [sentence for group in groups for sentence in group.blocked]
    return f"{Reason.IN_PLACE_UPGRADE_FAILED}: {'; '.join(blocked)}" if blocked else ""
