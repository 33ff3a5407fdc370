"""The flows of a gardenlet, as data. Names of tasks are the IDs in statuses of Shoots: they never change.

Reconcile and restore are one graph (G4): tasks that only a moved shoot needs are skipped for others. Only observed
objects decide whether a task is done, so any process can continue a flow wherever it was left.
"""

from __future__ import annotations

from espalier.api.gardener.extensions.control_plane import ControlPlane
from espalier.api.gardener.extensions.dns_record import DNSRecord
from espalier.api.gardener.extensions.extension import Extension
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.network import Network
from espalier.api.gardener.extensions.operating_system_config import OperatingSystemConfig
from espalier.api.gardener.extensions.worker import Worker
from espalier.shoots.flow.graph import Flow
from espalier.shoots.gardenlet.context import ShootContext
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


def _reconcile() -> Flow[ShootContext]:
    flow: Flow[ShootContext] = Flow("Reconcile")
    # What may exist before this seed owns the shoot: its namespace, secrets and credentials.
    wait_for_ownership_epoch = flow.add("Wait for ownership epoch", backups.wait_for_ownership)
    generate_secrets = flow.add("Generate secrets", secrets.generate, after=[wait_for_ownership_epoch])
    deploy_namespace = flow.add("Deploy namespace", control_plane.deploy_namespace, after=[wait_for_ownership_epoch])
    deploy_secrets = flow.add(
        "Deploy secrets",
        secrets.deploy,
        after=[generate_secrets, deploy_namespace],
    )
    derive_secrets = flow.add("Derive secrets", secrets.derive, after=[deploy_secrets])
    deploy_provider_credentials = flow.add(
        "Deploy provider credentials",
        secrets.deploy_credentials,
        after=[deploy_namespace],
        skip=secrets.skip_credentials,
    )
    # Backups are copied before anything of this epoch starts, so that its etcd restores the last of the source.
    deploy_backup_entry = flow.add("Deploy backup entry", backups.deploy_backup_entry, after=[deploy_namespace])
    deploy_source_backup_entry = flow.add(
        "Deploy source backup entry",
        backups.deploy_source_backup_entry,
        after=[deploy_namespace],
        skip=lambda ctx: backups.skip_copy(ctx) or ("all backups are copied" if ctx.scope.is_copied else ""),
    )
    copy_backups = flow.add(
        "Copy backups",
        backups.copy_backups,
        after=[deploy_backup_entry, deploy_source_backup_entry, derive_secrets],
        skip=backups.skip_copy,
    )
    remove_copying_etcd = flow.add("Remove copying etcd", backups.delete_copy_etcd, after=[copy_backups])
    remove_source_backup_entry = flow.add(
        "Remove source backup entry", backups.delete_source_backup_entry, after=[remove_copying_etcd]
    )
    # From this task on the source must be silent: etcd, and all that acts outside, start after it.
    wait_for_lease_of_source = flow.add(
        "Wait for lease of source", backups.wait_for_source_lease, after=[copy_backups], skip=backups.skip_lease_wait
    )
    take_ownership = flow.add(
        "Take ownership",
        backups.record_start,
        after=[
            remove_source_backup_entry,
            wait_for_lease_of_source,
            deploy_backup_entry,
            deploy_provider_credentials,
            derive_secrets,
        ],
    )
    # The control plane, and the extension resources with the state that was restored.
    deploy_etcd = flow.add("Deploy etcd", backups.deploy_etcd, after=[take_ownership])
    deploy_services = flow.add("Deploy services", control_plane.deploy_services, after=[deploy_namespace])
    deploy_infrastructure = flow.add("Deploy infrastructure", extensions.deploy(Infrastructure), after=[take_ownership])
    deploy_api_server = flow.add(
        "Deploy kube-apiserver",
        control_plane.deploy(API_SERVER),
        after=[deploy_etcd, deploy_services],
    )
    deploy_network = flow.add("Deploy network", extensions.deploy(Network), after=[deploy_infrastructure])
    deploy_control_plane = flow.add(
        "Deploy control plane", extensions.deploy(ControlPlane), after=[deploy_infrastructure]
    )
    deploy_operating_system_configs = flow.add(
        "Deploy operating system configs", extensions.deploy(OperatingSystemConfig), after=[take_ownership]
    )
    deploy_extensions = flow.add("Deploy extensions", extensions.deploy(Extension), after=[deploy_api_server])
    deploy_dns_records = flow.add(
        "Deploy DNS records", extensions.deploy(DNSRecord), after=[take_ownership, deploy_services]
    )
    # Controllers start last: they would take nodes for lost that have not renewed their Leases since the hand-over, and
    # wait for the Leases that the controllers of the source held.
    wait_for_nodes = flow.add(
        "Wait for nodes",
        control_plane.wait_for_nodes,
        after=[deploy_api_server, deploy_dns_records],
        skip=control_plane.skip_nodes,
    )
    release_leases_of_controllers = flow.add(
        "Release leases of controllers",
        control_plane.release_leases,
        after=[deploy_api_server],
        skip=control_plane.skip_leases,
    )
    flow.add(
        "Deploy kube-controller-manager",
        control_plane.deploy(CONTROLLER_MANAGER),
        after=[release_leases_of_controllers, wait_for_nodes],
    )
    flow.add("Deploy kube-scheduler", control_plane.deploy(SCHEDULER), after=[release_leases_of_controllers])
    # Machines are restored before the program that compares them with the cloud starts: it would create them again.
    deploy_machine_controller_manager = flow.add(
        "Deploy machine-controller-manager",
        control_plane.deploy_machine_controller_manager,
        after=[deploy_api_server, deploy_control_plane],
    )
    deploy_worker = flow.add(
        "Deploy worker",
        extensions.deploy(Worker),
        after=[deploy_machine_controller_manager, deploy_operating_system_configs, deploy_network],
    )
    flow.add("Start machine-controller-manager", control_plane.start_machine_controller_manager, after=[deploy_worker])
    flow.add(
        "Remove stale extension resources",
        extensions.delete_stale,
        after=[deploy_extensions, deploy_worker],
    )
    return flow


