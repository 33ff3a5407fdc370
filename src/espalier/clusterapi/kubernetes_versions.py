"""Kubernetes versions, as Cluster API (`v1.35.4-eks-1-35-1`) and Clusters (`1.35`) write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from espalier.api.text.versions import parsed

_PRE_RELEASE = re.compile(r"(alpha|beta|rc)\b")
"""The beginning of the name of a pre-release of Kubernetes, `rc.1`."""
_RELEASE = re.compile(r"[a-z]+-\d+-\d+-\d+$")
"""The name of a distributor's release, `eks-1-36-1`."""
MAXIMUM_WORKER_LAG = 2
"""The number of minor versions that workers may be behind the control plane."""


def is_older(version: str, other: str) -> bool:
    """True if a version is older than another, including patches. False if either can't be parsed."""
    parsed_version, parsed_other = parsed(version), parsed(other)
    return (
        parsed_version is not None
        and parsed_other is not None
        and parsed_version.finalize_version() < parsed_other.finalize_version()
    )


def step_obstacle(current: str, wanted: str) -> str:
    """The reason why a machine can't be upgraded in place from one version to another; empty when it can.

    kubeadm upgrades by at most one minor version, and never downgrades.
    """
    before, after = parsed(current), parsed(wanted)
    if before is None or after is None:
        return f"found version {current or 'nothing'}, wanted {wanted}: both must be like v1.36.3"
    if (after.major, after.minor, after.patch) < (before.major, before.minor, before.patch):
        return (
            f"can't go from {current} to {wanted}: kubeadm does not downgrade; set {current} again, or a later version"
        )
    if after.major != before.major or after.minor > before.minor + 1:
        between = f"v{before.major}.{before.minor + 1}"
        return (
            f"can't go from {current} to {wanted}: go to {between} first, kubeadm upgrades one minor version at a time"
        )
    return ""


def is_reached(reported: str, wanted: str) -> bool:
    """True if a kubelet that reports a version has the wanted one.

    A distributor's kubelet names its build, `v1.36.3-eks-d91a302`, where the cluster names the release,
    `v1.36.3-eks-1-36-1`; a kubelet that no distributor built reports neither. The name of another release, and a
    pre-release of Kubernetes, are other versions.
    """
    reported_version, wanted_version = parsed(reported), parsed(wanted)
    if reported_version is None or wanted_version is None:
        return False
    if reported_version == wanted_version:
        return True
    named, wanted_name = reported_version.prerelease or "", wanted_version.prerelease or ""
    are_comparable = not any(_PRE_RELEASE.match(name) for name in (named, wanted_name)) and not _RELEASE.match(named)
    return are_comparable and reported_version.finalize_version() == wanted_version.finalize_version()


def has_release(kubelet: str, machine: str, wanted: str) -> bool:
    """True if a machine has the wanted version: its kubelet has it, and its Machine names no other release of it.

    No kubelet tells `v1.36.3-eks-1-36-5` from `v1.36.3-eks-1-36-6`, and nothing says which build a release has. A
    Machine of another patch version, or without one, doesn't matter: the kubelet's numbers are enough there.
    """
    kubelet_version, machine_version, wanted_version = parsed(kubelet), parsed(machine), parsed(wanted)
    if not is_reached(kubelet, wanted) or wanted_version is None:
        return False
    if kubelet_version == wanted_version or machine_version is None:
        return True
    is_same_patch = machine_version.finalize_version() == wanted_version.finalize_version()
    return not is_same_patch or is_reached(machine, wanted)


@lru_cache(maxsize=256)
def minor_of(version: str) -> str:
    """`1.35` for `v1.35.4-eks-1-35-1`, and for `1.35`; empty for text that is no version."""
    parsed_version = parsed(version) or parsed(f"{version}.0")
    return f"{parsed_version.major}.{parsed_version.minor}" if parsed_version is not None else ""


def minor(version: str) -> int:
    """A number for the minor version of `1.35` or `v1.35.4`, to compare and subtract. Raises `ValueError`."""
    major, _, rest = minor_of(version).partition(".")
    return int(major) * 1000 + int(rest)


def before(version: str, steps: int = 1) -> str:
    """The minor version that is `steps` before a version like `1.35`."""
    major, _, rest = version.partition(".")
    return f"{major}.{int(rest) - steps}"


def after(version: str, steps: int = 1) -> str:
    """The minor version that is `steps` after."""
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
