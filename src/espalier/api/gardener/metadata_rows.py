"""Annotations, labels and finalizers on Gardener's kinds that Espalier sets or reads. One table.

`make pages` writes `docs/reference/gardener/metadata.md` from it, and `tests/conventions` compares it with the code.
Keys that the code in lower layers needs are in `metadata_keys.py`.
"""

from __future__ import annotations

from espalier.api.gardener import machines, metadata_keys, move_times, shoot_state
from espalier.api.reference import MetadataField, MetadataKey, Writer

DOMAIN = metadata_keys.DOMAIN
_EXTENSIONS = "extension kinds"
_RENDERED = "objects of a shoot in its seed"

ANNOTATIONS: tuple[MetadataKey, ...] = (
    MetadataKey(
        metadata_keys.OPERATION,
        "Shoot",
        Writer.USER,
        "`reconcile`: the shoot and all its extension resources are reconciled now. `retry`: a failed operation is "
        "tried again, also by the extensions that failed. The gardenlet removes the annotation when it is carried out. "
        "`maintain` and Gardener's `rotate-…` and `force-…` are accepted, without effect.",
        "set `retry` after the cause of a failure was removed",
    ),
    MetadataKey(
        metadata_keys.OPERATION,
        _EXTENSIONS,
        Writer.GARDENLET,
        "The operation requested of the extension: `reconcile`, `migrate`, `restore`, or `wait-for-state`. "
        "`reconcile` is removed when it has begun, `migrate` and `restore` when they are done.",
        "leave it to the gardenlet; [migration.md](../../migration.md#what-can-happen) has the one exception",
    ),
    MetadataKey(
        metadata_keys.OLDER_OPERATION,
        f"Shoot, {_EXTENSIONS}",
        Writer.USER,
        f"Read and removed like `{metadata_keys.OPERATION}`, and never set.",
        f"use `{metadata_keys.OPERATION}`",
    ),
    MetadataKey(
        metadata_keys.TIMESTAMP,
        _EXTENSIONS,
        Writer.GARDENLET,
        "Time of the last request, so that requesting the same operation again is a change.",
    ),
    MetadataKey(
        metadata_keys.CONFIRM_DELETION,
        _EXTENSIONS,
        Writer.GARDENLET,
        "`true`: the resource may be deleted with what is behind it. Set before the gardenlet deletes it; without it "
        "extensions delete nothing, and the resource is restored. On Shoots it has no effect.",
    ),
    MetadataKey(
        metadata_keys.CONFIRM_DELETION,
        "Seed",
        Writer.USER,
        "`true`: the Seed may be deleted although its cluster has, or may have, something of shoots that were moved.",
        "only if the cluster is gone for good, or may keep it",
    ),
    MetadataKey(
        metadata_keys.FORCE_RESTORE,
        "Shoot",
        Writer.USER,
        "`true`: the shoot moves on without its source, although that may be alive. For the present move alone: the "
        "garden removes it when that is over. Only users who may move shoots can set it.",
        "`espalier shoots migrate --give-up-source` sets it, if the source is certainly gone",
    ),
    MetadataKey(
        metadata_keys.OWNERSHIP,
        "Shoot",
        Writer.GARDEN,
        "The ownership epochs: which seeds had the shoot's etcd, in which buckets. The gardenlet of the newest one "
        "marks it as started. Nobody else can write it.",
        "`espalier shoots describe` shows it; if it can't be read, restore it from a backup of the garden",
    ),
    MetadataKey(
        metadata_keys.RELEASED_EPOCH,
        "Shoot",
        Writer.GARDENLET,
        "The epoch whose seed has migrated all extension resources away, so that the next one does not wait for its "
        "lease to end.",
    ),
    MetadataKey(
        metadata_keys.RESTORED_EPOCH,
        "Shoot",
        Writer.GARDENLET,
        "The epoch whose seed has finished restoring the shoot. Until then nothing of a shoot that was moved is "
        "created without its state, whatever `status.lastOperation` says.",
    ),
    MetadataKey(
        metadata_keys.STATE_REVISION,
        "ShootState",
        Writer.GARDENLET,
        "The number of writes of its gardenlets.",
        "to restore an older one on purpose, set it to the value that the Shoot's error names",
    ),
    MetadataKey(
        metadata_keys.STATE_REVISION,
        "Shoot",
        Writer.GARDENLET,
        "The revision of the ShootState that its gardenlet has last reported, every minute. No other seed restores one "
        "with a smaller revision: it is older than what the seed had stored.",
    ),
    MetadataKey(
        metadata_keys.EPOCH,
        f"Etcd, {_EXTENSIONS}, Cluster, Namespace of a shoot, ShootState",
        Writer.GARDENLET,
        "The ownership epoch that the object belongs to.",
    ),
    MetadataKey(
        metadata_keys.SOURCE_EPOCH,
        "Etcd",
        Writer.GARDENLET,
        "The epoch whose backups are, or were, copied for this one.",
    ),
    MetadataKey(
        metadata_keys.FOUNDING,
        "Etcd",
        Writer.GARDENLET,
        "`true`: there are no backups to start from, so etcd may start empty, as in a shoot's first epoch.",
    ),
    MetadataKey(
        metadata_keys.GIVEN_STATE,
        _EXTENSIONS,
        Writer.GARDENLET,
        "Digest of the state that the resource was given to restore. While it still has that one, a corrected "
        "ShootState replaces it.",
    ),
    MetadataKey(
        metadata_keys.RESULT_DIGESTS,
        _EXTENSIONS,
        Writer.EXTENSION,
        "JSON: the digest of each field of the status that the extension has reported as a result, such as "
        "`providerStatus`. A field with another value is not passed on to other resources; the extension reports its "
        "own again. Without the annotation every value counts.",
    ),
    MetadataKey(
        f"{DOMAIN}copy-initiated-at",
        "Etcd",
        Writer.GARDENLET,
        "When the agent was first asked to hand etcd over. From then on the move can't be taken back.",
    ),
    MetadataKey(
        f"{DOMAIN}woken-at",
        "Etcd",
        Writer.GARDENLET,
        "When the etcd of a hibernated shoot was scaled up, to be handed over.",
    ),
    MetadataKey(
        f"{DOMAIN}copied-epoch",
        "BackupEntry",
        Writer.GARDENLET,
        "The epoch for which all backups of its predecessor were copied.",
    ),
    MetadataKey(
        f"{DOMAIN}backups-since",
        "BackupEntry",
        Writer.GARDENLET,
        "On that of a Shoot that is being deleted: the epoch in which it was created anew, because the deletion had "
        "deleted earlier backups.",
    ),
    MetadataKey(
        f"{DOMAIN}credentials-of",
        "Secret with the provider's credentials, in a seed",
        Writer.GARDENLET,
        "The Secret of the garden that it was copied from, and for which generation of the Shoot.",
        "it is copied again when the spec of the Shoot changes",
    ),
    MetadataKey(
        f"{DOMAIN}rendered",
        f"{_RENDERED}, copied credentials, objects of Etcds",
        Writer.GARDENLET,
        "Digest of the object as rendered, so that a field that is no longer rendered is removed. On objects of Etcds "
        "the controller of Etcds sets it.",
    ),
    MetadataKey(
        "shoot.gardener.cloud/uid",
        "Namespace and Cluster of a shoot",
        Writer.GARDENLET,
        "`status.uid` of the Shoot that they belong to. Those of another shoot, or of which nothing tells whose they "
        "are, are never touched.",
        "set it on a Namespace or Cluster without one, if the shoot's error names it",
    ),
    MetadataKey(
        move_times.KEY,
        "Lease of a seed",
        Writer.GARDENLET,
        "The times with which the gardenlet runs, for `espalier shoots plan`.",
    ),
    MetadataKey(
        "checksum/etcd-config",
        "Pod of an Etcd",
        Writer.ETCD,
        "Digest of its configuration: the pod is replaced when that changes.",
    ),
)

