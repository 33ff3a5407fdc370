"""Names and keys of the gardenlet, besides those that all parts of a migration share (`api/gardener`)."""

from __future__ import annotations

from espalier.api.gardener import metadata_keys
from espalier.api.gardener.control_plane import ControlPlane
from espalier.api.gardener.dns_record import DNSRecord
from espalier.api.gardener.extension import Extended, Extension
from espalier.api.gardener.infrastructure import Infrastructure
from espalier.api.gardener.network import Network
from espalier.api.gardener.operating_system_config import OperatingSystemConfig
from espalier.api.gardener.worker import Worker

FINALIZER = "gardener"
FIELD_MANAGER = "gardenlet"
SHOOT_UID = "shoot.gardener.cloud/uid"
"""On namespaces and Clusters: their shoot."""

INITIATED_AT = metadata_keys.DOMAIN + "copy-initiated-at"
"""On an Etcd: the time at which its gardenlet first asked the agent to hand it over."""

WOKEN_AT = metadata_keys.DOMAIN + "woken-at"
"""On an Etcd: the time at which a hibernated shoot's etcd was scaled up, to be handed over."""

COPIED_EPOCH = metadata_keys.DOMAIN + "copied-epoch"
"""On a BackupEntry: the epoch for which the predecessor's backups were copied into its container."""

BACKUPS_SINCE = metadata_keys.DOMAIN + "backups-since"
"""On a BackupEntry of a Shoot that is being deleted: the epoch in which it was recreated, as the backups of earlier
epochs were deleted."""

CREDENTIALS_OF = metadata_keys.DOMAIN + "credentials-of"
"""On the Secret with credentials of a provider: the Secret of the garden that it was copied from, and for which
generation of the Shoot."""

RENDERED = metadata_keys.DOMAIN + "rendered"
"""On rendered objects: a digest of the object, which changes when a field is no longer rendered."""

GARDEN_NAMESPACE = "garden"
"""Namespace of a seed for objects that belong to no shoot: credentials of buckets."""

SEED_MISSING = "register it again under this name, or move the shoot to another seed"
"""Advice for a Seed that somebody has deleted although it has shoots."""

DESTINATION_READY = "Wait for destination"
"""Task of a migration before which nothing is stopped."""

API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
MACHINE_CONTROLLER_MANAGER = "machine-controller-manager"
CONTROL_PLANE = "app=kubernetes"
"""The label of pods of control planes."""
ROLE = "role"
"""Label of these pods: the program's name, without `kube-`."""

CONTROLLERS = (MACHINE_CONTROLLER_MANAGER, CONTROLLER_MANAGER, SCHEDULER)
"""Deployments that change the shoot or its machines by themselves."""

BEFORE_API_SERVER: tuple[type[Extended], ...] = (Infrastructure, Network, ControlPlane, OperatingSystemConfig)
"""Extension kinds that need no API server of the shoot."""

AFTER_API_SERVER: tuple[type[Extended], ...] = (Extension, Worker, DNSRecord)
"""Extension kinds that are deployed once the shoot's API server answers."""
