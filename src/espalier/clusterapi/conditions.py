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
        observed = before.get(statement.type)
        if observed is not None and _says_the_same(observed, statement, generation):
            result[statement.type] = observed
            continue
        since = condition_list.transition_time(observed, statement.status, timestamp)
        result[statement.type] = replace(statement, last_transition_time=since, observed_generation=generation)
    return [result[type_] for type_ in sorted(result)]


def _says_the_same(observed: Condition, wanted: Condition, generation: int) -> bool:
    """True if nothing of a condition would change, which is the usual case."""
    return (
        observed.status == wanted.status
        and observed.reason == wanted.reason
        and observed.message == wanted.message
        and observed.observed_generation == generation
        and bool(observed.last_transition_time)
    )


def summary(type_: str, parts: Sequence[Condition], *, reason: str, otherwise: str) -> Condition:
    """True with `reason` when all parts are True, else the worst of them with the messages of all that are not."""
    failing = [part for part in parts if part.status != "True"]
    if not failing:
        return condition(type_, True, reason)
    message = "\n".join(f"* {part.type}: {part.message or part.reason}" for part in failing)
    is_known = any(part.status == "False" for part in failing)
    return condition(type_, False if is_known else None, otherwise, message)
