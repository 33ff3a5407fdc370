"""The machine controller manager of one shoot or of all shoots of a seed: carries out the plan, within the lease."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

import structlog

from espalier.api.cloud import CallCloud, VirtualMachine
from espalier.api.core import NAMESPACE, NODE, SECRET, Secret
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.machines import FINALIZER, Machine, MachineClass, MachineDeployment, MachineSet
from espalier.api.gardener.responsibility import is_deleted_unconfirmed
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.gardener.vocabulary.reasons import MachineReason
from espalier.api.meta import Observed
from espalier.api.resource import Key
from espalier.api.trees import json_trees
from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime.component import Host
from espalier.runtime.concurrency import together
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.runtime.controllers.reconciler import replanned
from espalier.runtime.controllers.writer import Writer, found_by_owner
from espalier.runtime.leadership.fencing import fenced
from espalier.shoots.extension import Leases, OperationFailed, Stopped, operation_of
from espalier.shoots.extension.guard import Guard, GuardFence, Verdict
from espalier.shoots.extension.views import ExtensionObject
from espalier.shoots.local_provider import machine_objects as objects
from espalier.shoots.local_provider.cloud import Cloud, credentials_of
from espalier.shoots.local_provider.worker import MachineViews
from espalier.shoots.machine_controller.bootstrap_tokens import BootstrapTokens
from espalier.shoots.machine_controller.plan import (
    PENDING,
    Action,
    CreateObject,
    DeleteObject,
    MachineView,
    Provide,
    Resize,
    Snapshot,
    Terminate,
    WriteStatus,
    class_of,
    plan,
)

NAME = "machine-controller-manager"
BOOT_POLL_INTERVAL = 5.0
"""Seconds between two checks of virtual machines that boot."""
ORPHAN_PERIOD = 1800.0
"""Seconds between two searches for virtual machines without a Machine."""
ORPHAN_GRACE = 300.0
"""Seconds for which a virtual machine must have no Machine before it is deleted."""
NODE_TIMEOUT = 5.0
"""Seconds for the deletion of a node in the shoot."""
CONCURRENT_CALLS = 10
"""The number of concurrent calls to the cloud."""

_log = structlog.get_logger("espalier.machines")


class _ProviderSpec(Observed, frozen=True):
    size: str = "default"
    image: str = "default"
    network: str = ""


class MachineController:
    """Reconciles the machines of a shoot. Keys are its namespace: `Key("", namespace)`."""

    def __init__(
        self,
        host: Host,
        call: CallCloud,
        views: MachineViews,
        leases: Leases,
        timing: Timing,
        tokens: BootstrapTokens | None = None,
        shoot: Client | None = None,
    ) -> None:
        self._call = call
        self._views = views
        self._leases = leases
        self._timing = timing
        self._tokens = tokens
        self._shoot = shoot
        self._clock = host.manager.clock
        self._rng = host.manager.rng
        self._workers = host.caches.of(Worker.resource)
        self._writer = Writer(host.client, views.caches)
        self._orphans: dict[str, dict[str, float]] = {}
        """When each virtual machine without a Machine was first seen, by shoot and id. After a restart it is counted
        again: one is deleted later, never earlier."""
        self.controller = Controller(NAME, replanned(self.reconcile), rng=self._rng)
        for cache in (self._workers, *views.caches.values()):
            self.controller.watch(cache, _namespace)
        self._paused: set[str] = set()
        """Shoots whose lease was expired when last checked: other renewals do not count. After a restart, all are
        checked."""
        self.controller.watch(leases.clusters, self._paused_shoot)

    async def reconcile(self, key: Key) -> Outcome:
        """Carry out the actions that are due for one shoot's machines."""
        namespace = key.name
        if (wait := self._hold(namespace)) is not None:
            self._orphans.pop(namespace, None)
            self._paused.add(namespace)
            return wait
        self._paused.discard(namespace)
        classes = self._views.caches[MachineClass.resource].list(namespace)
        if not classes:
            return Done()
        guard = Guard(lambda: self._verdict(namespace), self._clock, self._timing.longest_reconcile)
        try:
            return await guard.run(self._act(namespace, classes, guard))
        except Stopped as stopped:
            self._paused.add(namespace)
            return stopped.wait
        except OperationFailed as error:
            return Fault(error.reason, str(error))

    def _paused_shoot(self, cluster: Object) -> Iterable[Key]:
        return (Key("", cluster.name),) if cluster.name in self._paused else ()

    def _hold(self, namespace: str) -> Wait | None:
        """The reason for leaving machines alone: their objects are being restored, or the lease has expired; None if
        there is none."""
        workers = self._workers.list(namespace)
        if not workers:
            return Wait(
                MachineReason.WORKER_MISSING, f"there is no Worker in {namespace}: its machines are left unchanged"
            )
        for worker in workers:
            extension = worker.decode(ExtensionObject)
            last = extension.status.last_operation
            due = operation_of(worker.metadata, last)
            is_moving = due in (OperationType.MIGRATE, OperationType.RESTORE)
            is_released = is_deleted_unconfirmed(worker.metadata)
            if last is None or is_moving or is_released or (last.type == OperationType.MIGRATE and last.finished):
                return Wait(
                    MachineReason.WORKER_OPERATION_IN_PROGRESS,
                    f"Worker {worker.key} is being created, restored, migrated, or deleted without confirmation: its "
                    "machines are left unchanged",
                )
        lease = self._leases.of(namespace)
        return None if lease.is_valid else Wait(lease.reason, lease.message)

    def _verdict(self, namespace: str) -> Verdict:
        wait = self._hold(namespace)
        return Verdict(0, wait.reason, wait.message) if wait else Verdict(self._leases.of(namespace).seconds)

    async def _act(self, namespace: str, classes: Sequence[Object], guard: Guard) -> Outcome:
        cloud = await self._cloud(namespace, classes[0], guard)
        writer = self._writer.with_client(fenced(self._writer.client, GuardFence(guard)))
        virtual_machines = await cloud.machines()
        present = self._views.of(namespace)
        snapshot = Snapshot(
            present[MachineDeployment.resource],
            present[MachineSet.resource],
            present[Machine.resource],
            virtual_machines,
        )
        actions = list(plan(snapshot, self._rng))
        if any(isinstance(due, Terminate) for due in actions) and await self._is_terminating(namespace):
            message = f"namespace {namespace} is being deleted, and nobody has confirmed the deletion of machines"
            return Wait(MachineReason.NAMESPACE_DELETING, f"{message}: they are left unchanged")
        calls: list[Provide | Terminate] = []
        for action in actions:
            if isinstance(action, Provide | Terminate):
                calls.append(action)
            else:
                await _write(writer, action)
        limit = asyncio.Semaphore(CONCURRENT_CALLS)

        async def limited(action: Provide | Terminate) -> None:
            async with limit:
                await self._provide(action, cloud, writer, classes)

        await together(limited(action) for action in calls)
        orphans = await self._collect(namespace, snapshot.orphans, cloud, writer)
        if any(view.phase == PENDING for view in snapshot.views):
            return Wait(
                MachineReason.MACHINES_STARTING, "waiting for virtual machines to run", after=BOOT_POLL_INTERVAL
            )
        return Wait(
            MachineReason.ORPHAN_CHECK_SCHEDULED, "nothing to do", after=ORPHAN_GRACE if orphans else ORPHAN_PERIOD
        )

    async def _is_terminating(self, namespace: str) -> bool:
        """True if the namespace of a shoot is being deleted. Read live, after the snapshot: before the contents of a
        namespace are deleted, the namespace itself shows that they will be."""
        live = await self._writer.read(NAMESPACE, Key("", namespace))
        return live is not None and live.metadata.deletion_timestamp is not None

    async def _cloud(self, namespace: str, class_: Object, guard: Guard) -> Cloud:
        reference = class_.decode(MachineClass).credentials_secret_ref
        name = reference.name if reference else ""
        secret = await self._writer.read(SECRET, Key(namespace, name)) if name else None
        return Cloud(guard, self._call, credentials_of(secret, f"{namespace}/{name}"), namespace, NAME)

    async def _provide(
        self, action: Provide | Terminate, cloud: Cloud, writer: Writer, classes: Sequence[Object]
    ) -> None:
        view = action.machine
        if isinstance(action, Terminate):
            if view.virtual is not None:
                await cloud.delete(view.virtual)
            await self._delete_node(view.object.metadata.labels.get(objects.NODE_LABEL))
            await writer.remove_finalizer(Machine.resource, view.object, FINALIZER)
            return
        machine = await writer.add_finalizer(Machine.resource, view.object, FINALIZER)
        if view.machine.spec.provider_id:
            return
        virtual = view.virtual or await self._create(view, cloud, classes)
        metadata = {"labels": {objects.NODE_LABEL: virtual.name}}
        wanted = {"spec": {"providerID": objects.provider_id(virtual)}, "metadata": metadata}
        await writer.merge(Machine.resource, machine, wanted)

    async def _delete_node(self, name: str | None) -> None:
        """Delete the node of a machine that is gone, as nobody else does. One that stays because the shoot does not
        answer holds up no machine."""
        if self._shoot is None or not name:
            return
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(NODE_TIMEOUT):
                await self._shoot.delete(NODE, name)

    async def _create(self, view: MachineView, cloud: Cloud, classes: Sequence[Object]) -> VirtualMachine:
        class_ = class_of(view, classes)
        if class_ is None:
            raise OperationFailed(
                f"Machine {view.object.key}: its class {view.machine.spec.class_.name} does not exist"
            )
        typed = class_.decode(MachineClass)
        spec = json_trees.decode(typed.provider_spec or b"{}", _ProviderSpec)
        reference = typed.secret_ref
        secret = await self._writer.read(SECRET, Key(class_.namespace, reference.name)) if reference else None
        user_data = secret.decode(Secret).data.get(objects.USER_DATA) if secret else None
        if user_data is None:
            raise OperationFailed(f"MachineClass {class_.key}: found no user data in its Secret")
        if self._tokens is not None:
            user_data = await self._tokens.inject(user_data, view.object.name)
        owner_name = next((owner.name for owner in view.object.metadata.owner_references if owner.controller), "")
        machine_set = self._views.get(MachineSet.resource, view.object.namespace, owner_name)
        deployment = (
            next((owner.name for owner in machine_set.metadata.owner_references if owner.controller), "")
            if machine_set
            else ""
        )
        tags = {
            objects.MACHINE_TAG: view.object.name,
            objects.SET_TAG: owner_name,
            objects.DEPLOYMENT_TAG: deployment,
            **cloud.tags,
        }
        wanted = VirtualMachine(
            name=view.object.name,
            network=spec.network,
            size=spec.size,
            image=spec.image,
            user_data=user_data,
            tags=tags,
        )
        return await cloud.create(wanted)

    async def _collect(
        self, namespace: str, orphans: Sequence[VirtualMachine], cloud: Cloud, writer: Writer
    ) -> dict[str, float]:
        """Delete virtual machines that have had no Machine for a while; checked live before each."""
        now = self._clock.monotonic()
        before = self._orphans.get(namespace, {})
        first_seen = self._orphans[namespace] = {orphan.id: before.get(orphan.id, now) for orphan in orphans}
        for virtual in orphans:
            if now - first_seen[virtual.id] < ORPHAN_GRACE:
                continue
            name = virtual.tags.get(objects.MACHINE_TAG, virtual.name)
            if await writer.read(Machine.resource, Key(namespace, name)) is None:
                _log.warning("deleting an orphaned virtual machine", shoot=namespace, machine=virtual.name)
                await cloud.delete(virtual)
            first_seen.pop(virtual.id)
        return first_seen


async def _write(writer: Writer, action: Action) -> None:
    match action:
        case CreateObject(resource, body):
            await writer.create(resource, body)
        case Resize(object_, replicas):
            await writer.merge(MachineSet.resource, object_, {"spec": {"replicas": replicas}})
        case DeleteObject(resource, object_):
            await writer.delete(resource, object_, found_by_owner)
        case WriteStatus(resource, object_, status):
            present = object_.tree.get("status", {})
            await writer.status(resource, object_, {**present, **status})
        case Provide() | Terminate():
            raise TypeError("that is a call to the cloud")


def _namespace(object_: Object) -> Iterable[Key]:
    return (Key("", object_.namespace),)