LABELS: tuple[MetadataKey, ...] = (
    MetadataKey(
        metadata_keys.SEED,
        "ShootState",
        Writer.GARDENLET,
        "The seed that keeps it up to date.",
    ),
    MetadataKey(
        metadata_keys.SHOOT_UID,
        f"Secret of type `{DOMAIN}state`, in namespace `shoot-states` of the garden",
        Writer.GARDENLET,
        "UID of the Shoot whose state it holds. It is deleted an hour after that is gone.",
    ),
    MetadataKey(
        metadata_keys.EPOCH,
        f"Secret of type `{DOMAIN}state`",
        Writer.GARDENLET,
        "The ownership epoch in which it was written.",
    ),
    MetadataKey(f"{DOMAIN}shoot", "BackupEntry", Writer.GARDENLET, "Name of its Shoot."),
    MetadataKey("gardener.cloud/role", "Namespace of a shoot", Writer.GARDENLET, "`shoot`."),
    MetadataKey("shoot.gardener.cloud/name", "Namespace of a shoot", Writer.GARDENLET, "Name of the Shoot."),
    MetadataKey(
        "gardener.cloud/managed-by",
        "Secret of a shoot in its seed",
        Writer.GARDENLET,
        "`gardenlet`: it is carried in the ShootState, or derived from what is.",
    ),
    MetadataKey(
        "app",
        "Deployment and Pod of a control plane",
        Writer.GARDENLET,
        "`kubernetes`.",
    ),
    MetadataKey(
        "role",
        "Deployment and Pod of a control plane",
        Writer.GARDENLET,
        "The program, without `kube-`: `apiserver`, `controller-manager`, `scheduler`, `machine-controller-manager`.",
    ),
    MetadataKey(
        "instance",
        "objects of an Etcd",
        Writer.ETCD,
        "Name of the Etcd. Objects without it are not watched; the controller of Etcds sets it again.",
    ),
    MetadataKey("name", "objects of an Etcd", Writer.ETCD, "`etcd`."),
    MetadataKey(
        "name",
        "MachineSet, Machine",
        Writer.EXTENSION,
        "Name of the MachineDeployment (type `local`).",
    ),
    MetadataKey(
        "node",
        "Machine",
        Writer.MACHINES,
        "Name of its node.",
    ),
    MetadataKey(
        "worker.gardener.cloud/pool",
        "`spec.template.spec.nodeTemplate` of a MachineDeployment",
        Writer.EXTENSION,
        "Name of the worker pool, for its nodes (type `local`).",
    ),
)

