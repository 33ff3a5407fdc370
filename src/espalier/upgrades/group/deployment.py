"""Machines of a MachineDeployment: maxUnavailable at a time, once the control plane has the version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import msgspec

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmConfigTemplate
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.eksa.upgrades import (
    MachineDeploymentUpgrade,
    MachineDeploymentUpgradeSpec,
    MachineDeploymentUpgradeStatus,
    NodeType,
    ObjectReference,
)
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import DEPLOYMENT_FINALIZER, IN_PLACE_DEPLOYMENT
from espalier.api.meta import Condition, ObjectMeta, Observed, Tree
from espalier.clusterapi import kubernetes_versions
from espalier.clusterapi.changes import in_place_fields, machine_change
from espalier.clusterapi.changes.classification import Classification, UpdateStrategy, classify
from espalier.clusterapi.contract import CONTROL_PLANE_LABEL, desired_replicas
from espalier.clusterapi.machines.intstr import share
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer
from espalier.upgrades import expected, names
from espalier.upgrades.group import sequence
from espalier.upgrades.group.group import DueMachines, Group, GroupScope, Upgrade, shared_problem
from espalier.upgrades.group.sequence import Counts, Member
from espalier.upgrades.observed.cluster_view import ClusterAPIObjects, MachineView


class Sets(NamedTuple):
    """The MachineSets of a deployment: the current set with its machines, and older sets that still have machines."""

    latest: Object | None
    machines: tuple[MachineView, ...]
    older: tuple[str, ...]


def sets_of(capi_objects: ClusterAPIObjects, deployment: Object) -> Sets:
    """The MachineSets of a deployment; the latest has the highest revision, unless a rollout was reverted.

    Then an earlier set that still has machines matches the deployment, and Cluster API returns to it. A set without
    machines is history: returning to it would replace machines that should stay.
    """
    sets = capi_objects.controlled(MachineSet.resource, deployment.metadata.uid)
    sets.sort(key=_revision)
    latest = sets[-1] if sets else None
    earlier = [set_ for set_ in sets[:-1] if capi_objects.machines_of(set_)]
    if latest is not None and earlier and _differences(latest, deployment):
        matching = [set_ for set_ in earlier if not _differences(set_, deployment)]
        if matching:
            return Sets(matching[-1], tuple(capi_objects.machines_of(matching[-1])), ())
    machines = tuple(capi_objects.machines_of(latest)) if latest else ()
    return Sets(latest, machines, tuple(set_.name for set_ in earlier))


def classified(capi_objects: ClusterAPIObjects, deployment: MachineDeployment, latest: Object) -> Classification:
    """The classified difference between a MachineSet and the template of its deployment."""
    before, after = (
        machine_change.of_machine_template(template)
        for template in (latest.decode(MachineSet).spec.template, deployment.spec.template)
    )
    return classify(before, after, UpdateStrategy.IN_PLACE, capi_objects.infrastructures, capi_objects.template)


def outdated(
    capi_objects: ClusterAPIObjects, deployment: MachineDeployment, machines: Sequence[MachineView]
) -> list[MachineView]:
    """The machines without the version and templates of the deployment, or whose upgrade was interrupted."""
    template = deployment.spec.template.spec
    return [
        view
        for view in machines
        if view.machine.metadata.deletion_timestamp is None
        and (
            view.is_unfinished
            or view.machine.spec.version != template.version
            or (view.parts.infrastructure and view.parts.infrastructure.name != template.infrastructure_ref.name)
            or not _is_configured(capi_objects, msgspec.to_builtins(template), view)
        )
    ]


def _config_template(capi_objects: ClusterAPIObjects, wanted: Tree) -> tuple[str, Tree | None]:
    """Name and content of the KubeadmConfigTemplate that the spec of a machine names."""
    name = str(((wanted.get("bootstrap") or {}).get("configRef") or {}).get("name", ""))
    return name, capi_objects.template(KubeadmConfigTemplate.resource.kind, name) if name else None


def _bootstrap(template: Tree | None) -> Tree:
    return ((template or {}).get("template") or {}).get("spec") or {}


def _is_configured(capi_objects: ClusterAPIObjects, wanted: Tree, machine: MachineView) -> bool:
    """True if a machine's KubeadmConfig has the files and kubelet flags of the template asked for."""
    _, template = _config_template(capi_objects, wanted)
    return template is None or not expected.changes(machine, _bootstrap(template))


