"""Health checks of a Cluster's machines: timeouts, and the number of unhealthy ones up to which they are replaced."""

from typing import Annotated, ClassVar

from msgspec import Meta

from espalier.api.eksa import sentences
from espalier.api.kinds import INT_OR_STRING, LARGEST_INT32, Rule
from espalier.api.meta import Part

_PART = "([.][0-9]{1,9})?"
_DURATION = f"^([0-9]+{_PART}h)?([0-9]+{_PART}m)?([0-9]+{_PART}s)?([0-9]+ms)?$"
COUNTABLE_DURATION = f"^([0-9]{{1,6}}{_PART}h)?([0-9]{{1,7}}{_PART}m)?([0-9]{{1,9}}{_PART}s)?([0-9]{{1,9}}ms)?$"
"""With so few digits that CEL can reckon with it."""

SHORTEST_STARTUP = 30
"""Seconds: Cluster API takes no shorter time for a machine to become a node, but for 0, which is any."""

PERCENTAGE = "^[0-9]{1,9}%$"


def _is_duration(field: str) -> tuple[Rule, ...]:
    """A duration, and one that Cluster API has room for."""
    given = f"has(self.{field}) && self.{field} != ''"
    form, found = f"self.{field}.matches('{_DURATION}')", f"self.{field}"
    return (
        Rule(f"!({given}) || {form}", sentences.DURATION, f".{field}", found=found, allowed="a duration like 10m0s"),
        Rule(
            f"!({given} && {form}) || {_is_countable(found)} && duration({found}) <= duration('{LARGEST_INT32}s')",
            sentences.LONG,
            f".{field}",
            found=found,
            allowed=f"at most {LARGEST_INT32}s",
        ),
    )


def _is_countable(field: str) -> str:
    return f"{field}.matches('{COUNTABLE_DURATION}')"


_STARTUP = "self.nodeStartupTimeout"


class MachineHealthCheck(Part):
    """Timeouts of unhealthy machines, and the number of them up to which they are replaced."""

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
            description="Machines are replaced while at most so many, or such a percentage, are unhealthy.",
            extra_json_schema=INT_OR_STRING | {"pattern": PERCENTAGE, "minimum": 0, "maximum": LARGEST_INT32},
        ),
    ] = None