FINALIZERS: tuple[MetadataKey, ...] = (
    MetadataKey(
        shoot_state.FINALIZER,
        "Shoot, BackupEntry, ShootState",
        Writer.GARDENLET,
        "Keeps a Shoot until everything of it is deleted, its ShootState until then, and a BackupEntry until its "
        "extension resource is gone.",
        "if the seed is lost for good: [migration.md](../../migration.md#what-can-happen)",
    ),
    MetadataKey(
        "druid.gardener.cloud/etcd-druid",
        "Etcd",
        Writer.ETCD,
        "Keeps the Etcd until its pods have ended, and its objects and data are deleted.",
        "condition `Ready` says what it waits for",
    ),
    MetadataKey(
        f"{metadata_keys.FINALIZER_PREFIX}KIND",
        _EXTENSIONS,
        Writer.EXTENSION,
        "Keeps the resource until everything made for it is deleted, or migrated. KIND is in lower case "
        "(`operatingsystemconfigs` is plural). Without it, deleting the resource deletes nothing at the provider.",
        "`status.lastError` of the resource says why it stays",
    ),
    MetadataKey(
        machines.FINALIZER,
        "Machine",
        Writer.MACHINES,
        "Keeps the Machine until its virtual machine is deleted.",
        "without it the virtual machine stays for five minutes, and is then deleted as an orphan",
    ),
)

BY_METADATA_FIELD = {
    MetadataField.ANNOTATION: ANNOTATIONS,
    MetadataField.LABEL: LABELS,
    MetadataField.FINALIZER: FINALIZERS,
}