def _migrate() -> Flow[ShootContext]:
    flow: Flow[ShootContext] = Flow("Migrate")
    check_extension_state = flow.add("Check extension state", extensions.check_states)
    destination_ready = flow.add(
        DESTINATION_READY,
        control_plane.wait_for_destination,
        after=[check_extension_state],
        skip=control_plane.skip_destination,
    )
    wake_etcd = flow.add("Wake etcd", backups.wake_etcd, after=[destination_ready], skip=backups.skip_wake)
    stop_controllers = flow.add("Stop controllers", control_plane.stop(*CONTROLLERS), after=[wake_etcd])
    stop_api_server = flow.add("Stop kube-apiserver", control_plane.stop(API_SERVER), after=[stop_controllers])
    # While kube-apiserver ends, which takes it a second: nobody can write any more.
    migrate_extension_resources = flow.add(
        "Migrate extension resources",
        control_plane.once_stopping(API_SERVER, extensions.migrate(*ALL_EXTENSIONS)),
        after=[stop_controllers],
    )
    persist_extension_state = flow.add(
        "Persist extension state", extensions.wait_until_persisted, after=[migrate_extension_resources]
    )
    remove_extension_resources = flow.add(
        "Remove extension resources", extensions.delete_migrated(*ALL_EXTENSIONS), after=[persist_extension_state]
    )
    hand_over_etcd = flow.add(
        "Hand over etcd", backups.hand_over_etcd, after=[remove_extension_resources, stop_api_server]
    )
    flow.add("Release", backups.record_release, after=[hand_over_etcd])
    return flow


def _leave() -> Flow[ShootContext]:
    flow: Flow[ShootContext] = Flow("Leave")
    stop_controllers = flow.add("Stop controllers", control_plane.stop(*CONTROLLERS))
    stop_api_server = flow.add("Stop kube-apiserver", control_plane.stop(API_SERVER))
    # A machine controller manager that still runs would set the finalizers again that are removed here.
    migrate_extension_resources = flow.add(
        "Migrate extension resources", extensions.migrate(*ALL_EXTENSIONS), after=[stop_controllers]
    )
    remove_extension_resources = flow.add(
        "Remove extension resources",
        extensions.delete_migrated(*ALL_EXTENSIONS),
        after=[migrate_extension_resources],
    )
    wait_for_successor = flow.add("Wait for successor", backups.wait_for_successor)
    remove_etcd = flow.add(
        "Remove etcd",
        backups.delete_etcd,
        after=[wait_for_successor, stop_api_server],
    )
    remove_namespace = flow.add(
        "Remove namespace",
        control_plane.delete_namespace,
        after=[remove_etcd, remove_extension_resources],
    )
    flow.add("Remove cluster", control_plane.delete_cluster, after=[remove_namespace])
    return flow


def _delete() -> Flow[ShootContext]:
    flow: Flow[ShootContext] = Flow("Delete")
    delete_extensions = flow.add("Delete extensions", extensions.delete(Extension))
    delete_worker = flow.add("Delete worker", extensions.delete(Worker))
    stop_machine_controller_manager = flow.add(
        "Stop machine-controller-manager", control_plane.stop(MACHINE_CONTROLLER_MANAGER), after=[delete_worker]
    )
    stop_controllers = flow.add(
        "Stop controllers", control_plane.stop(*CONTROLLERS), after=[stop_machine_controller_manager]
    )
    delete_dns_records = flow.add("Delete DNS records", extensions.delete(DNSRecord), after=[delete_worker])
    stop_api_server = flow.add(
        "Stop kube-apiserver",
        control_plane.stop(API_SERVER),
        after=[stop_controllers, delete_extensions],
    )
    delete_network_and_control_plane = flow.add(
        "Delete network and control plane",
        extensions.delete(Network, ControlPlane, OperatingSystemConfig),
        after=[stop_controllers],
    )
    delete_infrastructure = flow.add(
        "Delete infrastructure",
        extensions.delete(Infrastructure),
        after=[delete_network_and_control_plane, delete_dns_records, delete_extensions],
    )
    delete_etcd = flow.add("Delete etcd", backups.delete_etcd, after=[stop_api_server])
    delete_backup_entries = flow.add("Delete backup entries", backups.delete_backup_entries, after=[delete_etcd])
    delete_namespace = flow.add(
        "Delete namespace",
        control_plane.delete_namespace,
        after=[delete_infrastructure, delete_etcd, delete_backup_entries],
    )
    flow.add("Delete cluster", control_plane.delete_cluster, after=[delete_namespace])
    return flow


RECONCILE = _reconcile()
"""Creation, reconcile and restore."""

MIGRATE = _migrate()
"""At the source. When it is done, `status.seedName` changes to the next seed; `LEAVE` removes what is left once that
seed runs the shoot."""

LEAVE = _leave()
"""At a seed that no longer has the shoot: after a migration, and when it returns after it was given up."""

DELETE = _delete()

FLOWS = {flow.name: flow for flow in (RECONCILE, MIGRATE, LEAVE, DELETE)}
"""By name; Create, Reconcile and Restore are one."""


def flow_of(operation: str) -> Flow[ShootContext]:
    """The flow of a `lastOperation.type`."""
    return FLOWS.get(operation, RECONCILE)
