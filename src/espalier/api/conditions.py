"""Conditions of an object (`metav1.Condition`, and kinds like it): get one, set one, and sum several up into one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from espalier.api.meta import Condition

_BADNESS = {"True": 0, "Unknown": 1, "False": 2}


class Stated(Protocol):
    """A condition of any API: Gardener's have more fields than `metav1.Condition`, views fewer."""

    @property
    def type(self) -> str:
        """The type."""

    @property
    def status(self) -> str:
        """True, False or Unknown."""


C = TypeVar("C", bound=Stated)


def condition(type: str, status: Literal["True", "False", "Unknown"], reason: str, message: str) -> Condition:
    """A condition without times."""
    return Condition(type=type, status=status, reason=reason, message=message)


def get(conditions: Iterable[C], type: str) -> C | None:
    """The condition of that type, None when nobody has said anything yet."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_true(conditions: Iterable[Stated], type: str) -> bool:
    """True if the condition is there and "True"."""
    found = get(conditions, type)
    return found is not None and found.status == "True"


def is_true_in(status: object, type: str) -> bool:
    """The same of an undecoded `status`, whatever that holds."""
    found: Any = status.get("conditions") if isinstance(status, Mapping) else None
    listed = [one for one in found if isinstance(one, Mapping)] if isinstance(found, Sequence) else []
    return any(one.get("type") == type and one.get("status") == "True" for one in listed)


def is_false(conditions: Iterable[Stated], type: str) -> bool:
    """True if the condition is there and "False"."""
    found = get(conditions, type)
    return found is not None and found.status == "False"


def set(conditions: Sequence[Condition], condition: Condition, now: datetime) -> list[Condition]:
    """The conditions with this one in its place. Its transition time moves only when its status does."""
    present = get(conditions, condition.type)
    since = timestamp(now)
    if present is not None and present.status == condition.status:
        since = present.last_transition_time or since
    condition = msgspec.structs.replace(condition, last_transition_time=since)
    if present is None:
        return [*conditions, condition]
    return [condition if other.type == condition.type else other for other in conditions]


def summary(
    conditions: Sequence[Condition],
    parts: Sequence[str],
    *,
    type: str = "Ready",
    observed_generation: int = 0,
) -> Condition:
    """One condition for several: as bad as the worst of `parts`, with its reason; worst first in the message.

    "False" is worse than "Unknown"; a part of which nothing is known is "Unknown"; of equals the earlier part counts.
    """
    found = [get(conditions, part) or _unknown(part) for part in parts]
    worst_first = sorted(found, key=lambda condition: -_BADNESS[condition.status])
    troubles = [condition for condition in worst_first if condition.status != "True"]
    if not troubles:
        return Condition(type=type, status="True", reason=type, observed_generation=observed_generation)
    message = "; ".join(_sentence(condition) for condition in troubles)
    worst = troubles[0]
    return Condition(
        type=type, status=worst.status, reason=worst.reason, message=message, observed_generation=observed_generation
    )


def timestamp(moment: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _unknown(type: str) -> Condition:
    return Condition(type=type, status="Unknown", reason="NotYetReported")


def _sentence(condition: Condition) -> str:
    return f"{condition.type}: {condition.message or condition.reason}"
