"""The control plane controller: certificates, kubeconfig, and control plane machines, one change at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import Cluster, Endpoint
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import (
    KubeadmConfig,
    KubeadmControlPlane,
)
from espalier.api.capi.machine import Bootstrap, Machine, MachineSpec
from espalier.api.core import KUBE_SYSTEM, SECRET, Secret
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi import external_etcd, names
from espalier.clusterapi.changes.machine_change import control_plane_bootstrap
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.contract import CERTIFICATES, reference
from espalier.clusterapi.machines.remediation import REMEDIATION_FOR
from espalier.clusterapi.machines.rollouts import is_before_rollout, seconds_until
from espalier.clusterapi.objects import cluster_key, is_paused, owner_reference, owning_cluster
from espalier.kube.objects import Object
from espalier.runtime.concurrency import together
from espalier.runtime.controllers import steps
from espalier.runtime.controllers.outcome import Continue, Done, Outcome, Wait
from espalier.runtime.controllers.writer import Precondition, found_by_owner
from espalier.simulator import addons
from espalier.simulator.bootstrap_data import Kubeadm
from espalier.simulator.capi.certificates import (
    authority_of,
    certificate_secrets,
    find_secret,
    kubeconfig_secret,
    needs_renewal,
    secret_name,
    unavailable_message,
)
from espalier.simulator.capi.inventory import Scheme, in_cluster, owned_by
from espalier.simulator.capi.machine_parts import adopt, create_missing_parts, machine_body, orphans
from espalier.simulator.capi.reaching import obstacle
from espalier.simulator.capi.states.control_plane import Observed, OwnedMachine, next_scaling, pending_remediation
from espalier.simulator.capi.states.control_plane_status import component_conditions, status

RESOURCE = KubeadmControlPlane.resource
_RETRY_SECONDS = 30.0
CERTIFICATE_DAYS = 365
"""The validity of a control plane machine's certificates, as in kubeadm."""


