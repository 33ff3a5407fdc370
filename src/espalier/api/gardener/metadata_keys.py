"""Keys of annotations, labels and finalizers on Gardener's kinds, and values of those that are orders."""

from __future__ import annotations

OPERATION = "gardener.cloud/operation"
"""An order to the controller of an extension resource; on a Shoot, to its gardenlet."""

RECONCILE = "reconcile"
"""Reconcile now. Removed when the work begins."""

MIGRATE = "migrate"
"""Stop, and clean up in this seed without deleting infrastructure. Removed when that is done."""

RESTORE = "restore"
"""Make what `status.state` describes the extension's own again. Removed when that is done."""

WAIT_FOR_STATE = "wait-for-state"
"""Do nothing yet: the state is still to come."""

OLDER_OPERATION = "core.gardener.cloud/operation"
"""The proposal says so once; read like `OPERATION`, never written."""

TIMESTAMP = "gardener.cloud/timestamp"
"""When the last order was given: the same order again is a change."""

CONFIRM_DELETION = "confirmation.gardener.cloud/deletion"
"""On an extension resource that is to be deleted, "true": extensions of Gardener require it. On Shoots it has no
effect."""

FORCE_RESTORE = "shoot.gardener.cloud/force-restore"
"""On a Shoot that is to be moved, "true": go on without the source, although it may be alive. Who may move shoots
writes it."""

DOMAIN = "espalier.gardener.cloud/"
"""Our own annotations: people and project members never write them."""

OWNERSHIP = DOMAIN + "ownership"
"""On a Shoot: its ownership epochs (`ownership.Ownership`)."""

RELEASED_EPOCH = DOMAIN + "released-epoch"
"""On a Shoot: the epoch whose seed has migrated all extension resources away. Nothing of it acts any longer, so who
comes next does not wait for its lease to expire. Written by the gardenlet of that seed alone."""

GIVEN_STATE = DOMAIN + "given-state"
"""On an extension resource: the digest of the state that it was given to restore. While it still has that one, a
corrected ShootState replaces it."""

EPOCH = DOMAIN + "epoch"
"""On Etcds, extension resources and ShootStates: the ownership epoch that they belong to."""

SOURCE_EPOCH = DOMAIN + "source-epoch"
"""On a copy version of an Etcd: the epoch whose backups are copied."""

FOUNDING = DOMAIN + "founding"
"""On the Etcd of a shoot's first epoch, "true": no backups are no reason not to start."""

SEED = DOMAIN + "seed"
"""Label of ShootStates: the seed that keeps it up to date. Its gardenlet watches no others."""

SHOOT_UID = DOMAIN + "shoot-uid"
"""Label of Secrets with a shoot's state: the UID of the Shoot in the garden."""

FINALIZER_PREFIX = "extensions.gardener.cloud/"


def finalizer(kind: str) -> str:
    """The finalizer of an extension kind. Without it, deleting a resource deletes nothing at the provider."""
    return FINALIZER_PREFIX + ("operatingsystemconfigs" if kind == "OperatingSystemConfig" else kind.lower())
