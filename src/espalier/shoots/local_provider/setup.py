"""Everything that a seed needs for shoots of type `local`, as components."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from espalier.api.cloud import CallCloud
from espalier.api.core import CONFIG_MAP, NAMESPACE, SECRET
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.control_plane import ControlPlane
from espalier.api.gardener.extensions.dns_record import DNSRecord
from espalier.api.gardener.extensions.extension import Extension as ExtensionKind
from espalier.api.gardener.extensions.extension_backups import BackupBucket, BackupEntry
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.network import Network
from espalier.api.gardener.extensions.operating_system_config import OperatingSystemConfig
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.machines import Machine, MachineClass, MachineDeployment, MachineSet
from espalier.api.kinds import KubeObject
from espalier.kube.rbac import FOLLOW, Right, Rights
from espalier.runtime.caches.cache import Caches
from espalier.runtime.component import Component, Host
from espalier.shoots.extension import Extension, controller_of, leases_of, with_digest
from espalier.shoots.local_provider import backups, dns_record, infrastructure, seed_objects, toy, worker, worker_state
from espalier.shoots.local_provider.backups import Stores
from espalier.shoots.local_provider.machine_objects import KINDS
from espalier.shoots.local_provider.worker import MachineViews

NAMESPACED: tuple[type[KubeObject], ...] = (
    Infrastructure,
    Worker,
    ControlPlane,
    Network,
    OperatingSystemConfig,
    DNSRecord,
    ExtensionKind,
)
CLUSTER_SCOPED: tuple[type[KubeObject], ...] = (BackupBucket, BackupEntry)
MACHINES: tuple[type[KubeObject], ...] = (MachineClass, MachineDeployment, MachineSet, Machine)
WRITE = ("get", "create", "patch", "delete")


_IN_NAMESPACES = tuple(kind.resource for kind in NAMESPACED)
_IN_NONE = tuple(kind.resource for kind in CLUSTER_SCOPED)
_OWNERS = (OperatingSystemConfig.resource, ControlPlane.resource, MachineDeployment.resource, MachineSet.resource)
"""Kinds whose deletion waits for objects that extensions create or restore: admission plugin
OwnerReferencesPermissionEnforcement asks for a right on them."""
RIGHTS = Rights(
    watched=(
        Right(_IN_NAMESPACES, ("get", "patch", *FOLLOW)),
        Right(_IN_NAMESPACES, ("patch",), subresource="status"),
        Right(_OWNERS, ("update",), subresource="finalizers"),
        Right(KINDS, (*WRITE, *FOLLOW)),
        Right((SECRET, CONFIG_MAP), (*WRITE, *FOLLOW)),
    ),
    cluster_scoped=(
        Right((Cluster.resource,), FOLLOW),
        Right(_IN_NONE, ("get", "patch", *FOLLOW)),
        Right(_IN_NONE, ("patch",), subresource="status"),
        Right((NAMESPACE,), ("get",)),
    ),
)
"""Rights in the seed."""


def extensions(
    call: CallCloud, stores: Stores, caches: Caches, views: MachineViews, new_token: Callable[[], str]
) -> tuple[Extension[Any], ...]:
    """All extensions of a seed."""
    secrets, config_maps = (caches.of(resource, transform=with_digest) for resource in (SECRET, CONFIG_MAP))
    return (
        infrastructure.extension(call),
        worker.extension(call, views, secrets),
        *seed_objects.extensions(secrets, config_maps),
        dns_record.extension(call),
        *backups.extensions(stores),
        toy.extension(new_token),
    )


def component(call: CallCloud, stores: Stores, timing: Timing, new_token: Callable[[], str]) -> Component:
    """The extension controllers of one seed. The seed's client, caches and clock are the host's.

    `call` reaches the cloud (`simulator.cloud.Cloud.called_by("seed-a")`), `stores` the buckets; `new_token` generates
    the toy extension's secrets.
    """

    def build(host: Host) -> None:
        views = MachineViews(host.caches)
        leases = leases_of(host, timing)
        for extension in extensions(call, stores, host.caches, views, new_token):
            host.manager.add(controller_of(extension, host, leases, timing))
        host.manager.add(worker_state.controller(host, views, leases))

    return Component("extensions-local", build, (*NAMESPACED, *CLUSTER_SCOPED, *MACHINES, Cluster), RIGHTS)
