"""The order of Kubernetes versions such as `v1.35.4-eks-1-35-1`."""

from __future__ import annotations

from collections.abc import Iterable


def _order(version: str) -> tuple[tuple[int, ...], str]:
    core, _, rest = version.lstrip("v").partition("-")
    return tuple(int(number) if number.isdecimal() else 0 for number in core.split(".")), rest


def newest(versions: Iterable[str]) -> str:
    """The highest version, empty when there is none."""
    return max(versions, key=_order, default="")


def oldest(versions: Iterable[str]) -> str:
    """The lowest version, empty when there is none."""
    return min(versions, key=_order, default="")
