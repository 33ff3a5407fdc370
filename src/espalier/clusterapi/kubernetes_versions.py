"""Kubernetes versions, as Cluster API (`v1.35.4-eks-1-35-1`) and Clusters (`1.35`) write them."""

from __future__ import annotations

from collections.abc import Iterable

import semver

MAXIMUM_WORKER_LAG = 2
"""How many minor versions workers may be behind the control plane."""


def parsed(version: str) -> semver.Version | None:
    """A version like v1.36.3-eks-1-36-1, None when it is none. What EKS Distro appends is no prerelease to us."""
    try:
        return semver.Version.parse(version.removeprefix("v"))
    except ValueError:
        return None


def is_older(one: str, other: str) -> bool:
    """True if a version is older than another, patches included. Of what is no version nothing is said."""
    before, after = parsed(one), parsed(other)
    return before is not None and after is not None and before.finalize_version() < after.finalize_version()


def minor_of(version: str) -> str:
    """`1.35` for `v1.35.4-eks-1-35-1`."""
    return ".".join(version.removeprefix("v").split(".")[:2])


def minor(version: str) -> int:
    """A number for `1.35`, or a version of it, by which versions can be subtracted.

    Raises `ValueError` when the text is no such version.
    """
    major, _, rest = minor_of(version).partition(".")
    return int(major) * 1000 + int(rest)


def before(version: str, steps: int = 1) -> str:
    """The minor version so many before, of one like `1.35`."""
    major, _, rest = version.partition(".")
    return f"{major}.{int(rest) - steps}"


def after(version: str, steps: int = 1) -> str:
    """The minor version so many after."""
    return before(version, -steps)


def newest(versions: Iterable[str]) -> str:
    """The highest version, empty when there is none."""
    return max(versions, key=_order, default="")


def oldest(versions: Iterable[str]) -> str:
    """The lowest version, empty when there is none."""
    return min(versions, key=_order, default="")


def _order(version: str) -> tuple[tuple[int, ...], str]:
    core, _, rest = version.lstrip("v").partition("-")
    return tuple(int(number) if number.isdecimal() else 0 for number in core.split(".")), rest
