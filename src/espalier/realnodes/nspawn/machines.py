"""Machines of a provider whose machines are systemd-nspawn containers: observe, plan, act, report."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import structlog

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.machine import Machine, MachineAddress
from espalier.api.core import Secret
from espalier.api.eksa.vocabulary.upgrade_keys import IGNORED_CHECKS, KUBEADM_PATCHES
from espalier.api.meta import Condition
from espalier.api.moves import DELETE_FOR_MOVE
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.infrastructures.infrastructure import (
    InfrastructureMachine,
    InfrastructureMachineStatus,
    Initialization,
)
from espalier.clusterapi.machines.network import machine_addresses, network_of
from espalier.clusterapi.objects import cluster_key, is_cluster_paused, is_paused
from espalier.kube.objects import Object
from espalier.realnodes.nspawn import container, images, inside, owners
from espalier.realnodes.nspawn.bases import NodeBase, plain_version
from espalier.realnodes.nspawn.container import Running
from espalier.realnodes.nspawn.node_files import PATCHES, PREFLIGHT, Identity, NodeFile, node_files
from espalier.realnodes.nspawn.plan import Bootstrap, MachineStep, ObservedNode, next_step
from espalier.realnodes.nspawn.system import cgroups, limits, processes
from espalier.realnodes.nspawn.system.addresses import RangeFull
from espalier.realnodes.nspawn.system.commands import CommandFailed, run
from espalier.realnodes.nspawn.system.network import RangeInUse
from espalier.realnodes.nspawn.system.state import NodeRecord, node_id
from espalier.realnodes.nspawn.tools import NodeTools
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Outcome, Wait

START_PAUSE = 0.1
BOOT_CHECK_SECONDS = 30.0
"""Seconds after which a node that boots is observed again: `systemctl --wait` can miss the end of the boot."""
"""Seconds between checks for a starting process."""

FREE_BYTES = 2 * 1024**3
"""The free disk space that a new node needs."""

Enqueue = Callable[[Key], None]

_log = structlog.get_logger("espalier.nodes")


class InfrastructureMachines:
    """Reconciles the machine kind. `enqueue` adds a key after events on the machine."""

    def __init__(self, tools: NodeTools) -> None:
        self._tools = tools
        self.enqueue: Enqueue = lambda _key: None
        self._watches: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one machine."""
        tools = self._tools
        infra_machine = tools.infrastructure_machines.get(key)
        if infra_machine is None:
            for gone in self._own(key):
                cluster = await tools.current_cluster(gone.cluster_key)
                if owners.has_ended(cluster, is_alone=tools.is_alone()):
                    await self._take_away(gone)
            return Done()
        if self._is_paused(infra_machine):
            return Done()
        self._adopt(infra_machine)
        for other in self._own(key):
            if other.uid != infra_machine.metadata.uid:
                await self._take_away(other)
        resource = tools.kinds.machine
        if infra_machine.metadata.deletion_timestamp is not None:
            record = owners.of_object(tools.state.nodes(), infra_machine.metadata.uid)
            if record is not None:
                await self._take_away(record)
            await tools.writer.remove_finalizer(resource, infra_machine, tools.finalizer(resource))
            return Done()
        infra_machine = await tools.writer.add_finalizer(resource, infra_machine, tools.finalizer(resource))
        outcome = await self._advance(infra_machine)
        if isinstance(outcome, Wait | Fault):
            await self._report(infra_machine, condition("Ready", False, outcome.reason, outcome.message))
        return outcome

    def changed(self, old: Object | None, new: Object | None, _is_first: bool) -> None:
        """Let go of the node of a machine that was moved away, at once: later its object can't be asked any more."""
        if old is not None and owners.moved_away(old, new):
            record = owners.of_object(self._tools.state.nodes(), old.metadata.uid)
            if record is not None and record.owner == self._tools.owner:
                self._tools.state.write_node(msgspec.structs.replace(record, owner=owners.MOVED_AWAY))

    async def close(self) -> None:
        """Stop watching nodes; they keep running."""
        tasks = list(self._watches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_paused(self, infra_machine: Object) -> bool:
        cluster = self._tools.clusters.get(cluster_key(infra_machine))
        return (
            is_paused(infra_machine)
            or DELETE_FOR_MOVE in infra_machine.metadata.annotations
            or (cluster is not None and is_cluster_paused(cluster))
        )

    def _own(self, key: Key) -> list[NodeRecord]:
        """The nodes of this name that this management cluster acts on."""
        nodes = self._tools.state.nodes()
        return [record for record in nodes if record.key == key and record.owner == self._tools.owner]

    def _adopt(self, infra_machine: Object) -> None:
        """Take over the node of a machine that was moved here, and keep the record of one that is ours up to date."""
        tools, metadata = self._tools, infra_machine.metadata
        nodes, cluster = tools.state.nodes(), cluster_key(infra_machine)
        record = owners.of_object(nodes, metadata.uid)
        authority = tools.authority_of(cluster)
        if record is None and infra_machine.decode(InfrastructureMachine).spec.provider_id:
            moved = owners.moved_here(nodes, infra_machine.key, authority)
            if moved is not None:
                tools.state.write_node(owners.adopted(moved, tools.owner, metadata.uid))
                _log.info("a node was moved here", node=moved.name, id=moved.id)
        elif record is not None:
            completed = msgspec.structs.replace(
                record,
                authority=authority or record.authority,
                endpoint=record.endpoint or self._endpoint(cluster),
            )
            if completed != record:
                tools.state.write_node(completed)

    def _endpoint(self, cluster: Key) -> str:
        """The address of a cluster's control plane; empty while it has none."""
        object_ = self._tools.clusters.get(cluster)
        endpoint = object_.decode(Cluster).spec.control_plane_endpoint if object_ is not None else None
        return endpoint.host if endpoint is not None else ""

    async def _advance(self, infra_machine: Object) -> Outcome:
        """Run steps until one waits."""
        tools, uid = self._tools, infra_machine.metadata.uid
        while True:
            record = owners.of_object(tools.state.nodes(), uid)
            folder = tools.state.folder(record.id if record is not None else node_id(uid))
            running = container.find(folder)
            step = next_step(self._observed(infra_machine, record, running))
            try:
                outcome = await self._act(step, infra_machine, record, running)
            except (CommandFailed, OSError) as error:
                return Fault("NodeFailed", f"{step}: {error}")
            if not isinstance(outcome, Continue):
                return outcome

    def _observed(self, infra_machine: Object, record: NodeRecord | None, running: Running | None) -> ObservedNode:
        if record is None:
            return ObservedNode()
        folder = self._tools.state.folder(record.id)
        return ObservedNode(
            is_written_down=True,
            is_prepared=container.is_prepared(folder),
            is_supervised=container.supervisor_of(folder) is not None,
            has_processes=container.is_on(folder),
            has_started=running is not None,
            is_crashed=record.crashed,
            is_provisioned=infra_machine.decode(InfrastructureMachine).status.initialization.provisioned,
            bootstrap=inside.bootstrap(running) if running else Bootstrap.RUNNING,
        )

    async def _act(
        self, step: MachineStep, infra_machine: Object, record: NodeRecord | None, running: Running | None
    ) -> Outcome:
        tools = self._tools
        folder = tools.state.folder(record.id if record is not None else node_id(infra_machine.metadata.uid))
        match step, record, running:
            case MachineStep.WRITE_DOWN, _, _:
                return self._write_down(infra_machine)
            case MachineStep.PREPARE, NodeRecord() as node, _:
                return await self._prepare(infra_machine, node)
            case MachineStep.SWITCH_ON, NodeRecord() as node, _:
                await tools.host.bridge.ensure()
                await container.switch_on(
                    folder, hostname=node.name, uid=node.instance_id, bridge=tools.host.bridge.name
                )
                return Continue()
            case MachineStep.CLEAR, _, _:
                await cgroups.end_all(folder.id)
                return Continue()
            case MachineStep.STAY_OFF, _, _:
                return Wait("NodeStopped", "the node was stopped to simulate a failure, and stays off")
            case MachineStep.AWAIT_START, _, _:
                return Wait("Booting", "the node is booting", after=START_PAUSE)
            case MachineStep.AWAIT_BOOTSTRAP, _, Running() as on:
                self._watch(infra_machine.key, folder.id, "boot", _booted(on))
                self._watch(infra_machine.key, folder.id, "life", processes.ended(on.supervisor))
                return Wait("Bootstrapping", "the node is running its bootstrap data")
            case MachineStep.SAY_FAILED, _, _:
                output = inside.last_lines(folder)
                message = "the bootstrap data failed" + (f"; their last lines:\n{output}" if output else "")
                return Fault("BootstrapFailed", message, terminal=True)
            case MachineStep.PROVISION, NodeRecord() as node, Running() as on:
                self._watch(infra_machine.key, folder.id, "life", processes.ended(on.supervisor))
                return await self._provision(infra_machine, node)
        raise AssertionError(f"step {step} needs an existing node")

    def _write_down(self, infra_machine: Object) -> Outcome:
        """Allocate the node's id and address, once its bootstrap data exist."""
        tools = self._tools
        owner = tools.owner_of(infra_machine, Machine.resource.kind, tools.machines)
        if owner is None:
            return Wait("WaitingForOwner", "waiting for the Machine to own this infrastructure")
        if infra_machine.decode(InfrastructureMachine).spec.provider_id:
            message = "the node of this machine is not on this host, or not that of its cluster: delete the Machine"
            return Wait("NodeMissing", message, after=5.0)
        machine = owner.decode(Machine)
        if self._bootstrap_data(infra_machine.namespace, machine) is None:
            return Wait("WaitingForBootstrapData", "waiting for the bootstrap data of the machine")
        metadata = infra_machine.metadata
        try:
            version = plain_version(machine.spec.version or "")
            base = tools.bases.find(version)
            address = tools.host.bridge.range.free(tools.state.taken())
        except RangeFull as error:
            return Wait("NoAddress", str(error), after=30.0)
        except Exception as error:  # what finds bases has an exception of its own
            return Wait("BaseMissing", str(error), after=30.0)
        if missing := images.lacking(version, base.images, tools.asked_images):
            message = f"the base for nodes of Kubernetes {version} lacks images of {', '.join(missing)}"
            return Wait("ImageMissing", f"{message}: run `espalier assets build node-base-{version}`", after=30.0)
        free = shutil.disk_usage(tools.state.root.parent).free
        if free < FREE_BYTES:
            message = f"{tools.state.root} has {free / 1024**3:.1f} GiB left; a node needs {FREE_BYTES / 1024**3:.0f}"
            return Wait("DiskFull", message, after=30.0)
        record = NodeRecord(
            id=node_id(metadata.uid),
            name=infra_machine.name,
            namespace=infra_machine.namespace,
            uid=metadata.uid,
            cluster=machine.spec.cluster_name,
            address=str(address),
            version=version,
            control_plane=names.CONTROL_PLANE in metadata.labels,
            owner=tools.owner,
            authority=tools.authority_of(cluster_key(infra_machine)),
            endpoint=self._endpoint(cluster_key(infra_machine)),
        )
        if problem := limits.shortage([*tools.state.nodes(), record], limits.allowed_watchers()):
            return Wait("HostLimit", problem, after=30.0)
        tools.state.write_node(record)
        return Continue()

    async def _prepare(self, infra_machine: Object, record: NodeRecord) -> Outcome:
        tools = self._tools
        owner = tools.owner_of(infra_machine, Machine.resource.kind, tools.machines)
        cluster = tools.clusters.get(record.cluster_key)
        if owner is None or cluster is None:
            return Wait("WaitingForOwner", "waiting for the Machine and its Cluster")
        machine = owner.decode(Machine)
        data = self._bootstrap_data(infra_machine.namespace, machine)
        if data is None:
            return Wait("WaitingForBootstrapData", "waiting for the bootstrap data of the machine")
        base = tools.bases.find(record.version)
        try:
            await tools.host.bridge.ensure()
        except RangeInUse as error:
            return Wait("AddressesInUse", str(error), after=30.0)
        folder = tools.state.folder(record.id)
        await container.prepare(folder, base, self._files(record, cluster, base, data))
        return Continue()

    def _files(self, record: NodeRecord, cluster: Object, base: NodeBase, bootstrap: bytes) -> dict[str, NodeFile]:
        tools = self._tools
        further = images.further_names(base.version, base.images, tools.asked_images)
        identity = Identity(
            name=record.name,
            address=record.address,
            prefix_length=tools.host.bridge.range.network.prefixlen,
            gateway=str(tools.host.bridge.range.bridge),
            provider_id=self._provider_id(record),
            instance_id=record.instance_id,
        )
        pods = network_of(cluster.decode(Cluster)).pods
        return node_files(identity, bootstrap=bootstrap, pods=pods, image_names=further)

    async def _provision(self, infra_machine: Object, record: NodeRecord) -> Outcome:
        provider_id = self._provider_id(record)
        annotations = {IGNORED_CHECKS: ",".join(PREFLIGHT)}
        if (self._tools.state.folder(record.id).root / PATCHES.lstrip("/")).is_dir():
            annotations[KUBEADM_PATCHES] = PATCHES
        wanted = {"metadata": {"annotations": annotations}, "spec": {"providerID": provider_id}}
        infra_machine = await self._tools.writer.merge(self._tools.kinds.machine, infra_machine, wanted)
        pods = inside.pod_range(self._tools.state.folder(record.id))
        message = f"its pod CIDR is {pods}" if pods else ""
        await self._report(infra_machine, condition("Ready", True, "Ready", message), record)
        return Done()

    def _provider_id(self, record: NodeRecord) -> str:
        return self._tools.kinds.provider_id.format(cluster=record.cluster, name=record.name)

    def _bootstrap_data(self, namespace: str, machine: Machine) -> bytes | None:
        name = machine.spec.bootstrap.data_secret_name
        secret = self._tools.secrets.get(Key(namespace, name)) if name else None
        return secret.decode(Secret).data.get("value") if secret else None

    async def _take_away(self, record: NodeRecord) -> None:
        for (id_, _), task in list(self._watches.items()):
            if id_ == record.id:
                task.cancel()
        await container.take_away(self._tools.state.folder(record.id))
        await asyncio.to_thread(self._tools.state.forget_node, record.id)

    async def _report(self, infra_machine: Object, ready: Condition, record: NodeRecord | None = None) -> None:
        """`record` for an existing node; what was provisioned stays."""
        typed = infra_machine.decode(InfrastructureMachine)
        before = typed.status
        conditions = stated(
            before.conditions, [ready], now=self._tools.clock.now(), generation=typed.metadata.generation
        )
        addresses = before.addresses
        if record is not None:
            addresses = msgspec.convert(machine_addresses(record.name, record.address), list[MachineAddress])
        owner = self._tools.owner_of(infra_machine, Machine.resource.kind, self._tools.machines)
        status = InfrastructureMachineStatus(
            initialization=Initialization(provisioned=before.initialization.provisioned or record is not None),
            addresses=addresses,
            failure_domain=owner.decode(Machine).spec.failure_domain if owner else before.failure_domain,
            conditions=conditions,
        )
        await self._tools.writer.status(self._tools.kinds.machine, infra_machine, status)

    def _watch(self, key: Key, id_: str, purpose: str, waiting: Coroutine[Any, Any, None]) -> None:
        """Enqueue the machine when `waiting` returns; one watch of a kind for each node."""
        if (id_, purpose) in self._watches:
            waiting.close()
            return

        def over(task: asyncio.Task[None]) -> None:
            del self._watches[id_, purpose]
            if not task.cancelled():
                if error := task.exception():
                    _log.warning("watching a node failed", node=key.name, error=str(error))
                self.enqueue(key)

        task = asyncio.get_running_loop().create_task(waiting, name=f"{purpose} of {key}")
        self._watches[id_, purpose] = task
        task.add_done_callback(over)


async def _booted(running: Running) -> None:
    """Return when the node has booted, which includes its bootstrap data, or has ended; or to observe it again."""
    while running.init.alive:
        try:
            command = container.inside(running, "systemctl", "is-system-running", "--wait")
            await run(*command, seconds=BOOT_CHECK_SECONDS)
            return
        except CommandFailed as error:
            if error.timed_out or error.output.strip() in ("degraded", "maintenance", "stopping"):
                return
        await asyncio.sleep(START_PAUSE)  # the node's service manager does not answer yet
