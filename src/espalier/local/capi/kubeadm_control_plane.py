"""The control plane controller: certificates, kubeconfig, and control plane machines, one change at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import (
    ControlPlaneInitialization,
    KubeadmConfig,
    KubeadmControlPlane,
    KubeadmControlPlaneStatus,
)
from espalier.api.capi.machine import Bootstrap, Machine, MachineSpec
from espalier.api.core import SECRET, Secret
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key
from espalier.clusterapi import machine_change
from espalier.clusterapi.contract import holds, reference
from espalier.clusterapi.machine_change import ChangeKind, MachineParts
from espalier.kube.objects import Object
from espalier.local import addons
from espalier.local.bootstrap_data import Kubeadm
from espalier.local.capi import names
from espalier.local.capi.certificates import (
    authority_of,
    certificate_secrets,
    kubeconfig_secret,
    needs_renewal,
    secret_name,
)
from espalier.local.capi.inventory import in_cluster, owned_by
from espalier.local.capi.machine_health_check import awaits_remediation
from espalier.local.capi.machine_parts import complete, machine_body
from espalier.local.capi.objects import cluster_key, controller_of, is_paused, owner_reference
from espalier.local.capi.rollup import Rollup, deleting, enough
from espalier.local.capi.scheme import Scheme
from espalier.local.capi.statements import condition, stated
from espalier.local.versions import oldest
from espalier.runtime import steps
from espalier.runtime.outcome import Continue, Done, Outcome, Wait

RESOURCE = KubeadmControlPlane.resource


@dataclass(frozen=True)
class OwnedMachine:
    """A control plane machine and the objects it was made of."""

    object: Object
    machine: Machine
    config: Object | None
    infrastructure: Object | None

    @property
    def going(self) -> bool:
        """Whether somebody asked for its deletion."""
        return self.machine.metadata.deletion_timestamp is not None

    @property
    def parts(self) -> MachineParts:
        """What it was made of."""
        return machine_change.of_control_plane_machine(
            self.machine,
            self.config.decode(KubeadmConfig) if self.config else None,
            self.infrastructure.metadata if self.infrastructure else None,
        )

    @property
    def healthy(self) -> bool:
        """Whether its part of the control plane runs. As for Cluster API, that does not need a pod network."""
        return self.machine.status.node_ref is not None and not self.going

    @property
    def ready(self) -> bool:
        """Whether its node is ready as well."""
        return self.healthy and holds(self.machine.status.conditions, "Ready")


@dataclass(frozen=True)
class Observed:
    """A control plane, its cluster and its machines, oldest first."""

    object: Object
    control_plane: KubeadmControlPlane
    cluster_object: Object
    cluster: Cluster
    machines: tuple[OwnedMachine, ...]
    secrets: dict[str, Object]
    infrastructure_template: Object | None
    other_machines: int

    @property
    def key(self) -> Key:
        """Key of the cluster."""
        return self.cluster_object.key

    @property
    def replicas(self) -> int:
        """How many machines are wanted."""
        return 1 if self.control_plane.spec.replicas is None else self.control_plane.spec.replicas

    @property
    def max_surge(self) -> int:
        """How many machines may be too many during a rollout: 1, or 0."""
        rollout = self.control_plane.spec.rollout
        rolling = rollout.strategy.rolling_update if rollout and rollout.strategy else None
        value = rolling.max_surge if rolling else None
        return 1 if value is None else int(value)

    @property
    def endpoint(self) -> str:
        """Address of the API server, empty while the infrastructure has not said it."""
        endpoint = self.cluster.spec.control_plane_endpoint
        return f"https://{endpoint.host}:{endpoint.port}" if endpoint and endpoint.host else ""

    @property
    def initialized(self) -> bool:
        """Whether the API server has answered, ever: some machine became a node."""
        return self.control_plane.status.initialization.control_plane_initialized or any(
            owned.machine.status.node_ref is not None for owned in self.machines
        )

    @cached_property
    def outdated(self) -> dict[str, tuple[str, ...]]:
        """Names of machines that must be replaced, with the fields that differ."""
        desired = machine_change.of_control_plane(self.control_plane)
        changes = {owned.object.name: machine_change.machine_change(owned.parts, desired) for owned in self.machines}
        return {name: change.fields for name, change in changes.items() if change.kind is ChangeKind.REPLACE}


@dataclass(frozen=True)
class Move:
    """The one change that is due: a machine more (None), or this machine less."""

    remove: OwnedMachine | None


def next_move(observed: Observed) -> Move | Wait | None:
    """What the number and the age of the machines ask for; one change at a time, on a healthy control plane only."""
    machines = observed.machines
    staying = [owned for owned in machines if not owned.going]
    outdated = [owned for owned in staying if owned.object.name in observed.outdated]
    sick = [owned for owned in staying if awaits_remediation(owned.machine)]
    if sick and len(staying) > 1:
        # The only machine of a control plane is never replaced: nobody would be left to join to.
        move = Move(_chosen(sick))
    elif outdated:
        grow = len(machines) < observed.replicas + observed.max_surge
        move = Move(None) if grow else Move(_chosen(outdated))
    elif len(staying) < observed.replicas:
        move = Move(None)
    elif len(staying) > observed.replicas:
        move = Move(_chosen(staying))
    else:
        return None
    if not machines:
        return move
    if going := [owned.object.name for owned in machines if owned.going]:
        return Wait("MachineDeleting", f"waiting for the deletion of machine {going[0]}")
    # A machine may join before there is a pod network; none is taken away before the others are ready.
    others = [owned for owned in machines if owned is not move.remove]
    waiting = [owned.object.name for owned in others if not (owned.healthy if move.remove is None else owned.ready)]
    if waiting:
        return Wait("MachineNotReady", f"waiting for machine {waiting[0]} to become ready")
    return move


def _chosen(machines: list[OwnedMachine]) -> OwnedMachine:
    """Whom to remove: marked ones first, then unhealthy ones, then the oldest."""
    return min(machines, key=lambda owned: (names.DELETE_FIRST not in owned.object.metadata.annotations, owned.ready))


class KubeadmControlPlanes:
    """Reconciles KubeadmControlPlanes."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def _observe(self, key: Key) -> Observed | None:
        inventory = self._scheme.inventory
        found = inventory.control_planes.get(key)
        if found is None or is_paused(found):
            return None
        owner = controller_of(found.metadata)
        cluster = (
            inventory.clusters.get(Key(key.namespace, owner.name))
            if owner
            else inventory.clusters.get(cluster_key(found))
        )
        if cluster is None or is_paused(cluster):
            return None
        typed_cluster = cluster.decode(Cluster)
        if typed_cluster.spec.paused:
            return None
        typed = found.decode(KubeadmControlPlane)
        template = typed.spec.machine_template.spec.infrastructure_ref
        machines = owned_by(inventory.machines, found.metadata.uid)
        machines.sort(key=lambda machine: machine.metadata.creation_timestamp or "")
        return Observed(
            object=found,
            control_plane=typed,
            cluster_object=cluster,
            cluster=typed_cluster,
            machines=tuple(self._owned(machine) for machine in machines),
            secrets={secret.name: secret for secret in in_cluster(inventory.secrets, cluster.key)},
            infrastructure_template=inventory.infrastructure_object(template.kind, Key(key.namespace, template.name)),
            other_machines=len(in_cluster(inventory.machines, cluster.key)) - len(machines),
        )

    def _owned(self, found: Object) -> OwnedMachine:
        inventory = self._scheme.inventory
        machine = found.decode(Machine)
        config = machine.spec.bootstrap.config_ref
        infrastructure = machine.spec.infrastructure_ref
        return OwnedMachine(
            found,
            machine,
            inventory.configs.get(Key(found.namespace, config.name)) if config else None,
            inventory.infrastructure_object(infrastructure.kind, Key(found.namespace, infrastructure.name)),
        )

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one control plane a step further."""
        observed = self._observe(key)
        if observed is None:
            return Done()
        if observed.control_plane.metadata.deletion_timestamp is not None:
            return await self._delete(observed)
        if controller_of(observed.object.metadata) is None:
            return Wait("WaitingForOwner", "waiting for the Cluster to own this control plane")
        writer = self._scheme.writer
        current = await writer.finalizer(RESOURCE, observed.object, names.CONTROL_PLANE_FINALIZER, present=True)
        outcome = await self._advance(observed)
        await writer.status(RESOURCE, current, self._status(observed, None))
        return outcome if isinstance(outcome, Wait) else Done()

    async def _advance(self, observed: Observed) -> Outcome:
        return await steps.run(
            (
                self._adopt_template,
                self._certificates,
                self._kubeconfig,
                self._update_in_place,
                self._move,
                self._addons,
            ),
            observed,
        )

    async def _adopt_template(self, observed: Observed) -> Outcome:
        """The template goes with its cluster."""
        template = observed.infrastructure_template
        if template is not None and (resource := self._scheme.inventory.resource(template.kind)) is not None:
            owner = owner_reference(Cluster.resource, observed.cluster_object, controller=False)
            await self._scheme.writer.owner(resource, template, owner, {})
        return Continue()

    async def _certificates(self, observed: Observed) -> Outcome:
        secrets = certificate_secrets(
            observed.key,
            owner_reference(RESOURCE, observed.object),
            now=self._scheme.clock.now(),
            keys=self._scheme.keys,
            existing=set(observed.secrets),
        )
        for secret in secrets:
            await self._scheme.writer.create(SECRET, secret)
        if not observed.cluster.status.initialization.infrastructure_provisioned:
            return Wait("WaitingForClusterInfrastructureReady", "waiting for the cluster's infrastructure")
        return Continue()

    async def _kubeconfig(self, observed: Observed) -> Outcome:
        if not observed.endpoint:
            return Wait("WaitingForControlPlaneEndpoint", "waiting for the address of the control plane")
        authority = observed.secrets.get(secret_name(observed.key.name, "ca"))
        if authority is None:
            return Wait("WaitingForCertificates", "waiting to see the certificate authority")
        present = observed.secrets.get(secret_name(observed.key.name, "kubeconfig"))
        now = self._scheme.clock.now()
        if present is not None:
            value = present.decode(Secret).data.get("value", b"")
            if not needs_renewal(value, observed.endpoint, now):
                return Continue()
        try:
            secret = kubeconfig_secret(
                observed.key,
                observed.endpoint,
                authority_of(authority.decode(Secret), self._scheme.keys),
                owner_reference(RESOURCE, observed.object),
                now=now,
            )
        except ValueError as error:
            return Wait("CertificatesUnusable", str(error))
        if present is None:
            await self._scheme.writer.create(SECRET, secret)
        else:
            await self._scheme.writer.change(SECRET, present, {"data": secret["data"]})
        return Continue()

    async def _update_in_place(self, observed: Observed) -> Outcome:
        """Labels, annotations and deletion timeouts follow the template; missing parts are made; UpToDate is said."""
        for owned in observed.machines:
            if owned.going:
                continue
            await self._complete(observed, owned.object, owned.machine)
            current = await self._scheme.writer.change(Machine.resource, owned.object, self._propagated(observed))
            fields = observed.outdated.get(owned.object.name, ())
            verdict = (
                condition("UpToDate", False, "NotUpToDate", "\n".join(f"* {field} is outdated" for field in fields))
                if fields
                else condition("UpToDate", True, "UpToDate")
            )
            machine = owned.machine
            conditions = stated(
                machine.status.conditions,
                [verdict, *_components(machine)],
                now=self._scheme.clock.now(),
                generation=machine.metadata.generation,
            )
            status = msgspec.structs.replace(machine.status, conditions=conditions)
            await self._scheme.writer.status(Machine.resource, current, status)
        return Continue()

    def _propagated(self, observed: Observed) -> Tree:
        template = observed.control_plane.spec.machine_template
        spec = msgspec.to_builtins(template.spec)
        return {
            "metadata": {
                "labels": self._labels(observed),
                "annotations": dict(template.metadata.annotations) if template.metadata else {},
            },
            "spec": {name: spec[name] for name in ("deletion", "readinessGates", "taints") if name in spec},
        }

    def _labels(self, observed: Observed) -> dict[str, str]:
        template = observed.control_plane.spec.machine_template.metadata
        return {
            **(template.labels if template else {}),
            names.CLUSTER: observed.key.name,
            names.CONTROL_PLANE: "",
            names.CONTROL_PLANE_NAME: observed.object.name,
        }

    async def _move(self, observed: Observed) -> Outcome:
        move = next_move(observed)
        if move is None:
            return Continue()
        if isinstance(move, Wait):
            return move
        if move.remove is not None:
            await self._scheme.writer.delete(Machine.resource, move.remove.object)
            return Wait("MachineDeleting", f"waiting for the deletion of machine {move.remove.object.name}")
        if observed.infrastructure_template is None:
            wanted = observed.control_plane.spec.machine_template.spec.infrastructure_ref
            return Wait("TemplateMissing", f"waiting for {wanted.kind} {wanted.name}")
        name = names.suffixed(observed.object.name, self._scheme.entropy)
        template = observed.control_plane.spec.machine_template
        spec = MachineSpec(
            cluster_name=observed.key.name,
            version=observed.control_plane.spec.version,
            bootstrap=Bootstrap(config_ref=reference(KubeadmConfig.resource, name)),
            infrastructure_ref=template.spec.infrastructure_ref,
            deletion=template.spec.deletion,
            readiness_gates=template.spec.readiness_gates,
            taints=template.spec.taints,
        )
        annotations = template.metadata.annotations if template.metadata else {}
        owner = owner_reference(RESOURCE, observed.object)
        body = machine_body(Key(observed.key.namespace, name), owner, spec, self._labels(observed), annotations)
        created = await self._scheme.writer.create(Machine.resource, body)
        if created is not None:
            await self._complete(observed, created, created.decode(Machine))
        return Wait("MachineCreated", f"waiting for machine {name}")

    async def _complete(self, observed: Observed, machine: Object, typed: Machine) -> None:
        template = observed.control_plane.spec.machine_template.metadata
        spec: Tree = dict(observed.object.tree["spec"].get("kubeadmConfigSpec") or {})
        if observed.initialized:
            spec.pop("initConfiguration", None)
            spec["joinConfiguration"] = {**(spec.get("joinConfiguration") or {}), "controlPlane": {}}
        else:
            spec.pop("joinConfiguration", None)
        config: Tree = {
            "labels": template.labels if template else {},
            "annotations": template.annotations if template else {},
            "spec": spec,
        }
        await complete(
            self._scheme, machine, typed, infrastructure_template=observed.infrastructure_template, config=config
        )

    async def _addons(self, observed: Observed) -> Outcome:
        """kube-proxy and CoreDNS follow the version once every machine has it."""
        workload = self._scheme.workload_clusters.reach(observed.key)
        if not observed.initialized or workload is None or not observed.machines:
            return Continue()
        spec = observed.control_plane.spec
        kubeadm = Kubeadm(version=spec.version, cluster=spec.kubeadm_config_spec.cluster_configuration)
        for resource, wanted in addons.upgraded(kubeadm):
            present = workload.object(resource, Key(addons.SYSTEM, wanted["metadata"]["name"]))
            if present is not None and addons.image_of(present.tree) != addons.image_of(wanted):
                await workload.client.apply(resource, wanted, field_manager=addons.FIELD_MANAGER)
        return Continue()

    async def _delete(self, observed: Observed) -> Outcome:
        """Workers go first; then all control plane machines."""
        writer = self._scheme.writer
        if observed.other_machines:
            waiting = f"waiting for {observed.other_machines} worker machines to be gone"
        elif observed.machines:
            for owned in observed.machines:
                await writer.delete(Machine.resource, owned.object)
            waiting = f"{len(observed.machines)} control plane machines are being deleted"
        else:
            await writer.finalizer(RESOURCE, observed.object, names.CONTROL_PLANE_FINALIZER, present=False)
            return Done()
        await writer.status(RESOURCE, observed.object, self._status(observed, waiting))
        return Wait("Deleting", waiting)

    def _status(self, observed: Observed, waiting: str | None) -> KubeadmControlPlaneStatus:
        rollup = Rollup.of((owned.machine for owned in observed.machines), observed.outdated)
        generation = observed.control_plane.metadata.generation
        return KubeadmControlPlaneStatus(
            conditions=stated(
                observed.control_plane.status.conditions,
                _conditions(observed, rollup, waiting),
                now=self._scheme.clock.now(),
                generation=generation,
            ),
            initialization=ControlPlaneInitialization(control_plane_initialized=observed.initialized),
            selector=f"{names.CLUSTER}={observed.key.name},{names.CONTROL_PLANE}=",
            replicas=rollup.replicas,
            ready_replicas=rollup.ready,
            available_replicas=rollup.available,
            up_to_date_replicas=rollup.up_to_date,
            version=oldest(count.version for count in rollup.versions),
            versions=list(rollup.versions),
            last_remediation=observed.control_plane.status.last_remediation,
            observed_generation=generation,
        )


def _conditions(observed: Observed, rollup: Rollup, waiting: str | None) -> Iterator[Condition]:
    certificates = secret_name(observed.key.name, "ca") in observed.secrets
    yield condition("CertificatesAvailable", certificates, "Available" if certificates else "NotAvailable")
    yield condition(
        "Initialized",
        observed.initialized,
        "Initialized" if observed.initialized else "NotInitialized",
        "" if observed.initialized else "the first control plane machine has not become a node yet",
    )
    healthy = sum(owned.healthy for owned in observed.machines)
    if waiting is not None or not observed.initialized:
        state = "being deleted" if waiting is not None else "not initialized"
        yield condition("Available", False, "NotAvailable", f"the control plane is {state}")
    else:
        # Members of etcd join with their nodes and leave before them, so those there are have their quorum.
        yield enough("Available", healthy, 1, rollup.replicas)
    for type_ in ("EtcdClusterHealthy", "ControlPlaneComponentsHealthy"):
        yield condition(type_, bool(healthy), "Healthy" if healthy else "NotHealthy")
    yield from rollup.conditions(0 if waiting is not None else observed.replicas)
    yield deleting(waiting)


def _components(machine: Machine) -> Iterator[Condition]:
    """Static pods of a simulated machine run as soon as it is a node."""
    runs = machine.status.node_ref is not None
    for component in ("APIServerPod", "ControllerManagerPod", "SchedulerPod", "EtcdPod", "EtcdMember"):
        reason = ("Running" if component.endswith("Pod") else "Healthy") if runs else "InspectionFailed"
        yield condition(f"{component}Healthy", True if runs else None, reason)
