"""Keys of annotations, labels and finalizers on Gardener's kinds, and the values of the operation annotation."""

from __future__ import annotations

from typing import Annotated

from espalier.api.definitions.reference import Annotation, Finalizer, Label, Writer

OPERATION: Annotated[
    str,
    Annotation(
        "Shoot",
        Writer.USER,
        "`reconcile`: the shoot and all its extension resources are reconciled now. `retry`: a failed "
        "operation is tried again, also by the extensions that failed. The gardenlet removes the annotation "
        "when it is carried out. `maintain` and Gardener's `rotate-…` and `force-…` are accepted, without "
        "effect.",
        "set `retry` after the cause of a failure was removed",
    ),
    Annotation(
        "extension kinds",
        Writer.GARDENLET,
        "The operation requested of the extension: `reconcile`, `migrate`, `restore`, or `wait-for-state`. "
        "`reconcile` is removed when it has begun, `migrate` and `restore` when they are done.",
        "leave it to the gardenlet; [migration.md](../../migration.md#what-can-happen) has the one exception",
    ),
] = "gardener.cloud/operation"

RECONCILE = "reconcile"
"""Reconcile now. Removed when the reconcile begins."""

MIGRATE = "migrate"
"""Stop, and clean up in this seed without deleting infrastructure. Removed when that is done."""

RESTORE = "restore"
"""Adopt what `status.state` describes, and reconcile it. Removed when that is done."""

WAIT_FOR_STATE = "wait-for-state"
"""Do nothing until the gardenlet has written the state and requests `restore`."""

CARRIED_OUT = frozenset({RECONCILE, MIGRATE, RESTORE, WAIT_FOR_STATE})
"""Operations that extensions carry out."""

OLDER_OPERATION: Annotated[
    str,
    Annotation(
        "Shoot, extension kinds",
        Writer.USER,
        "Read and removed like `gardener.cloud/operation`, and never set.",
        "use `gardener.cloud/operation`",
    ),
] = "core.gardener.cloud/operation"

TIMESTAMP: Annotated[
    str,
    Annotation(
        "extension kinds",
        Writer.GARDENLET,
        "Time of the last request, so that requesting the same operation again is a change.",
    ),
] = "gardener.cloud/timestamp"

CONFIRM_DELETION: Annotated[
    str,
    Annotation(
        "extension kinds, Etcd",
        Writer.GARDENLET,
        "`true`: the resource may be deleted with what is behind it. Set before the gardenlet deletes it; "
        "without it extensions delete nothing, and the resource is restored; the claims of an Etcd stay for the next "
        "one. On Shoots it has no effect.",
    ),
    Annotation(
        "Seed",
        Writer.USER,
        "`true`: the Seed may be deleted although its cluster has, or may have, something of shoots that were moved.",
        "only if the cluster is gone for good, or may keep it",
    ),
] = "confirmation.gardener.cloud/deletion"

FORCE_RESTORE: Annotated[
    str,
    Annotation(
        "Shoot",
        Writer.USER,
        "`true`: the shoot moves on without its source, although that may be alive. For the present move "
        "alone: the garden removes it when that is over. Only users who may move shoots can set it.",
        "`espalier shoots migrate --give-up-source` sets it, if the source is certainly gone",
    ),
] = "shoot.gardener.cloud/force-restore"

DOMAIN = "espalier.gardener.cloud/"
"""Our own annotations: people and project members never write them."""

OWNERSHIP: Annotated[
    str,
    Annotation(
        "Shoot",
        Writer.GARDEN,
        "The ownership epochs: which seeds had the shoot's etcd, in which buckets. The gardenlet of the "
        "newest one marks it as started. Nobody else can write it.",
        "`espalier shoots describe` shows it; if it can't be read, restore it from a backup of the garden",
    ),
] = DOMAIN + "ownership"
"""An `ownership.Ownership`."""

GIVE_UP_AFTER: Annotated[
    str,
    Annotation(
        "Seed",
        Writer.GARDEN,
        "Seconds of silence after which the garden gives the seed up, for `espalier shoots plan`.",
        "`espalier garden --give-up-after` sets it",
    ),
] = DOMAIN + "give-up-after"

RELEASED_EPOCH: Annotated[
    str,
    Annotation(
        "Shoot",
        Writer.GARDENLET,
        "The epoch whose seed has migrated all extension resources away, so that the next one does not wait "
        "for its lease to end.",
    ),
] = DOMAIN + "released-epoch"
"""Only the gardenlet of that seed writes it."""

