"""Worker: pools become MachineDeployments, and move between seeds with all their machines.

The machine controller manager acts on these objects. It is paused while a Worker is being restored or migrated, so
machines may be created in any order here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from espalier.api.cloud import CallCloud, VirtualMachine
from espalier.api.core import SECRET, Secret
from espalier.api.gardener import machines as kinds
from espalier.api.gardener.extensions.worker import Worker, WorkerPool, WorkerSpec
from espalier.api.gardener.machines import Machine, MachineClass, MachineDeployment, MachineSet
from espalier.api.gardener.vocabulary.metadata_keys import OPERATION, RECONCILE
from espalier.api.gardener.vocabulary.operations import ErrorCode
from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.api.meta import Observed, Tree
from espalier.api.resource import Key, Resource
from espalier.api.text.listing import first
from espalier.api.trees import json_trees
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer, found_by_owner
from espalier.shoots.extension import Dependents, Extension, OperationFailed, Request, Result, SavedState, StateInvalid
from espalier.shoots.extension.dependents import DIGEST, has_digest
from espalier.shoots.local_provider import machine_objects as objects
from espalier.shoots.local_provider.cloud import TYPE, cloud_of
from espalier.shoots.local_provider.machine_objects import KINDS, Saved, WorkerState
from espalier.shoots.local_provider.seed_objects import replacing


class _Hibernation(Observed, frozen=True):
    enabled: bool = False


class _ShootSpec(Observed, frozen=True):
    hibernation: _Hibernation = _Hibernation()


class _Shoot(Observed, frozen=True):
    spec: _ShootSpec = _ShootSpec()


class _ClusterSpec(Observed, frozen=True):
    shoot: _Shoot = _Shoot()


class _Cluster(Observed, frozen=True):
    spec: _ClusterSpec = _ClusterSpec()


class MachineViews:
    """The objects of the machine controller manager in a seed."""

    def __init__(self, caches: Caches) -> None:
        self.caches: dict[Resource, Cache] = {resource: caches.of(resource) for resource in KINDS}

    def of(self, namespace: str) -> dict[Resource, list[Object]]:
        """The objects of a shoot."""
        return {resource: cache.list(namespace) for resource, cache in self.caches.items()}

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """One of the objects."""
        return self.caches[resource].get(Key(namespace, name))


class WorkerActuator:
    """Renders pools, and recreates the objects of existing machines after a move."""

    def __init__(self, call: CallCloud, views: MachineViews) -> None:
        self._call = call
        self._views = views

    async def reconcile(self, request: Request[WorkerState]) -> Result[WorkerState] | Wait:
        """Apply a MachineClass and a MachineDeployment for each pool; wait until all machines are available."""
        spec, network = _specified(request.object)
        await self._deploy(request, spec, network)
        if unready := [name for name, deployment in self._deployments(request) if not _is_rolled_out(deployment)]:
            return Wait(
                ExtensionReason.MACHINES_NOT_READY, f"waiting for the machines of {', '.join(unready)}", after=5.0
            )
        await self._delete_stale(request, spec, network)
        return self._result(request, spec)

    async def restore(self, request: Request[WorkerState]) -> Result[WorkerState] | Wait:
        """Recreate all objects of the state with the same names, and those of machines that were created after it was
        saved. Of a shoot that is being deleted, only those of machines that are left."""
        spec, network = _specified(request.object)
        if request.state is None:
            raise StateInvalid("status.state: found nothing")
        cloud = await cloud_of(request, self._call, spec.secret_ref, Worker.resource)
        virtual_machines = await cloud.machines()
        state = (
            _without_lost_machines(request.state, virtual_machines) if request.is_of_deleted_shoot else request.state
        )
        state = _with_later_machines(state, virtual_machines, are_wanted=any(pool.maximum for pool in spec.pools))
        for resource in KINDS:
            for saved in state.of(resource):
                await self._recreate(request, resource, saved)
        await self._deploy(request, spec, network)
        return self._result(request, spec)

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        """Release machines: their objects are deleted with the shoot's namespace, and their virtual machines stay."""
        await self._release_secrets(object.namespace, writer)
        writer = writer.with_caches(self._views.caches)
        for resource in KINDS:
            for object_ in self._views.caches[resource].list(object.namespace):
                await writer.remove_finalizer(resource, object_, *kinds.FINALIZERS)
        return None

    async def _release_secrets(self, namespace: str, writer: Writer) -> None:
        """Remove the machine controller's finalizers from Secrets, which would outlive it with their namespace."""
        for secret in (await writer.client.list(SECRET, namespace)).items:
            await writer.remove_finalizer(SECRET, secret, *kinds.FINALIZERS)

    async def delete(self, request: Request[WorkerState]) -> Wait | None:
        """Delete the deployments; the machine controller manager deletes the machines. That of a hibernated shoot is
        stopped: what it holds is released here, once no machine is left."""
        namespace = request.object.namespace
        writer = request.writer.with_caches(self._views.caches)
        for resource in (MachineDeployment.resource, MachineSet.resource, Machine.resource):
            for object_ in self._views.caches[resource].list(namespace):
                await writer.delete(resource, object_, found_by_owner)
        if remaining := [machine.name for machine in self._views.caches[Machine.resource].list(namespace)]:
            return Wait(
                ExtensionReason.MACHINES_DELETING, f"waiting for the deletion of {first(remaining, 5)}", after=5.0
            )
        for object_ in self._views.caches[MachineClass.resource].list(namespace):
            await self._delete_class(request, object_)
        left = [(kind, object_) for kind in KINDS for object_ in self._views.caches[kind].list(namespace)]
        if left:  # the machine controller manager, which is stopped next, has to let go of them
            if _is_hibernated(request.cluster):
                for kind, object_ in left:
                    await writer.remove_finalizer(kind, object_, *kinds.FINALIZERS)
            listed = first([object_.name for _, object_ in left], 5)
            return Wait(ExtensionReason.MACHINES_DELETING, f"waiting for the deletion of {listed}", after=5.0)
        await self._release_secrets(namespace, request.writer)
        return None

    async def _deploy(self, request: Request[WorkerState], spec: WorkerSpec, network: str) -> None:
        namespace = request.object.namespace
        is_hibernated = _is_hibernated(request.cluster)
        for pool in spec.pools:
            reference = spec.secret_ref.name if spec.secret_ref else ""
            await self._write_user_data(request, pool, objects.class_name(namespace, pool, network))
            await self._apply(request, MachineClass.resource, objects.class_tree(namespace, pool, network, reference))
            name = objects.deployment_name(namespace, pool)
            present = self._views.get(MachineDeployment.resource, namespace, name)
            replicas = present.decode(MachineDeployment).spec.replicas if present else 0
            minimum = 0 if request.is_of_deleted_shoot else pool.minimum  # lost machines are not created again
            wanted = 0 if is_hibernated else min(max(replicas, minimum), pool.maximum)
            tree = objects.deployment_tree(namespace, pool, network, wanted)
            await self._apply(request, MachineDeployment.resource, tree)

    async def _write_user_data(self, request: Request[WorkerState], pool: WorkerPool, name: str) -> None:
        namespace, reference = request.object.namespace, pool.user_data_secret_ref
        source = await request.read(SECRET, Key(namespace, reference.name)) if reference else None
        content = source.decode(Secret).data.get(reference.key) if source and reference else None
        if content is None:
            message = f"spec.pools[{pool.name}].userDataSecretRef: found no such Secret or key in {namespace}; "
            raise OperationFailed(
                f"{message}it is created for an OperatingSystemConfig", ErrorCode.RETRYABLE_CONFIGURATION
            )
        data = msgspec.to_builtins({objects.USER_DATA: content})
        live = await request.read(SECRET, Key(namespace, name))
        if live is not None:
            await request.writer.merge(SECRET, live, {"data": replacing(live, data)})
            return
        metadata = {"name": name, "namespace": namespace}
        await request.writer.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    async def _apply(self, request: Request[WorkerState], resource: Resource, tree: Tree) -> None:
        writer = request.writer.with_caches(self._views.caches)
        live = self._views.get(resource, request.object.namespace, tree["metadata"]["name"])
        if live is None:
            await writer.create(resource, tree)
            return
        await writer.merge(resource, live, {name: value for name, value in tree.items() if name != "metadata"})

    async def _recreate(self, request: Request[WorkerState], resource: Resource, saved: Saved) -> None:
        owner_kind = {MachineSet.resource: MachineDeployment.resource, Machine.resource: MachineSet.resource}.get(
            resource
        )
        owner = None
        if owner_kind is not None and saved.owner:
            owner = self._views.get(owner_kind, request.object.namespace, saved.owner)
            owner = owner or await request.read(owner_kind, Key(request.object.namespace, saved.owner))
        tree = objects.tree_of(resource, saved, request.object.namespace, owner)
        await request.writer.with_caches(self._views.caches).create(resource, tree)

    async def _delete_stale(self, request: Request[WorkerState], spec: WorkerSpec, network: str) -> None:
        """Delete MachineDeployments of pools that are gone, and MachineClasses that nothing uses any more."""
        namespace = request.object.namespace
        writer = request.writer.with_caches(self._views.caches)
        wanted = {objects.deployment_name(namespace, pool) for pool in spec.pools}
        for name, object_ in self._deployments(request):
            if name not in wanted:
                await writer.delete(MachineDeployment.resource, object_, found_by_owner)
        used = {objects.class_name(namespace, pool, network) for pool in spec.pools}
        for resource, kind in ((MachineSet.resource, MachineSet), (MachineDeployment.resource, MachineDeployment)):
            for object_ in self._views.caches[resource].list(namespace):
                used.add(object_.decode(kind).spec.template.spec.class_.name)  # type: ignore[attr-defined]
        used |= {
            machine.decode(Machine).spec.class_.name for machine in self._views.caches[Machine.resource].list(namespace)
        }
        for object_ in self._views.caches[MachineClass.resource].list(namespace):
            if object_.name not in used:
                await self._delete_class(request, object_)

    async def _delete_class(self, request: Request[WorkerState], machine_class: Object) -> None:
        writer = request.writer.with_caches(self._views.caches)
        secret = await request.read(SECRET, machine_class.key)
        if secret is not None:
            await writer.delete(SECRET, secret, found_by_owner)
        await writer.delete(MachineClass.resource, machine_class, found_by_owner)

    def _deployments(self, request: Request[WorkerState]) -> list[tuple[str, Object]]:
        deployments = self._views.caches[MachineDeployment.resource].list(request.object.namespace)
        return [(deployment.name, deployment) for deployment in deployments]

    def _result(self, request: Request[WorkerState], spec: WorkerSpec) -> Result[WorkerState]:
        namespace = request.object.namespace
        limits: list[dict[str, Any]] = [
            {"name": objects.deployment_name(namespace, pool), "minimum": pool.minimum, "maximum": pool.maximum}
            for pool in spec.pools
        ]
        return Result(objects.state_of(self._views.of(namespace)), {"machineDeployments": limits})


