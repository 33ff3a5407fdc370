"""Plans the next actions of the machine controller manager from the present objects. Pure, except for random names."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from espalier.api.cloud import VirtualMachine
from espalier.api.gardener.machines import FINALIZER, Machine, MachineClass, MachineDeployment, MachineSet
from espalier.api.meta import SUFFIX_LETTERS, Tree
from espalier.clusterapi.machines.intstr import share
from espalier.kube.objects import Object
from espalier.shoots.local_provider import machine_objects as objects

PENDING, RUNNING, FAILED, TERMINATING = "Pending", "Running", "Failed", "Terminating"


@dataclass(frozen=True)
class MachineView:
    """A Machine, and its virtual machine."""

    object: Object
    machine: Machine
    virtual: VirtualMachine | None

    @property
    def owner(self) -> str:
        """UID of its set."""
        return next((reference.uid for reference in self.object.metadata.owner_references if reference.controller), "")

    @property
    def is_deleted(self) -> bool:
        """True once it is being deleted."""
        return self.object.metadata.deletion_timestamp is not None

    @property
    def phase(self) -> str:
        """Its phase."""
        if self.is_deleted:
            return TERMINATING
        if self.virtual is None:
            return FAILED if self.machine.spec.provider_id else PENDING
        return RUNNING if self.virtual.state == "Running" else PENDING


@dataclass(frozen=True)
class SetView:
    """A MachineSet, and its machines that are not being deleted."""

    object: Object
    set: MachineSet
    machines: tuple[MachineView, ...]

    @property
    def available(self) -> int:
        """The number of machines that run and will stay: surplus ones are about to be deleted."""
        running = sum(1 for machine in self.machines if machine.phase == RUNNING)
        return min(running, self.set.spec.replicas)


@dataclass(frozen=True)
class Snapshot:
    """All objects of a shoot's machines, and its virtual machines, as observed at the same time."""

    deployments: Sequence[Object]
    sets: Sequence[Object]
    machines: Sequence[Object]
    virtual: Sequence[VirtualMachine]
    views: tuple[MachineView, ...] = field(init=False)

    def __post_init__(self) -> None:
        by_id = {objects.provider_id(item): item for item in self.virtual}
        by_tag = {item.tags.get(objects.MACHINE_TAG, ""): item for item in self.virtual}
        views = []
        for object_ in self.machines:
            machine = object_.decode(Machine)
            id_ = machine.spec.provider_id
            virtual = by_id.get(id_) if id_ else by_tag.get(object_.name)
            views.append(MachineView(object_, machine, virtual))
        object.__setattr__(self, "views", tuple(views))

    def set_views(self) -> list[SetView]:
        """The sets that are not being deleted."""
        return [
            SetView(object_, object_.decode(MachineSet), self._of(object_))
            for object_ in self.sets
            if object_.metadata.deletion_timestamp is None
        ]

    def _of(self, owner: Object) -> tuple[MachineView, ...]:
        return tuple(view for view in self.views if view.owner == owner.metadata.uid and not view.is_deleted)

    @property
    def orphans(self) -> list[VirtualMachine]:
        """Virtual machines of the shoot without a Machine."""
        names = {machine.name for machine in self.machines}
        ids = {view.machine.spec.provider_id for view in self.views}
        return [
            machine
            for machine in self.virtual
            if objects.provider_id(machine) not in ids and machine.tags.get(objects.MACHINE_TAG, "") not in names
        ]


@dataclass(frozen=True)
class CreateObject:
    """Create a set or a Machine."""

    resource: Any
    body: Tree


@dataclass(frozen=True)
class Resize:
    """Change the replicas of a set."""

    set: Object
    replicas: int


@dataclass(frozen=True)
class DeleteObject:
    """Delete a Machine or a set."""

    resource: Any
    object: Object


@dataclass(frozen=True)
class WriteStatus:
    """Write a status."""

    resource: Any
    object: Object
    status: Tree


@dataclass(frozen=True)
class Provide:
    """Provide the virtual machine of a Machine: adopt it by its tag, or create it."""

    machine: MachineView


@dataclass(frozen=True)
class Terminate:
    """Delete the virtual machine of a Machine, then remove the Machine's finalizer."""

    machine: MachineView


Action: TypeAlias = CreateObject | Resize | DeleteObject | WriteStatus | Provide | Terminate


def plan(snapshot: Snapshot, rng: random.Random) -> Iterator[Action]:
    """The actions that are due: of deployments first, then sets, then machines."""
    sets = snapshot.set_views()
    for object_ in snapshot.deployments:
        if object_.metadata.deletion_timestamp is None:
            owned = [view for view in sets if _is_of(view.object, object_)]
            yield from _deployment(object_, object_.decode(MachineDeployment), owned)
    for set_view in sets:
        yield from _set(set_view, rng)
    for view in snapshot.views:
        yield from _machine(view)


