"""Reasons of the Events that the garden records on Gardener's kinds: constants, with their prose.

`make pages` writes the prose into `docs/reference/events.md`, and `tests/conventions` compares it with the code.
"""

from __future__ import annotations

from espalier.api.definitions.reference import EventProse, EventReason


class Event(EventReason):
    """Of the garden. Names that Gardener has, too, mean the same there."""

    RECONCILING = "Reconciling", "Normal", "Shoot", "its creation, restore or reconcile begins"
    RECONCILED = "Reconciled", "Normal", "Shoot", "its creation, restore or reconcile has succeeded"
    RECONCILE_ERROR = (
        "ReconcileError",
        "Warning",
        "Shoot",
        "a task of an operation failed, or has waited for too long; it is tried again",
        "see `espalier shoots describe`",
    )
    MOVE_REQUESTED = "MoveRequested", "Normal", "Shoot", "`spec.seedName` was set to another seed"
    PREPARE_MIGRATION = "PrepareMigration", "Normal", "Shoot", "its seed begins to hand it over"
    MIGRATION_PREPARED = "MigrationPrepared", "Normal", "Shoot", "its seed has handed it over to another one"
    SEED_SILENT = (
        "SeedSilent",
        "Warning",
        "Shoot",
        "the gardenlet of its seed has stopped renewing its Lease",
        "start the gardenlet, or move the shoot",
    )
    SEED_GIVEN_UP = (
        "SeedGivenUp",
        "Warning",
        "Shoot",
        "its seed was given up, and the destination restores it without that",
    )
    DELETING = "Deleting", "Normal", "Shoot", "its deletion begins"
    DELETED = "Deleted", "Normal", "Shoot", "its deletion has succeeded"


EVENTS: tuple[EventProse, ...] = tuple(event.prose for event in Event)
