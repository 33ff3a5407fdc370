"""Keys of annotations, labels and finalizers on Gardener's kinds, and the values of the operation annotation."""

from __future__ import annotations

OPERATION = "gardener.cloud/operation"
"""The operation that is requested: of an extension's controller, or on a Shoot of its gardenlet."""

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

OLDER_OPERATION = "core.gardener.cloud/operation"
"""A key that the proposal also has; read like `OPERATION`, never written."""

TIMESTAMP = "gardener.cloud/timestamp"
"""The time of the last request, so that requesting the same operation again is a change."""

CONFIRM_DELETION = "confirmation.gardener.cloud/deletion"
"""On an extension resource that is to be deleted, "true": without it extensions delete nothing. On Shoots it has no
effect."""

FORCE_RESTORE = "shoot.gardener.cloud/force-restore"
"""On a Shoot that moves, "true": continue without the source, although it may be alive. Written by users who may move
shoots."""

DOMAIN = "espalier.gardener.cloud/"
"""Our own annotations: people and project members never write them."""

OWNERSHIP = DOMAIN + "ownership"
"""On a Shoot: its ownership epochs (`ownership.Ownership`)."""

RELEASED_EPOCH = DOMAIN + "released-epoch"
"""On a Shoot: the epoch whose seed has migrated all extension resources. None of its extensions acts any longer, so the
next seed does not wait for its lease to expire. Only the gardenlet of that seed writes it."""

RESTORED_EPOCH = DOMAIN + "restored-epoch"
"""On a Shoot: the epoch whose seed has restored it completely. Until it is the current one, a shoot that was moved is
being restored, whatever its status says. Only the gardenlet of that seed writes it."""

STATE_REVISION = DOMAIN + "state-revision"
"""On a ShootState: the number of its writes by gardenlets. On its Shoot: the one that its gardenlet has last reported.
A ShootState with a smaller one is older than what the seed had stored."""

GIVEN_STATE = DOMAIN + "given-state"
"""On an extension resource: the digest of the state that the gardenlet wrote for its restore. While the resource still
has it, a corrected ShootState replaces it."""

RESULT_DIGESTS = DOMAIN + "result-digests"
"""On an extension resource: the digest of each field of its status that its extension has reported as a result. Its
gardenlet passes on no other value, and the extension reports its own again. Without it every value counts."""

EPOCH = DOMAIN + "epoch"
"""On Etcds, extension resources and ShootStates: the ownership epoch that they belong to."""

SOURCE_EPOCH = DOMAIN + "source-epoch"
"""On an Etcd that copies backups, or starts from copied ones: the epoch whose backups they are."""

FOUNDING = DOMAIN + "founding"
"""On the Etcd of a shoot's first epoch, "true": it may start without backups."""

SEED = DOMAIN + "seed"
"""Label of ShootStates: the seed that keeps it up to date. Its gardenlet watches no others."""

SHOOT_UID = DOMAIN + "shoot-uid"
"""Label of Secrets with a shoot's state: the UID of the Shoot in the garden."""

FINALIZER_PREFIX = "extensions.gardener.cloud/"


def finalizer(kind: str) -> str:
    """The finalizer of an extension kind. Without it, deleting a resource deletes nothing at the provider."""
    return FINALIZER_PREFIX + ("operatingsystemconfigs" if kind == "OperatingSystemConfig" else kind.lower())
