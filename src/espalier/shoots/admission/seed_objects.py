"""Seeds: when one may be deleted. Pure."""

from __future__ import annotations

from collections.abc import Collection

MOST_NAMED = 5
"""The largest number of shoots that a message names."""


def held(name: str, shoots: Collection[str]) -> str:
    """Why a Seed can't be deleted, given the keys of the shoots that it has, or that are assigned to it."""
    named = ", ".join(sorted(shoots)[:MOST_NAMED])
    more = f" and {len(shoots) - MOST_NAMED} more" if len(shoots) > MOST_NAMED else ""
    return (
        f"Seed {name} can't be deleted: it has, or is to have, shoots {named}{more}; move them to other seeds first, "
        f"even if this one is lost (espalier seeds evacuate {name}), or delete them"
    )
