"""The Events that gardenlets record on Gardener's kinds.

`make pages` writes them into `docs/reference/events.md`, and `tests/conventions` compares them with the code.
"""

from __future__ import annotations

from espalier.api.reference import EventReason

EVENTS: tuple[EventReason, ...] = (
    EventReason(
        "StateNotTransferable",
        "Warning",
        "Shoot",
        "an extension keeps a state that can't be carried to another seed: it is too large or unreadable",
        "have the extension fixed; do not move the shoot before",
    ),
)
