"""The flows of a gardenlet, as data.

Reconcile and restore are one graph (G4): tasks that only a moved shoot needs are skipped for others. Only observed
objects decide whether a task is done, so any process can continue a flow wherever it was left.
"""

from __future__ import annotations

from espalier.api.gardener.control_plane import ControlPlane
from espalier.api.gardener.dns_record import DNSRecord
from espalier.api.gardener.extension import Extension
from espalier.api.gardener.infrastructure import Infrastructure
from espalier.api.gardener.network import Network
from espalier.api.gardener.operating_system_config import OperatingSystemConfig
from espalier.api.gardener.worker import Worker
from espalier.shoots.flow.graph import Flow
from espalier.shoots.flow.task import Task
from espalier.shoots.gardenlet.context import Context
from espalier.shoots.gardenlet.names import (
    AFTER_API_SERVER,
    API_SERVER,
    BEFORE_API_SERVER,
    CONTROLLER_MANAGER,
    CONTROLLERS,
    DESTINATION_READY,
    MACHINE_CONTROLLER_MANAGER,
    SCHEDULER,
)
from espalier.shoots.gardenlet.tasks import backups, control_plane, extensions, secrets

ALL_EXTENSIONS = (*BEFORE_API_SERVER, *AFTER_API_SERVER)

RECONCILE: Flow[Context] = Flow(
    "Reconcile",
    [
        Task("Wait for ownership epoch", backups.wait_for_ownership),
        Task("Generate secrets", secrets.generate, after=("Wait for ownership epoch",)),
        Task("Deploy namespace", control_plane.deploy_namespace, after=("Wait for ownership epoch",)),
        Task("Deploy secrets", secrets.deploy, after=("Generate secrets", "Deploy namespace")),
        Task("Derive secrets", secrets.derive, after=("Deploy secrets",)),
        Task(
            "Deploy provider credentials",
            secrets.deploy_credentials,
            after=("Deploy namespace",),
            skip=secrets.skip_credentials,
        ),
        Task("Deploy backup entry", backups.deploy_backup_entry, after=("Deploy namespace",)),
        Task(
            "Deploy source backup entry",
            backups.deploy_source_backup_entry,
            after=("Deploy namespace",),
            skip=lambda ctx: backups.skip_copy(ctx) or ("all backups are copied" if ctx.scope.is_copied else ""),
        ),
        Task(
            "Copy backups",
            backups.copy_backups,
            after=("Deploy backup entry", "Deploy source backup entry", "Derive secrets"),
            skip=backups.skip_copy,
        ),
        Task("Remove copying etcd", backups.delete_copy_etcd, after=("Copy backups",)),
        Task("Remove source backup entry", backups.delete_source_backup_entry, after=("Remove copying etcd",)),
        Task(
            "Wait for lease of source",
            backups.wait_for_source_lease,
            after=("Copy backups",),
            skip=backups.skip_lease_wait,
        ),
        Task(
            "Take ownership",
            backups.record_start,
            after=(
                "Remove source backup entry",
                "Wait for lease of source",
                "Deploy backup entry",
                "Deploy provider credentials",
                "Derive secrets",
            ),
        ),
        Task("Deploy etcd", backups.deploy_etcd, after=("Take ownership",)),
        Task("Deploy services", control_plane.deploy_services, after=("Deploy namespace",)),
        Task("Deploy infrastructure", extensions.deploy(Infrastructure), after=("Take ownership",)),
        Task("Deploy kube-apiserver", control_plane.deploy(API_SERVER), after=("Deploy etcd", "Deploy services")),
        Task("Deploy network", extensions.deploy(Network), after=("Deploy infrastructure",)),
        Task("Deploy control plane", extensions.deploy(ControlPlane), after=("Deploy infrastructure",)),
        Task("Deploy operating system configs", extensions.deploy(OperatingSystemConfig), after=("Take ownership",)),
        Task("Deploy extensions", extensions.deploy(Extension), after=("Deploy kube-apiserver",)),
        Task("Deploy DNS records", extensions.deploy(DNSRecord), after=("Deploy kube-apiserver",)),
        Task(
            "Wait for nodes", control_plane.wait_for_nodes, after=("Deploy DNS records",), skip=control_plane.skip_nodes
        ),
        Task(
            "Release leases of controllers",
            control_plane.release_leases,
            after=("Deploy kube-apiserver",),
            skip=control_plane.skip_leases,
        ),
        Task(
            "Deploy kube-controller-manager",
            control_plane.deploy(CONTROLLER_MANAGER),
            after=("Release leases of controllers", "Wait for nodes"),
        ),
        Task("Deploy kube-scheduler", control_plane.deploy(SCHEDULER), after=("Release leases of controllers",)),
        Task(
            "Deploy machine-controller-manager",
            control_plane.deploy_machine_controller_manager,
            after=("Deploy kube-apiserver", "Deploy control plane"),
        ),
        Task(
            "Deploy worker",
            extensions.deploy(Worker),
            after=("Deploy machine-controller-manager", "Deploy operating system configs", "Deploy network"),
        ),
        Task(
            "Start machine-controller-manager", control_plane.start_machine_controller_manager, after=("Deploy worker",)
        ),
        Task("Remove stale extension resources", extensions.delete_stale, after=("Deploy extensions", "Deploy worker")),
    ],
)
"""Creation, reconcile and restore."""

