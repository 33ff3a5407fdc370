"""Names and keys of the gardenlet, besides those that all parts of a migration share (`api/gardener`)."""

from __future__ import annotations

from typing import Annotated

from espalier.api.definitions.reference import Annotation, Label, Writer
from espalier.api.gardener.extensions.control_plane import ControlPlane
from espalier.api.gardener.extensions.dns_record import DNSRecord
from espalier.api.gardener.extensions.extension import Extended, Extension
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.network import Network
from espalier.api.gardener.extensions.operating_system_config import OperatingSystemConfig
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.vocabulary import metadata_keys

FINALIZER = "gardener"
FIELD_MANAGER = "gardenlet"
SHOOT_UID: Annotated[
    str,
    Annotation(
        "Namespace and Cluster of a shoot",
        Writer.GARDENLET,
        "`status.uid` of the Shoot that they belong to. Those of another shoot, or of which nothing tells "
        "whose they are, are never touched.",
        "set it on a Namespace or Cluster without one, if the shoot's error names it",
    ),
] = "shoot.gardener.cloud/uid"

GARDENER_ROLE: Annotated[str, Label("Namespace of a shoot", Writer.GARDENLET, "`shoot`.")] = "gardener.cloud/role"
SHOOT_NAME: Annotated[str, Label("Namespace of a shoot", Writer.GARDENLET, "Name of the Shoot.")] = (
    "shoot.gardener.cloud/name"
)
MANAGED_BY: Annotated[
    str,
    Label(
        "Secret of a shoot in its seed",
        Writer.GARDENLET,
        "`gardenlet`: it is carried in the ShootState, or derived from what is.",
    ),
] = "gardener.cloud/managed-by"

INITIATED_AT: Annotated[
    str,
    Annotation(
        "Etcd",
        Writer.GARDENLET,
        "When the agent was first asked to hand etcd over. From then on the move can't be taken back.",
    ),
] = metadata_keys.DOMAIN + "copy-initiated-at"

WOKEN_AT: Annotated[
    str, Annotation("Etcd", Writer.GARDENLET, "When the etcd of a hibernated shoot was scaled up, to be handed over.")
] = metadata_keys.DOMAIN + "woken-at"

COPIED_EPOCH: Annotated[
    str, Annotation("BackupEntry", Writer.GARDENLET, "The epoch for which all backups of its predecessor were copied.")
] = metadata_keys.DOMAIN + "copied-epoch"

BACKUPS_SINCE: Annotated[
    str,
    Annotation(
        "BackupEntry",
        Writer.GARDENLET,
        "On that of a Shoot that is being deleted: the epoch in which it was created anew, because the "
        "deletion had deleted earlier backups.",
    ),
] = metadata_keys.DOMAIN + "backups-since"

CREDENTIALS_OF: Annotated[
    str,
    Annotation(
        "Secret with the provider's credentials, in a seed",
        Writer.GARDENLET,
        "The Secret of the garden that it was copied from, and for which generation of the Shoot.",
        "it is copied again when the spec of the Shoot changes",
    ),
] = metadata_keys.DOMAIN + "credentials-of"

RENDERED: Annotated[
    str,
    Annotation(
        "objects of a shoot in its seed, copied credentials, objects of Etcds",
        Writer.GARDENLET,
        "Digest of the object as rendered, so that a field that is no longer rendered is removed. On objects "
        "of Etcds the controller of Etcds sets it.",
    ),
] = metadata_keys.DOMAIN + "rendered"

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
APP: Annotated[str, Label("Deployment and Pod of a control plane", Writer.GARDENLET, "`kubernetes`.")] = "app"
CONTROL_PLANE = f"{APP}=kubernetes"
"""The label of pods of control planes."""
ROLE: Annotated[
    str,
    Label(
        "Deployment and Pod of a control plane",
        Writer.GARDENLET,
        "The program, without `kube-`: `apiserver`, `controller-manager`, `scheduler`, `machine-controller-manager`.",
    ),
] = "role"

CONTROLLERS = (MACHINE_CONTROLLER_MANAGER, CONTROLLER_MANAGER, SCHEDULER)
"""Deployments that change the shoot or its machines by themselves."""

BEFORE_API_SERVER: tuple[type[Extended], ...] = (
    Infrastructure,
    Network,
    ControlPlane,
    OperatingSystemConfig,
    DNSRecord,
)
"""Extension kinds that need no API server of the shoot."""

AFTER_API_SERVER: tuple[type[Extended], ...] = (Extension, Worker)
"""Extension kinds that are deployed once the shoot's API server answers."""
