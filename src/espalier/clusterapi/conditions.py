"""Conditions of Cluster API objects: setting them, and summarizing those of several machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from espalier.api import conditions as condition_list
from espalier.api.meta import Condition


def condition(type_: str, holds: bool | None, reason: str, message: str = "") -> Condition:
    """One condition; `holds` None is Unknown."""
    return Condition(
        type=type_, status="Unknown" if holds is None else "True" if holds else "False", reason=reason, message=message
    )


def stated(
    current: Sequence[Condition], wanted: Iterable[Condition], *, now: datetime, generation: int
) -> list[Condition]:
    """`current` with the wanted conditions: transition times change with the status, other types stay unchanged."""
    before = {observed.type: observed for observed in current}
    timestamp = condition_list.timestamp(now)
    result = dict(before)
    for statement in wanted:
        since = condition_list.transition_time(before.get(statement.type), statement.status, timestamp)
        result[statement.type] = replace(statement, last_transition_time=since, observed_generation=generation)
    return [result[type_] for type_ in sorted(result)]


def summary(type_: str, parts: Sequence[Condition], *, reason: str, otherwise: str) -> Condition:
    """True with `reason` when all parts are True, else the worst of them with the messages of all that are not."""
    failing = [part for part in parts if part.status != "True"]
    if not failing:
        return condition(type_, True, reason)
    message = "\n".join(f"* {part.type}: {part.message or part.reason}" for part in failing)
    is_known = any(part.status == "False" for part in failing)
    return condition(type_, False if is_known else None, otherwise, message)