RESTORED_EPOCH: Annotated[
    str,
    Annotation(
        "Shoot",
        Writer.GARDENLET,
        "The epoch whose seed has finished restoring the shoot. Until then nothing of a shoot that was moved "
        "is created without its state, whatever `status.lastOperation` says.",
    ),
] = DOMAIN + "restored-epoch"
"""Only the gardenlet of that seed writes it."""

STATE_REVISION: Annotated[
    str,
    Annotation(
        "ShootState",
        Writer.GARDENLET,
        "The number of writes of its gardenlets.",
        "to restore an older one on purpose, set it to the value that the Shoot's error names",
    ),
    Annotation(
        "Shoot",
        Writer.GARDENLET,
        "The revision of the ShootState that its gardenlet has last reported, every minute. No other seed "
        "restores one with a smaller revision: it is older than what the seed had stored.",
    ),
] = DOMAIN + "state-revision"

SECRET_DIGESTS: Annotated[
    str,
    Annotation(
        "Shoot",
        Writer.GARDENLET,
        "JSON: the digest of each secret that its ShootState keeps, as its seed has deployed them. Of a ShootState and "
        "a seed that differ, the one with the digest counts; no other seed restores a secret with another one.",
        "to restore other secrets on purpose, remove it",
    ),
] = DOMAIN + "secret-digests"

GIVEN_STATE: Annotated[
    str,
    Annotation(
        "extension kinds",
        Writer.GARDENLET,
        "Digest of the state that the resource was given to restore. While it still has that one, a "
        "corrected ShootState replaces it.",
    ),
] = DOMAIN + "given-state"

RESULT_DIGESTS: Annotated[
    str,
    Annotation(
        "extension kinds",
        Writer.EXTENSION,
        "JSON: the digest of each field of the status that the extension has reported as a result, such as "
        "`providerStatus`. A field with another value is not passed on to other resources; the extension "
        "reports its own again. Without the annotation every value counts.",
    ),
] = DOMAIN + "result-digests"

EPOCH: Annotated[
    str,
    Annotation(
        "Etcd, extension kinds, Cluster, Namespace of a shoot, ShootState",
        Writer.GARDENLET,
        "The ownership epoch that the object belongs to.",
    ),
    Label(
        "Secret of type `espalier.gardener.cloud/state`",
        Writer.GARDENLET,
        "The ownership epoch in which it was written.",
    ),
] = DOMAIN + "epoch"

SOURCE_EPOCH: Annotated[
    str, Annotation("Etcd", Writer.GARDENLET, "The epoch whose backups are, or were, copied for this one.")
] = DOMAIN + "source-epoch"

FOUNDING: Annotated[
    str,
    Annotation(
        "Etcd",
        Writer.GARDENLET,
        "`true`: there are no backups to start from, so etcd may start empty, as in a shoot's first epoch.",
    ),
] = DOMAIN + "founding"

PLAIN_CLIENTS: Annotated[
    str,
    Annotation(
        "Etcd",
        Writer.GARDENLET,
        "`true`: etcd also answers clients without TLS, as kube-apiserver does not present its certificate yet.",
    ),
] = DOMAIN + "plain-clients"

SEED: Annotated[str, Label("ShootState", Writer.GARDENLET, "The seed that keeps it up to date.")] = DOMAIN + "seed"
"""Its gardenlet watches no others."""

SHOOT_UID: Annotated[
    str,
    Label(
        "Secret of type `espalier.gardener.cloud/state`, in namespace `shoot-states` of the garden",
        Writer.GARDENLET,
        "UID of the Shoot whose state it holds. It is deleted an hour after that is gone.",
    ),
] = DOMAIN + "shoot-uid"

FINALIZER_PREFIX: Annotated[
    str,
    Finalizer(
        "extension kinds",
        Writer.EXTENSION,
        "Keeps the resource until everything made for it is deleted, or migrated. KIND is in lower case "
        "(`operatingsystemconfigs` is plural). Without it, deleting the resource deletes nothing at the "
        "provider.",
        "`status.lastError` of the resource says why it stays",
        placeholder="KIND",
    ),
] = "extensions.gardener.cloud/"


def finalizer(kind: str) -> str:
    """The finalizer of an extension kind. Without it, deleting a resource deletes nothing at the provider."""
    return FINALIZER_PREFIX + ("operatingsystemconfigs" if kind == "OperatingSystemConfig" else kind.lower())
