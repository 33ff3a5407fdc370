"""Reasons of the Events that gardenlets record on Gardener's kinds: constants, with their prose.

`make pages` writes the prose into `docs/reference/events.md`, and `tests/conventions` compares it with the code.
"""

from __future__ import annotations

from espalier.api.definitions.reference import EventProse, EventReason


class Event(EventReason):
    """Of gardenlets."""

    STATE_NOT_TRANSFERABLE = (
        "StateNotTransferable",
        "Warning",
        "Shoot",
        "an extension keeps a state that can't be carried to another seed: it is too large or unreadable",
        "have the extension fixed; do not move the shoot before",
    )


EVENTS: tuple[EventProse, ...] = tuple(event.prose for event in Event)