MIGRATE: Flow[Context] = Flow(
    "Migrate",
    [
        Task("Check extension state", extensions.check_states),
        Task(
            DESTINATION_READY,
            control_plane.wait_for_destination,
            after=("Check extension state",),
            skip=control_plane.skip_destination,
        ),
        Task("Wake etcd", backups.wake_etcd, after=(DESTINATION_READY,), skip=backups.skip_wake),
        Task("Stop controllers", control_plane.stop(*CONTROLLERS), after=("Wake etcd",)),
        Task("Stop kube-apiserver", control_plane.stop(API_SERVER), after=("Stop controllers",)),
        Task("Migrate extension resources", extensions.migrate(*ALL_EXTENSIONS), after=("Stop kube-apiserver",)),
        Task("Persist extension state", extensions.wait_until_persisted, after=("Migrate extension resources",)),
        Task(
            "Remove extension resources",
            extensions.delete_migrated(*ALL_EXTENSIONS),
            after=("Persist extension state",),
        ),
        Task("Hand over etcd", backups.hand_over_etcd, after=("Remove extension resources",)),
        Task("Release", backups.record_release, after=("Hand over etcd",)),
    ],
)
"""At the source. When it is done, `status.seedName` changes to the next seed; `LEAVE` removes what is left once that
seed runs the shoot."""

LEAVE: Flow[Context] = Flow(
    "Leave",
    [
        Task("Stop controllers", control_plane.stop(*CONTROLLERS)),
        Task("Stop kube-apiserver", control_plane.stop(API_SERVER)),
        Task("Migrate extension resources", extensions.migrate(*ALL_EXTENSIONS)),
        Task(
            "Remove extension resources",
            extensions.delete_migrated(*ALL_EXTENSIONS),
            after=("Migrate extension resources", "Stop controllers"),
        ),
        Task("Wait for successor", backups.wait_for_successor),
        Task("Remove etcd", backups.delete_etcd, after=("Wait for successor", "Stop kube-apiserver")),
        Task("Remove namespace", control_plane.delete_namespace, after=("Remove etcd", "Remove extension resources")),
        Task("Remove cluster", control_plane.delete_cluster, after=("Remove namespace",)),
    ],
)
"""At a seed that no longer has the shoot: after a migration, and when it returns after it was given up."""

DELETE: Flow[Context] = Flow(
    "Delete",
    [
        Task("Delete extensions", extensions.delete(Extension)),
        Task("Delete worker", extensions.delete(Worker)),
        Task(
            "Stop machine-controller-manager",
            control_plane.stop(MACHINE_CONTROLLER_MANAGER),
            after=("Delete worker",),
        ),
        Task("Stop controllers", control_plane.stop(*CONTROLLERS), after=("Stop machine-controller-manager",)),
        Task("Delete DNS records", extensions.delete(DNSRecord), after=("Delete worker",)),
        Task("Stop kube-apiserver", control_plane.stop(API_SERVER), after=("Stop controllers", "Delete extensions")),
        Task(
            "Delete network and control plane",
            extensions.delete(Network, ControlPlane, OperatingSystemConfig),
            after=("Stop controllers",),
        ),
        Task(
            "Delete infrastructure",
            extensions.delete(Infrastructure),
            after=("Delete network and control plane", "Delete DNS records", "Delete extensions"),
        ),
        Task("Delete etcd", backups.delete_etcd, after=("Stop kube-apiserver",)),
        Task("Delete backup entries", backups.delete_backup_entries, after=("Delete etcd",)),
        Task(
            "Delete namespace",
            control_plane.delete_namespace,
            after=("Delete infrastructure", "Delete etcd", "Delete backup entries"),
        ),
        Task("Delete cluster", control_plane.delete_cluster, after=("Delete namespace",)),
    ],
)

FLOWS = {flow.name: flow for flow in (RECONCILE, MIGRATE, LEAVE, DELETE)}
"""By name; Create, Reconcile and Restore are one."""


def flow_of(operation: str) -> Flow[Context]:
    """The flow of a `lastOperation.type`."""
    return FLOWS.get(operation, RECONCILE)