class KubeadmControlPlanes:
    """Reconciles KubeadmControlPlanes."""

    def __init__(self, scheme: Scheme, served: Callable[[Key, Endpoint], Endpoint]) -> None:
        self._scheme = scheme
        self._served = served
        """The endpoint at which the API server of a cluster is served, by its key and the endpoint in its spec."""

    def _observe(self, key: Key) -> Observed | None:
        inventory = self._scheme.inventory
        object_ = inventory.control_planes.get(key)
        if object_ is None or is_paused(object_):
            return None
        owner = owning_cluster(object_.metadata)
        cluster = (
            inventory.clusters.get(Key(key.namespace, owner.name))
            if owner
            else inventory.clusters.get(cluster_key(object_))
        )
        if cluster is None or is_paused(cluster):
            return None
        typed_cluster = cluster.decode(Cluster)
        if typed_cluster.spec.paused:
            return None
        typed = object_.decode(KubeadmControlPlane)
        template = typed.spec.machine_template.spec.infrastructure_ref
        cluster_infrastructure = typed_cluster.spec.infrastructure_ref
        infrastructure = (
            inventory.infrastructure_object(
                cluster_infrastructure.kind, Key(key.namespace, cluster_infrastructure.name)
            )
            if cluster_infrastructure
            else None
        )
        machines = owned_by(inventory.machines, object_.metadata.uid)
        machines.sort(key=lambda machine: machine.metadata.creation_timestamp or "")
        return Observed(
            object=object_,
            control_plane=typed,
            cluster_object=cluster,
            cluster=typed_cluster,
            machines=tuple(self._owned(machine) for machine in machines),
            secrets={secret.name: secret for secret in in_cluster(inventory.secrets, cluster.key)},
            infrastructure_template=inventory.infrastructure_object(template.kind, Key(key.namespace, template.name)),
            other_machines=sum(
                external_etcd.MACHINE_LABEL not in machine.metadata.labels
                for machine in in_cluster(inventory.machines, cluster.key)
            )
            - len(machines),
            obstacle=obstacle(infrastructure),
            orphans=orphans(self._scheme, cluster.key, lambda machine: names.CONTROL_PLANE in machine.metadata.labels),
            old=self._before_rollout(typed, machines),
        )

    def _before_rollout(self, control_plane: KubeadmControlPlane, machines: Sequence[Object]) -> frozenset[str]:
        """Names of the machines that `spec.rollout.after` replaces."""
        after, now = control_plane.spec.rollout.after if control_plane.spec.rollout else None, self._scheme.clock.now()
        return frozenset(
            machine.name for machine in machines if is_before_rollout(machine.metadata.creation_timestamp, after, now)
        )

    def _owned(self, object_: Object) -> OwnedMachine:
        inventory = self._scheme.inventory
        machine = object_.decode(Machine)
        config = machine.spec.bootstrap.config_ref
        infrastructure = machine.spec.infrastructure_ref
        return OwnedMachine(
            object_,
            inventory.configs.get(Key(object_.namespace, config.name)) if config else None,
            inventory.infrastructure_object(infrastructure.kind, Key(object_.namespace, infrastructure.name)),
        )

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one KubeadmControlPlane."""
        observed = self._observe(key)
        if observed is None:
            return Done()
        if observed.control_plane.metadata.deletion_timestamp is not None:
            return await self._delete(observed)
        if owning_cluster(observed.object.metadata) is None:
            return Wait("WaitingForOwner", "waiting for the Cluster to own this control plane")
        writer = self._scheme.writer
        current = await writer.add_finalizer(RESOURCE, observed.object, names.CONTROL_PLANE_FINALIZER)
        if observed.orphans:
            return await adopt(self._scheme, observed.orphans, owner_reference(RESOURCE, observed.object))
        observed = await self._with_certificates(observed)
        await self._report_expiries(observed)
        outcome = await self._advance(observed)
        await writer.status(RESOURCE, current, status(observed, self._scheme.clock.now()))
        rollout = observed.control_plane.spec.rollout
        due_in = seconds_until(rollout.after if rollout else None, self._scheme.clock.now())
        return outcome if isinstance(outcome, Wait) else Done(after=due_in)

    async def _advance(self, observed: Observed) -> Outcome:
        return await steps.run(
            (
                self._adopt_template,
                self._certificates,
                self._kubeconfig,
                self._external_etcd,
                self._update_in_place,
                self._scale,
                self._addons,
                self._await_certificates,
            ),
            observed,
        )

    async def _report_expiries(self, observed: Observed) -> None:
        """Note when the certificates of machines end, unless that is noted: whoever renews them removes the note.

        Cluster API reads it from the certificate of the machine's API server, which here is not the machine's.
        """
        for machine in observed.machines:
            config = machine.config
            if config is None or not machine.healthy or names.CERTIFICATES_EXPIRY in config.metadata.annotations:
                continue
            ends = self._scheme.clock.now() + timedelta(days=CERTIFICATE_DAYS)
            noted = {"metadata": {"annotations": {names.CERTIFICATES_EXPIRY: condition_list.timestamp(ends)}}}
            await self._scheme.writer.merge(KubeadmConfig.resource, config, noted, Precondition.UID)

    async def _adopt_template(self, observed: Observed) -> Outcome:
        """Set the cluster as owner of the template."""
        template = observed.infrastructure_template
        if template is not None and (resource := self._scheme.inventory.resource(template.kind)) is not None:
            owner = owner_reference(Cluster.resource, observed.cluster_object, controller=False)
            await self._scheme.writer.add_owner(resource, template, owner)
        return Continue()

    async def _with_certificates(self, observed: Observed) -> Observed:
        """The observed state with the missing and unlabelled certificates of an initialized control plane."""
        if not observed.initialized:
            return observed
        secrets, missing, unlabelled = dict(observed.secrets), [], []
        for purpose in CERTIFICATES:
            name = secret_name(observed.key.name, purpose)
            if name in secrets:
                continue
            if (secret := await find_secret(self._scheme, observed.key, purpose)) is None:
                missing.append(purpose)
            else:
                secrets[name] = secret
                unlabelled.append(name)
        return replace(
            observed, secrets=secrets, missing_certificates=tuple(missing), unlabelled_secrets=tuple(unlabelled)
        )

    async def _certificates(self, observed: Observed) -> Outcome:
        """Create the Secrets with certificates, owned by the control plane.

        Only until it is initialized, because its machines then trust only these.
        """
        owner = owner_reference(RESOURCE, observed.object)
        if observed.initialized:
            for purpose in CERTIFICATES:
                secret = observed.secrets.get(secret_name(observed.key.name, purpose))
                if secret is not None and secret.decode(Secret).type == names.CLUSTER_SECRET:
                    await self._scheme.writer.add_owner(SECRET, secret, owner)
        else:
            now, keys = self._scheme.clock.now(), self._scheme.keys
            secrets = certificate_secrets(observed.key, owner, now=now, keys=keys, existing=set(observed.secrets))
            await together(self._scheme.writer.create(SECRET, secret) for secret in secrets)
        if not observed.cluster.status.initialization.infrastructure_provisioned:
            return Wait("WaitingForClusterInfrastructureReady", "waiting for the cluster's infrastructure")
        return Continue()

    async def _kubeconfig(self, observed: Observed) -> Outcome:
        if observed.endpoint is None:
            return Wait("WaitingForControlPlaneEndpoint", "waiting for the control plane endpoint")
        server = self._served(observed.cluster_object.key, observed.endpoint).url
        present = observed.secrets.get(secret_name(observed.key.name, "kubeconfig"))
        now = self._scheme.clock.now()
        if present is not None:
            value = present.decode(Secret).data.get("value", b"")
            if not needs_renewal(value, server, now):
                return Continue()
        authority = observed.secrets.get(secret_name(observed.key.name, "ca"))
        if authority is None:
            return Wait("WaitingForCertificates", "waiting for the cache to show the CA")
        try:
            secret = kubeconfig_secret(
                observed.key,
                server,
                authority_of(authority.decode(Secret), self._scheme.keys),
                owner_reference(RESOURCE, observed.object),
                now=now,
            )
        except ValueError as error:
            return Wait("CertificatesUnusable", str(error))
        if present is None:
            await self._scheme.writer.create(SECRET, secret)
        else:
            await self._scheme.writer.merge(SECRET, present, {"data": secret["data"]})
        return Continue()

    async def _external_etcd(self, observed: Observed) -> Outcome:
        """Wait for EKS Anywhere's external etcd, and set its endpoints in the control plane."""
        etcd_ref = observed.cluster.spec.managed_external_etcd_ref
        if etcd_ref is None:
            return Continue()
        object_ = self._scheme.inventory.etcds.get(Key(observed.object.namespace, etcd_ref.name))
        etcd = object_.decode(EtcdadmCluster) if object_ is not None else None
        if etcd is None or not external_etcd.is_ready(etcd):
            return Wait("WaitingForExternalEtcd", f"waiting for {etcd_ref.kind} {etcd_ref.name}")
        endpoints = etcd.status.endpoints.split(",")
        if list(external_etcd.endpoints(observed.control_plane)) == endpoints:
            return Continue()
        external = {"clusterConfiguration": {"etcd": {"external": {"endpoints": endpoints}}}}
        await self._scheme.writer.merge(RESOURCE, observed.object, {"spec": {"kubeadmConfigSpec": external}})
        return Wait("SpecChanged", "waiting for the cache to show the endpoints of etcd")

    async def _update_in_place(self, observed: Observed) -> Outcome:
        """Update the fields that need no rollout, create missing parts, and set the conditions of the machines."""
        for owned in observed.machines:
            if owned.is_deleted:
                continue
            await self._create_missing_parts(observed, owned.object, owned.machine)
            current = await self._scheme.writer.merge(Machine.resource, owned.object, self._in_place_fields(observed))
            fields = observed.outdated.get(owned.object.name, ())
            up_to_date = (
                condition("UpToDate", False, "NotUpToDate", "\n".join(f"* {field} is outdated" for field in fields))
                if fields
                else condition("UpToDate", True, "UpToDate")
            )
            machine = owned.machine
            conditions = stated(
                machine.status.conditions,
                [up_to_date, *component_conditions(machine)],
                now=self._scheme.clock.now(),
                generation=machine.metadata.generation,
            )
            status = msgspec.structs.replace(machine.status, conditions=conditions)
            await self._scheme.writer.status(Machine.resource, current, status)
        return Continue()

    def _in_place_fields(self, observed: Observed) -> Tree:
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
            names.CONTROL_PLANE_NAME_LABEL: observed.object.name,
        }

    async def _scale(self, observed: Observed) -> Outcome:
        scaling = next_scaling(observed, self._scheme.clock.now())
        if scaling is None:
            return Continue()
        if isinstance(scaling, Wait):
            return scaling
        if scaling.remove is not None:
            await self._scheme.writer.delete(Machine.resource, scaling.remove.object, found_by_owner)
            return Wait("MachineDeleting", f"waiting for the deletion of machine {scaling.remove.object.name}")
        if observed.missing_certificates:
            return Wait("CertificatesMissing", unavailable_message(observed.missing_certificates), after=_RETRY_SECONDS)
        if observed.infrastructure_template is None:
            missing = observed.control_plane.spec.machine_template.spec.infrastructure_ref
            return Wait("TemplateMissing", f"waiting for {missing.kind} {missing.name}")
        name = names.suffixed(observed.object.name, self._scheme.rng)
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
        annotations = dict(template.metadata.annotations) if template.metadata else {}
        if (remediation := pending_remediation(observed)) is not None:
            annotations[REMEDIATION_FOR] = msgspec.json.encode(remediation).decode()
        owner = owner_reference(RESOURCE, observed.object)
        body = machine_body(Key(observed.key.namespace, name), owner, spec, self._labels(observed), annotations)
        created = await self._scheme.writer.create(Machine.resource, body)
        if created is not None:
            await self._create_missing_parts(observed, created, created.decode(Machine))
        return Wait("MachineCreated", f"waiting for machine {name}")

    async def _create_missing_parts(self, observed: Observed, machine: Object, typed: Machine) -> None:
        template = observed.control_plane.spec.machine_template.metadata
        bootstrap_spec = observed.object.tree["spec"].get("kubeadmConfigSpec") or {}
        spec = dict(control_plane_bootstrap(bootstrap_spec, typed.spec.version))
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
        await create_missing_parts(
            self._scheme, machine, typed, infrastructure_template=observed.infrastructure_template, config=config
        )

    async def _addons(self, observed: Observed) -> Outcome:
        """Upgrade kube-proxy and CoreDNS, after all machines: only then the steps before return `Continue`."""
        workload = self._scheme.workload_clusters.reach(observed.key)
        if not observed.initialized or workload is None or not observed.machines:
            return Continue()
        spec = observed.control_plane.spec
        kubeadm = Kubeadm(version=spec.version, cluster=spec.kubeadm_config_spec.cluster_configuration)
        for resource, desired in addons.upgraded(kubeadm):
            present = workload.object(resource, Key(KUBE_SYSTEM, desired["metadata"]["name"]))
            if present is not None and addons.image_of(present.tree) != addons.image_of(desired):
                await workload.client.apply(resource, desired, field_manager=addons.FIELD_MANAGER)
        return Continue()

    async def _await_certificates(self, observed: Observed) -> Outcome:
        """Retry while certificates are missing: no watch reports a restored Secret that lacks the label."""
        if observed.missing_certificates:
            return Wait("CertificatesMissing", unavailable_message(observed.missing_certificates), after=_RETRY_SECONDS)
        return Continue()

    async def _delete(self, observed: Observed) -> Outcome:
        """Wait for workers to be deleted; then delete all control plane machines."""
        writer = self._scheme.writer
        if observed.other_machines:
            waiting = f"waiting for {observed.other_machines} worker machines to be deleted"
        elif observed.machines:
            for owned in observed.machines:
                await writer.delete(Machine.resource, owned.object, found_by_owner)
            waiting = f"{len(observed.machines)} control plane machines are being deleted"
        else:
            await writer.remove_finalizer(RESOURCE, observed.object, names.CONTROL_PLANE_FINALIZER)
            return Done()
        await writer.status(RESOURCE, observed.object, status(observed, self._scheme.clock.now(), waiting))
        return Wait("Deleting", waiting)
