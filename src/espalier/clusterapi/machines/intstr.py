"""Numbers that may be written as percentages."""

from __future__ import annotations


def share(value: int | str | None, total: int, *, default: int | str, round_up: bool = False) -> int:
    """An int-or-percentage of `total`, as Kubernetes rounds it. Malformed text counts as the default."""
    wanted = default if value is None else value
    if isinstance(wanted, int):
        return wanted
    digits = wanted.removesuffix("%")
    if not digits.isdecimal():
        return share(default, total, default=0, round_up=round_up)
    product = int(digits) * total
    return -(-product // 100) if round_up else product // 100
