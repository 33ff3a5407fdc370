"""Conditions of objects of Gardener: they have the time of their last update besides that of their transition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from espalier.api.conditions import timestamp, transition_time
from espalier.api.gardener.vocabulary.operations import Condition


def merged(before: Sequence[Condition], reported: Sequence[Condition], now: datetime) -> list[Condition]:
    """The conditions `before`, with those of `reported` replaced or added. Unchanged ones keep their times."""
    current_time = timestamp(now)
    after = {condition.type: condition for condition in before}
    for condition in reported:
        old = after.get(condition.type)
        is_same = old is not None and (old.status, old.reason, old.message) == (
            condition.status,
            condition.reason,
            condition.message,
        )
        after[condition.type] = msgspec.structs.replace(
            condition,
            last_transition_time=transition_time(old, condition.status, current_time),
            last_update_time=old.last_update_time if old is not None and is_same else current_time,
        )
    return list(after.values())
