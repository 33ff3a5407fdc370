"""Health checks of a Cluster's machines: timeouts, and the most unhealthy machines with which they are replaced."""

from typing import Annotated, ClassVar

from msgspec import Meta

from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import INT_OR_STRING, LARGEST_INT32, Rule
from espalier.api.meta import Part
from espalier.api.text.patterns import PERCENTAGE

_PART = "([.][0-9]{1,9})?"
_DURATION = f"^([0-9]+{_PART}h)?([0-9]+{_PART}m)?([0-9]+{_PART}s)?([0-9]+ms)?$"
COUNTABLE_DURATION = f"^([0-9]{{1,6}}{_PART}h)?([0-9]{{1,7}}{_PART}m)?([0-9]{{1,9}}{_PART}s)?([0-9]{{1,9}}ms)?$"
"""With few enough digits for CEL."""

SHORTEST_STARTUP = 30
"""Seconds: the shortest time for a machine to become a node that Cluster API accepts, besides 0 (no limit)."""


def _is_duration(field: str) -> tuple[Rule, ...]:
    """A duration that Cluster API supports."""
    given = f"has(self.{field}) && self.{field} != ''"
    form, value = f"self.{field}.matches('{_DURATION}')", f"self.{field}"
    return (
        Rule(f"!({given}) || {form}", sentences.DURATION, f".{field}", found=value, allowed="a duration like 10m0s"),
        Rule(
            f"!({given} && {form}) || {_is_countable(value)} && duration({value}) <= duration('{LARGEST_INT32}s')",
            sentences.LONG,
            f".{field}",
            found=value,
            allowed=f"at most {LARGEST_INT32}s",
        ),
    )


def _is_countable(field: str) -> str:
    return f"{field}.matches('{COUNTABLE_DURATION}')"


_STARTUP = "self.nodeStartupTimeout"


class MachineHealthCheck(Part):
    """Timeouts of unhealthy machines, and the most unhealthy machines with which they are replaced."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *_is_duration("nodeStartupTimeout"),
        *_is_duration("unhealthyMachineTimeout"),
        Rule(
            f"!has({_STARTUP}) || {_STARTUP} == '' || !{_is_countable(_STARTUP)}"
            f" || duration({_STARTUP}) == duration('0s') || duration({_STARTUP}) >= duration('{SHORTEST_STARTUP}s')",
            sentences.STARTUP,
            ".nodeStartupTimeout",
            found=_STARTUP,
            allowed=f"{SHORTEST_STARTUP}s or more, or 0s",
        ),
    )

    node_startup_timeout: Annotated[
        str, Meta(extra_json_schema={"maxLength": 50}, description="Time for a machine to become a node, like 10m0s.")
    ] = ""
    unhealthy_machine_timeout: Annotated[
        str,
        Meta(
            extra_json_schema={"maxLength": 50},
            description="Time after which a node that is not ready is unhealthy, like 5m0s.",
        ),
    ] = ""
    max_unhealthy: Annotated[
        int | str | None,
        Meta(
            description="Unhealthy machines are replaced only while there are at most this many (or this percentage).",
            extra_json_schema=INT_OR_STRING | {"pattern": PERCENTAGE, "minimum": 0, "maximum": LARGEST_INT32},
        ),
    ] = None