def _specified(worker: Object) -> tuple[WorkerSpec, str]:
    """The spec of a Worker, and its network."""
    spec = worker.decode(Worker).spec
    status = json_trees.decode(spec.infrastructure_provider_status or b"{}", dict[str, Any])
    network = status.get("network")
    if not isinstance(network, str) or not network:
        name, namespace = worker.name, worker.namespace  # gardenlets name both after the shoot
        raise OperationFailed(
            "spec.infrastructureProviderStatus: found no network; allowed: status.providerStatus of the Infrastructure."
            f" If that has none, have it written again: in the seed, kubectl annotate infrastructure {name} "
            f"-n {namespace} {OPERATION}={RECONCILE}",
            ErrorCode.RETRYABLE_CONFIGURATION,
        )
    return spec, network


def _with_later_machines(
    state: WorkerState, virtual_machines: list[VirtualMachine], *, are_wanted: bool
) -> WorkerState:
    """The state, and a Machine for each virtual machine of the shoot that is missing in it: it was created later.

    Raises `StateInvalid` if all virtual machines in it are gone: it is of another shoot, or of another account. A
    hibernated shoot, or one that is being hibernated, needs none: its source may have deleted them after it last saved
    a state.
    """
    ids = {objects.provider_id(machine) for machine in virtual_machines}
    known_ids = set(state.provider_ids)
    if known_ids and not known_ids & ids:
        if are_wanted:
            raise StateInvalid(
                f"status.state: none of its {len(known_ids)} machines is in the cloud, and no new ones are created: "
                "correct the state, or the credentials if they belong to another account"
            )
        state = msgspec.structs.replace(state, machines=[])
    names = {saved.name for saved in state.machines}
    sets = {saved.name: saved for saved in state.machinesets}
    later: list[Saved] = []
    restored: list[Saved] = []
    for machine in virtual_machines:
        if objects.provider_id(machine) in known_ids:
            continue
        machine_set = sets.get(machine.tags.get(objects.SET_TAG, ""))
        if machine_set is None:  # its set was created later, too: the newest one of its deployment adopts it
            deployment = machine.tags.get(objects.DEPLOYMENT_TAG, "")
            machine_set = next(
                (candidate for candidate in reversed(state.machinesets) if candidate.owner == deployment), None
            )
        if machine_set is None:
            continue  # left to the collection of orphans
        template = (machine_set.content.get("spec") or {}).get("template") or {}
        machine_ = msgspec.structs.replace(objects.adopted(machine, template), owner=machine_set.name)
        (restored if machine_.name in names else later).append(machine_)
    replaced = {saved.name: saved for saved in restored}  # saved before its virtual machine was created
    machines = [replaced.get(saved.name, saved) for saved in state.machines] + later
    return msgspec.structs.replace(
        state,
        machines=machines,
        machinesets=[_with_enough_replicas(saved, machines) for saved in state.machinesets],
        machinedeployments=[
            _with_enough_replicas(
                saved, machines, {set_.name for set_ in state.machinesets if set_.owner == saved.name}
            )
            for saved in state.machinedeployments
        ],
    )