class DeploymentGroup(Group):
    """A worker node group."""

    resource = MachineDeploymentUpgrade.resource
    upgrade_type = MachineDeploymentUpgrade
    owner_resource = MachineDeployment.resource
    annotation = IN_PLACE_DEPLOYMENT
    finalizer = DEPLOYMENT_FINALIZER
    node_type: ClassVar[NodeType] = "Worker"

    def name(self, owner: str) -> str:
        """Name of the MachineDeploymentUpgrade."""
        return names.deployment_upgrade(owner)

    def upgrade(self, metadata: ObjectMeta, owner: Object, machines: list[ObjectReference]) -> MachineDeploymentUpgrade:
        """The MachineDeploymentUpgrade, with the version of the template."""
        return MachineDeploymentUpgrade(
            metadata=metadata,
            spec=MachineDeploymentUpgradeSpec(
                machine_deployment=names.reference(self.owner_resource, owner),
                machines_require_upgrade=machines,
                kubernetes_version=owner.decode(MachineDeployment).spec.template.spec.version,
                machine_spec_data=expected.encoded(self.asked_for(owner)),
            ),
        )

    def owner_of(self, upgrade: Upgrade) -> tuple[ObjectReference, str]:
        """The reference to the MachineDeployment, and its encoded machine spec."""
        if not isinstance(upgrade, MachineDeploymentUpgrade):
            raise TypeError(upgrade)
        return upgrade.spec.machine_deployment, upgrade.spec.machine_spec_data

    def asked_for(self, owner: Object) -> Tree:
        """The spec of the machine template."""
        spec: Tree = owner.tree["spec"]["template"]["spec"]
        return spec

    def due(self, capi_objects: ClusterAPIObjects, owner: Object) -> DueMachines:
        """The outdated machines; due if the MachineSet is outdated, too."""
        deployment = owner.decode(MachineDeployment)
        sets = sets_of(capi_objects, owner)
        if sets.latest is None:
            return DueMachines((), (), is_due=False)
        change = classified(capi_objects, deployment, sets.latest)
        machines = tuple(outdated(capi_objects, deployment, sets.machines))
        if change.is_outdated:
            outdated_names = {view.name for view in machines}
            machines += tuple(view for view in sets.machines if view.lost_config and view.name not in outdated_names)
        refused = (*change.refused, *(f"machines of MachineSet {name}" for name in sets.older))
        return DueMachines(machines, refused, bool(machines or change.is_outdated or refused))

    def is_expected(self, capi_objects: ClusterAPIObjects, wanted: Tree, version: str, machine: MachineView) -> bool:
        """True if the machine's objects have the version, infrastructure template, files and kubelet flags."""
        template = wanted.get("infrastructureRef") or {}
        cloned_from = machine.parts.infrastructure
        is_cloned = cloned_from is None or cloned_from.name == template.get("name")
        is_configured = not machine.is_unfinished and _is_configured(capi_objects, wanted, machine)
        return machine.machine.spec.version == version and is_cloned and is_configured

    def problem(self, scope: GroupScope) -> Wait | None:
        """A foreign machine, a rollout under way, a version that kubeadm can't upgrade to, or refused changes."""
        if scope.owner is None or scope.cluster_view is None:
            return None
        deployment = scope.owner.decode(MachineDeployment)
        name = f"MachineDeployment {scope.owner.key}"
        sets = sets_of(scope.cluster_view.capi_objects, scope.owner)
        if sets.older:
            return Wait(
                Reason.ROLLOUT_IN_PROGRESS,
                f"{name} is being rolled out: MachineSet {', '.join(sets.older)} still has machines; revert the "
                "change, or set upgradeRolloutStrategy.fallback: RollingUpdate to finish the rollout",
            )
        own = {view.name for view in sets.machines}
        for member in scope.members:
            if member.machine is not None and member.name not in own:
                return Wait(Reason.MACHINE_OF_ANOTHER_OWNER, f"Machine {member.name} does not belong to {name}")
        problem = shared_problem(scope, name, deployment.spec.template.spec.version, self.asked_for(scope.owner))
        if problem:
            return problem
        refused = classified(scope.cluster_view.capi_objects, deployment, sets.latest).refused if sets.latest else ()
        return Wait(Reason.FIELDS_NOT_CHANGEABLE_IN_PLACE, in_place_fields.sentence(refused, name)) if refused else None

    def at_once(self, scope: GroupScope) -> int:
        """The deployment's maxUnavailable, at least 1; maxSurge does not apply in place."""
        if scope.owner is None:
            return 1
        deployment = scope.owner.decode(MachineDeployment)
        strategy = deployment.spec.rollout.strategy if deployment.spec.rollout else None
        limit = strategy.rolling_update.max_unavailable if strategy and strategy.rolling_update else None
        return max(1, share(limit, desired_replicas(deployment), default=1))

    def missing(self, scope: GroupScope) -> list[str]:
        """The messages on unavailable machines: those to be created, without a node, or with a node that is not ready.

        Those whose nodes are being upgraded do not count.
        """
        workload = scope.cluster_view.workload if scope.cluster_view else None
        if scope.cluster_view is None or scope.owner is None or workload is None:
            return []
        being_upgraded = {member.name for member in sequence.active(scope.members)}
        sets = sets_of(scope.cluster_view.capi_objects, scope.owner)
        staying = [view for view in sets.machines if view.machine.metadata.deletion_timestamp is None]
        # The replicas of the set, as a paused deployment is not scaled.
        wanted = desired_replicas(sets.latest.decode(MachineSet)) if sets.latest else 0
        missing = [f"one of {wanted} machines is missing"] * max(0, wanted - len(staying))
        for view in sets.machines:
            if view.name in being_upgraded or view.machine.metadata.deletion_timestamp is not None:
                continue
            node = workload.node(view.node) if view.node else None
            if node is None:
                missing.append(f"Machine {view.name} has no node")
            elif not node.is_ready:
                missing.append(f"node {view.node} is not ready")
        return missing

    def obstacle(self, scope: GroupScope, member: Member | None) -> Wait | None:
        """An unreachable cluster, or an older control plane: no kubelet may be newer than the API server."""
        if scope.cluster_view is None or member is None:
            return None
        if scope.cluster_view.workload is None:
            return scope.cluster_view.unreachable
        for machine in scope.cluster_view.capi_objects.caches[Machine.resource].list():
            if CONTROL_PLANE_LABEL not in machine.metadata.labels:
                continue
            version = machine.decode(Machine).spec.version
            if kubernetes_versions.is_older(version, scope.version):
                message = (
                    f"waiting for the control plane: Machine {machine.name} has {version}, not yet {scope.version}"
                )
                return Wait(Reason.CONTROL_PLANE_FIRST, message)
        return None

    def node_upgrade_extras(self, scope: GroupScope, member: Member) -> Tree:
        """The files and kubelet flags to change."""
        if scope.cluster_view is None:
            return {}
        _, template = _config_template(scope.cluster_view.capi_objects, scope.wanted or {})
        return {"bootstrapChanges": expected.changes(member.machine, _bootstrap(template)) if template else ""}

    async def record(self, writer: Writer, scope: GroupScope, machine: MachineView) -> None:
        """Update Machine, KubeadmConfig and infrastructure machine."""
        await writer.merge(Machine.resource, machine.object, expected.worker(scope.version))
        name, template = (
            _config_template(scope.cluster_view.capi_objects, scope.wanted or {}) if scope.cluster_view else ("", None)
        )
        if template is not None and machine.config is not None:
            present = machine.config.tree.get("spec") or {}
            metadata, after = expected.worker_config(template, name, present)
            patch = {"metadata": metadata, "spec": expected.replacement(present, after)}
            await writer.merge(KubeadmConfig.resource, machine.config, patch)
        wanted = (scope.wanted or {}).get("infrastructureRef")
        if machine.infrastructure is not None and wanted and machine.infrastructure_kind:
            await writer.merge(
                machine.infrastructure_kind, machine.infrastructure, expected.infrastructure_machine(wanted)
            )

    async def finish(self, writer: Writer, scope: GroupScope) -> None:
        """Give the latest MachineSet the template of the deployment, so that it stays the current set.

        A set that has it already is left alone: it may be newer than this upgrade, if that was reverted.
        """
        latest = (
            sets_of(scope.cluster_view.capi_objects, scope.owner).latest if scope.cluster_view and scope.owner else None
        )
        if latest is None or scope.owner is None or not _differences(latest, scope.owner):
            return
        if scope.wanted is not None:
            present = latest.tree["spec"]["template"]["spec"]
            change = expected.replacement(present, scope.wanted)
            await writer.merge(MachineSet.resource, latest, {"spec": {"template": {"spec": change}}})

    def remaining(self, scope: GroupScope) -> list[str]:
        """The MachineSet, if Cluster API would create another set for the deployment."""
        latest = (
            sets_of(scope.cluster_view.capi_objects, scope.owner).latest if scope.cluster_view and scope.owner else None
        )
        if latest is None or scope.owner is None:
            return []
        fields = _differences(latest, scope.owner)
        return [f"MachineSet {latest.name} ({', '.join(fields)})"] if fields else []

    def status(
        self, counts: Counts, ready: bool, conditions: list[Condition], generation: int
    ) -> tuple[Observed, Tree]:
        """The status; counts of 0 are omitted, as in the proposal."""
        return MachineDeploymentUpgradeStatus(counts.left, counts.upgraded, ready, conditions, generation), {}


def _differences(machine_set: Object, deployment: Object) -> tuple[str, ...]:
    """The fields for which Cluster API would create another MachineSet."""
    before = machine_change.of_machine_template(machine_set.decode(MachineSet).spec.template)
    after = machine_change.of_machine_template(deployment.decode(MachineDeployment).spec.template)
    change = machine_change.machine_change(before, after)
    return tuple(change.fields) if change.kind is machine_change.ChangeKind.REPLACE else ()


def _revision(machine_set: Object) -> int:
    revision = machine_set.metadata.annotations.get(names.REVISION_ANNOTATION, "0")
    return int(revision) if revision.isdecimal() else 0
