"""Numbers that may be written as percentages."""

from __future__ import annotations


def share(value: int | str | None, total: int, *, default: int | str, round_up: bool = False) -> int:
    """An int-or-percentage of `total`, as Kubernetes rounds it. Malformed text counts as the default."""
    given = default if value is None else value
    if isinstance(given, int):
        return given
    digits = given.removesuffix("%")
    if not digits.isdecimal():
        return share(default, total, default=0, round_up=round_up)
    product = int(digits) * total
    return -(-product // 100) if round_up else product // 100
