"""Conditions of an object (`metav1.Condition`, and kinds like it): get one and set one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from espalier.api.meta import Condition

_RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})"
)


class AnyCondition(Protocol):
    """A condition of any API: Gardener's have more fields than `metav1.Condition`, views fewer."""

    @property
    def type(self) -> str:
        """The type."""

    @property
    def status(self) -> str:
        """True, False or Unknown."""


class Timed(AnyCondition, Protocol):
    """A condition with the time of its last transition."""

    @property
    def last_transition_time(self) -> str:
        """The time; empty if it is not set."""


C = TypeVar("C", bound=AnyCondition)


def condition(type: str, status: Literal["True", "False", "Unknown"], reason: str, message: str) -> Condition:
    """A condition without times."""
    return Condition(type=type, status=status, reason=reason, message=message)


def get(conditions: Iterable[C], type: str) -> C | None:
    """The condition of that type; None if it is not reported yet."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_true(conditions: Iterable[AnyCondition], type: str) -> bool:
    """True if the condition exists and is "True"."""
    current = get(conditions, type)
    return current is not None and current.status == "True"


def is_true_in(status: object, type: str) -> bool:
    """The same for an undecoded `status`, whatever it contains."""
    conditions: Any = status.get("conditions") if isinstance(status, Mapping) else None
    entries = [entry for entry in conditions if isinstance(entry, Mapping)] if isinstance(conditions, Sequence) else []
    return any(entry.get("type") == type and entry.get("status") == "True" for entry in entries)


def is_false(conditions: Iterable[AnyCondition], type: str) -> bool:
    """True if the condition exists and is "False"."""
    current = get(conditions, type)
    return current is not None and current.status == "False"


def set(conditions: Sequence[Condition], condition: Condition, now: datetime) -> list[Condition]:
    """The conditions, with `condition` replaced or added."""
    present = get(conditions, condition.type)
    since = transition_time(present, condition.status, timestamp(now))
    condition = msgspec.structs.replace(condition, last_transition_time=since)
    if present is None:
        return [*conditions, condition]
    return [condition if other.type == condition.type else other for other in conditions]


def transition_time(before: Timed | None, status: str, now: str) -> str:
    """The transition time of a condition with this status: it changes only with the status."""
    return (before.last_transition_time if before is not None and before.status == status else "") or now


def timestamp(moment: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return f"{utc.year}-{utc.month:02}-{utc.day:02}T{utc.hour:02}:{utc.minute:02}:{utc.second:02}Z"


def parse_timestamp(text: str) -> datetime | None:
    """Parse a time that anybody may have written, as in a status; return it in UTC, or None if the text is no RFC 3339
    time. Digits of a second after the sixth are cut off.
    """
    match = _RFC_3339.fullmatch(text)
    if match is None:
        return None
    seconds, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(seconds + ("+00:00" if zone == "Z" else zone))
        return moment.astimezone(UTC) + timedelta(microseconds=int((fraction or "").ljust(6, "0")[:6]))
    except (ValueError, OverflowError):
        return None
