"""The flows of a gardenlet, as data.

Reconcile and restore are one graph (G4): tasks that only a moved shoot needs are skipped for others. Only the world
decides whether a task is done, so any process can continue a flow wherever it was left.
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
        Task("Wait for ownership epoch", backups.owner),
        Task("Generate secrets", secrets.generated, after=("Wait for ownership epoch",)),
        Task("Deploy namespace", control_plane.namespace, after=("Wait for ownership epoch",)),
        Task("Deploy secrets", secrets.deployed, after=("Generate secrets", "Deploy namespace")),
        Task("Derive secrets", secrets.derived_ones, after=("Deploy secrets",)),
        Task(
            "Deploy provider credentials",
            secrets.credentials,
            after=("Deploy namespace",),
            skip=secrets.skip_credentials,
        ),
        Task("Deploy backup entry", backups.entry, after=("Deploy namespace",)),
        Task(
            "Deploy source backup entry",
            backups.source_entry,
            after=("Deploy namespace",),
            skip=lambda ctx: backups.skip_copy(ctx) or ("all backups are copied" if ctx.scope.is_copied else ""),
        ),
        Task(
            "Copy backups",
            backups.copied,
            after=("Deploy backup entry", "Deploy source backup entry", "Derive secrets"),
            skip=backups.skip_copy,
        ),
        Task("Remove copying etcd", backups.copy_removed, after=("Copy backups",)),
        Task("Remove source backup entry", backups.source_entry_removed, after=("Remove copying etcd",)),
        Task(
            "Wait for lease of source",
            backups.lease_over,
            after=("Copy backups",),
            skip=backups.skip_lease,
        ),
        Task(
            "Take ownership",
            backups.started,
            after=(
                "Remove source backup entry",
                "Wait for lease of source",
                "Deploy backup entry",
                "Deploy provider credentials",
                "Derive secrets",
            ),
        ),
        Task("Deploy etcd", backups.etcd_deployed, after=("Take ownership",)),
        Task("Deploy services", control_plane.services, after=("Deploy namespace",)),
        Task("Deploy infrastructure", extensions.deploy(Infrastructure), after=("Take ownership",)),
        Task("Deploy kube-apiserver", control_plane.deployed(API_SERVER), after=("Deploy etcd", "Deploy services")),
        Task("Deploy network", extensions.deploy(Network), after=("Deploy infrastructure",)),
        Task("Deploy control plane", extensions.deploy(ControlPlane), after=("Deploy infrastructure",)),
        Task("Deploy operating system configs", extensions.deploy(OperatingSystemConfig), after=("Take ownership",)),
        Task("Deploy extensions", extensions.deploy(Extension), after=("Deploy kube-apiserver",)),
        Task("Deploy DNS records", extensions.deploy(DNSRecord), after=("Deploy kube-apiserver",)),
        Task(
            "Wait for nodes", control_plane.nodes_renewed, after=("Deploy DNS records",), skip=control_plane.skip_nodes
        ),
        Task(
            "Release leases of controllers",
            control_plane.leases_released,
            after=("Deploy kube-apiserver",),
            skip=control_plane.skip_leases,
        ),
        Task(
            "Deploy kube-controller-manager",
            control_plane.deployed(CONTROLLER_MANAGER),
            after=("Release leases of controllers", "Wait for nodes"),
        ),
        Task("Deploy kube-scheduler", control_plane.deployed(SCHEDULER), after=("Release leases of controllers",)),
        Task(
            "Deploy machine-controller-manager",
            control_plane.machines_deployed,
            after=("Deploy kube-apiserver", "Deploy control plane"),
        ),
        Task(
            "Deploy worker",
            extensions.deploy(Worker),
            after=("Deploy machine-controller-manager", "Deploy operating system configs", "Deploy network"),
        ),
        Task("Start machine-controller-manager", control_plane.machines_started, after=("Deploy worker",)),
        Task("Remove stale extension resources", extensions.stale, after=("Deploy extensions", "Deploy worker")),
    ],
)
"""Creation, reconcile and restore."""

MIGRATE: Flow[Context] = Flow(
    "Migrate",
    [
        Task("Check extension state", extensions.carriable),
        Task(
            DESTINATION_READY,
            control_plane.destination_ready,
            after=("Check extension state",),
            skip=control_plane.begun,
        ),
        Task("Wake etcd", backups.woken, after=(DESTINATION_READY,), skip=backups.skip_waking),
        Task("Stop controllers", control_plane.stopped(*CONTROLLERS), after=("Wake etcd",)),
        Task("Stop kube-apiserver", control_plane.stopped(API_SERVER), after=("Stop controllers",)),
        Task("Migrate extension resources", extensions.migrated(*ALL_EXTENSIONS), after=("Stop kube-apiserver",)),
        Task("Persist extension state", extensions.persisted, after=("Migrate extension resources",)),
        Task("Remove extension resources", extensions.removed(*ALL_EXTENSIONS), after=("Persist extension state",)),
        Task("Hand over etcd", backups.handed_over, after=("Remove extension resources",)),
        Task("Release", backups.released, after=("Hand over etcd",)),
    ],
)
"""At the source. When it is done, `status.seedName` changes to the next seed; `LEAVE` removes what is left once that
seed runs the shoot."""

LEAVE: Flow[Context] = Flow(
    "Leave",
    [
        Task("Stop controllers", control_plane.stopped(*CONTROLLERS)),
        Task("Stop kube-apiserver", control_plane.stopped(API_SERVER)),
        Task("Migrate extension resources", extensions.migrated(*ALL_EXTENSIONS)),
        Task(
            "Remove extension resources",
            extensions.removed(*ALL_EXTENSIONS),
            after=("Migrate extension resources", "Stop controllers"),
        ),
        Task("Wait for successor", backups.successor_started),
        Task("Remove etcd", backups.etcd_removed, after=("Wait for successor", "Stop kube-apiserver")),
        Task("Remove namespace", control_plane.namespace_gone, after=("Remove etcd", "Remove extension resources")),
        Task("Remove cluster", control_plane.cluster_gone, after=("Remove namespace",)),
    ],
)
"""At a seed that has lost the shoot: after a migration, and when it returns after it was given up."""

DELETE: Flow[Context] = Flow(
    "Delete",
    [
        Task("Delete extensions", extensions.deleted(Extension)),
        Task("Delete worker", extensions.deleted(Worker)),
        Task(
            "Stop machine-controller-manager",
            control_plane.stopped(MACHINE_CONTROLLER_MANAGER),
            after=("Delete worker",),
        ),
        Task("Stop controllers", control_plane.stopped(*CONTROLLERS), after=("Stop machine-controller-manager",)),
        Task("Delete DNS records", extensions.deleted(DNSRecord), after=("Delete worker",)),
        Task("Stop kube-apiserver", control_plane.stopped(API_SERVER), after=("Stop controllers", "Delete extensions")),
        Task(
            "Delete network and control plane",
            extensions.deleted(Network, ControlPlane, OperatingSystemConfig),
            after=("Stop controllers",),
        ),
        Task(
            "Delete infrastructure",
            extensions.deleted(Infrastructure),
            after=("Delete network and control plane", "Delete DNS records", "Delete extensions"),
        ),
        Task("Delete etcd", backups.etcd_removed, after=("Stop kube-apiserver",)),
        Task("Delete backup entries", backups.entry_removed, after=("Delete etcd",)),
        Task(
            "Delete namespace",
            control_plane.namespace_gone,
            after=("Delete infrastructure", "Delete etcd", "Delete backup entries"),
        ),
        Task("Delete cluster", control_plane.cluster_gone, after=("Delete namespace",)),
    ],
)

FLOWS = {flow.name: flow for flow in (RECONCILE, MIGRATE, LEAVE, DELETE)}
"""For drawings; Create, Reconcile and Restore are one."""


def flow_of(operation: str) -> Flow[Context]:
    """The flow of a `lastOperation.type`."""
    return FLOWS.get(operation, RECONCILE)