def _without_lost_machines(state: WorkerState, virtual_machines: list[VirtualMachine]) -> WorkerState:
    """The state without machines that are gone, and without replicas, which would create others."""
    ids = {objects.provider_id(machine) for machine in virtual_machines}
    return msgspec.structs.replace(
        state,
        machines=[machine for machine in state.machines if objects.provider_id_of(machine.content) in ids],
        machinedeployments=[_with_replicas(deployment, 0) for deployment in state.machinedeployments],
    )


def _with_enough_replicas(saved: Saved, machines: list[Saved], sets: set[str] | None = None) -> Saved:
    """The saved object with at least as many replicas as machines: surplus ones would be deleted."""
    owners = {saved.name} if sets is None else sets
    spec = saved.content.get("spec") or {}
    count = sum(1 for machine in machines if machine.owner in owners)
    if not isinstance(spec.get("replicas", 0), int) or spec.get("replicas", 0) >= count:
        return saved
    return _with_replicas(saved, count)


def _with_replicas(saved: Saved, count: int) -> Saved:
    spec = saved.content.get("spec") or {}
    return msgspec.structs.replace(saved, content={**saved.content, "spec": {**spec, "replicas": count}})


def _is_rolled_out(deployment_object: Object) -> bool:
    deployment = deployment_object.decode(MachineDeployment)
    wanted, status = deployment.spec.replicas, deployment.status
    is_seen = status.observed_generation >= deployment.metadata.generation
    return is_seen and status.updated_replicas == status.replicas == status.available_replicas == wanted