def _deployment(object_: Object, deployment: MachineDeployment, sets: Sequence[SetView]) -> Iterator[Action]:
    spec = deployment.spec
    wanted_class = spec.template.spec.class_.name
    new = next((view for view in sets if view.set.spec.template.spec.class_.name == wanted_class), None)
    old = [view for view in sets if view is not new]
    if not spec.paused:
        if new is None:
            yield CreateObject(MachineSet.resource, _set_tree(object_, wanted_class, 0 if old else spec.replicas))
        else:
            yield from _roll(deployment, new, old)
    all_sets = [*old, *([new] if new else [])]
    replicas = sum(len(view.machines) for view in all_sets)
    available = sum(view.available for view in all_sets)
    status: Tree = {
        "observedGeneration": object_.metadata.generation,
        "replicas": replicas,
        "updatedReplicas": len(new.machines) if new else 0,
        "readyReplicas": available,
        "availableReplicas": available,
        "unavailableReplicas": max(0, spec.replicas - available),
    }
    yield WriteStatus(MachineDeployment.resource, object_, status)


def _roll(deployment: MachineDeployment, new: SetView, old: Sequence[SetView]) -> Iterator[Action]:
    """Scale the new set up within the surge, and old sets down as machines become available."""
    replicas = deployment.spec.replicas
    rolling = deployment.spec.strategy.rolling_update if deployment.spec.strategy else None
    surge = share(rolling.max_surge if rolling else None, replicas, default="1", round_up=True)
    missing = share(rolling.max_unavailable if rolling else None, replicas, default="0")
    of_old = sum(view.set.spec.replicas for view in old)
    room = replicas + max(surge, 0 if missing else 1) - of_old
    grown = replicas if not of_old else min(replicas, max(new.set.spec.replicas, room))
    if new.set.spec.replicas != grown:
        yield Resize(new.object, grown)
    removable = max(0, sum(view.available for view in (*old, new)) - (replicas - missing))
    for view in old:
        unavailable = view.set.spec.replicas - view.available
        take = min(view.set.spec.replicas, unavailable + removable)
        removable -= take - unavailable
        if take:
            yield Resize(view.object, view.set.spec.replicas - take)
        elif not view.set.spec.replicas and not view.machines:
            yield DeleteObject(MachineSet.resource, view.object)


def _set(view: SetView, rng: random.Random) -> Iterator[Action]:
    for machine in view.machines:
        if machine.phase == FAILED:
            yield DeleteObject(Machine.resource, machine.object)
    alive = [machine for machine in view.machines if machine.phase != FAILED]
    for _ in range(view.set.spec.replicas - len(alive)):
        yield CreateObject(Machine.resource, _machine_tree(view, rng))
    surplus = len(alive) - view.set.spec.replicas
    if surplus > 0:
        order = sorted(alive, key=lambda machine: machine.object.metadata.creation_timestamp or "", reverse=True)
        for machine in sorted(order, key=lambda machine: machine.phase == RUNNING)[:surplus]:
            yield DeleteObject(Machine.resource, machine.object)
    status: Tree = {
        "observedGeneration": view.object.metadata.generation,
        "replicas": len(view.machines),
        "fullyLabeledReplicas": len(view.machines),
        "readyReplicas": view.available,
        "availableReplicas": view.available,
    }
    yield WriteStatus(MachineSet.resource, view.object, status)


def _machine(view: MachineView) -> Iterator[Action]:
    if view.is_deleted:
        if FINALIZER in view.object.metadata.finalizers:
            yield Terminate(view)
        return
    is_known = view.machine.spec.provider_id and FINALIZER in view.object.metadata.finalizers
    if not is_known:
        yield Provide(view)
    current = view.machine.status.current_status
    if current is None or current.phase != view.phase:
        yield WriteStatus(Machine.resource, view.object, {"currentStatus": {"phase": view.phase}})


def _is_of(object_: Object, owner: Object) -> bool:
    return any(
        reference.uid == owner.metadata.uid and reference.controller for reference in object_.metadata.owner_references
    )


def _set_tree(deployment: Object, class_: str, replicas: int) -> Tree:
    tree = deployment.tree["spec"]
    template = tree["template"]
    labels = (template.get("metadata") or {}).get("labels", {})
    return {
        "apiVersion": MachineSet.resource.api_version,
        "kind": MachineSet.resource.kind,
        "metadata": {
            "name": f"{deployment.name}-{class_.rpartition('-')[2]}",
            "namespace": deployment.namespace,
            "labels": labels,
            "ownerReferences": [objects.controlled_by(deployment)],
        },
        "spec": {"replicas": replicas, "selector": tree.get("selector", {}), "template": template},
    }


def _machine_tree(view: SetView, rng: random.Random) -> Tree:
    template = view.object.tree["spec"]["template"]
    suffix = "".join(rng.choice(SUFFIX_LETTERS) for _ in range(5))
    return {
        "apiVersion": Machine.resource.api_version,
        "kind": Machine.resource.kind,
        "metadata": {
            "name": f"{view.object.name}-{suffix}",
            "namespace": view.object.namespace,
            "labels": (template.get("metadata") or {}).get("labels", {}),
            "finalizers": [FINALIZER],
            "ownerReferences": [objects.controlled_by(view.object)],
        },
        "spec": template["spec"],
    }


def class_of(view: MachineView, classes: Sequence[Object]) -> Object | None:
    """The MachineClass of a Machine."""
    name = view.machine.spec.class_.name
    return next(
        (class_ for class_ in classes if class_.name == name and class_.kind == MachineClass.resource.kind), None
    )