def _is_hibernated(cluster: Object | None) -> bool:
    return cluster is not None and cluster.decode(_Cluster).spec.shoot.spec.hibernation.enabled


def _names(object_: Object) -> Iterable[tuple[Resource, str]]:
    """See `Dependents.names`."""
    try:
        spec, network = _specified(object_)
    except (OperationFailed, msgspec.ValidationError):
        return
    for pool in spec.pools:
        name = objects.class_name(object_.namespace, pool, network)
        yield from ((SECRET, name), (MachineClass.resource, name))
        yield MachineDeployment.resource, objects.deployment_name(object_.namespace, pool)


def _are_edited(views: MachineViews, secrets: Cache, object_: Object) -> bool:
    """See `Dependents.are_edited`. Replicas up to the maximum are as somebody, or an autoscaler, wants them."""
    try:
        spec, network = _specified(object_)
    except (OperationFailed, msgspec.ValidationError):
        return False
    return any(_is_pool_edited(views, secrets, object_.namespace, spec, pool, network) for pool in spec.pools)


def _is_pool_edited(
    views: MachineViews, secrets: Cache, namespace: str, spec: WorkerSpec, pool: WorkerPool, network: str
) -> bool:
    reference = spec.secret_ref.name if spec.secret_ref else ""
    wanted = objects.class_tree(namespace, pool, network, reference)
    name = wanted["metadata"]["name"]
    class_ = views.get(MachineClass.resource, namespace, name)
    for part in ("providerSpec", "secretRef", "credentialsSecretRef"):
        if class_ is not None and not wanted[part].items() <= (class_.tree.get(part) or {}).items():
            return True
    live = views.get(MachineDeployment.resource, namespace, objects.deployment_name(namespace, pool))
    deployment = live.decode(MachineDeployment).spec if live is not None else None
    if deployment is not None and (deployment.replicas > pool.maximum or deployment.template.spec.class_.name != name):
        return True
    user_data = pool.user_data_secret_ref
    source = secrets.get(Key(namespace, user_data.name)) if user_data is not None else None
    digest = source.metadata.annotations.get(DIGEST) if source is not None else None
    return digest is not None and not has_digest(secrets, Key(namespace, name), digest)


def extension(call: CallCloud, views: MachineViews, secrets: Cache) -> Extension[WorkerState]:
    """The extension for Worker. The cache of Secrets has transform `with_digest`, or metadata alone."""
    resources = (MachineClass.resource, MachineDeployment.resource, MachineSet.resource)
    dependents = Dependents(
        {SECRET: secrets, **{resource: views.caches[resource] for resource in resources}},
        _names,
        lambda object_: _are_edited(views, secrets, object_),
    )
    return Extension(Worker.resource, TYPE, WorkerActuator(call, views), SavedState(WorkerState), dependents=dependents)
