"""Names of templates. A template's content never changes: other content gets the next name, `-1`, `-2` and so on."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBERED = re.compile(r"(.*)-(\d+)")


def control_plane_template(cluster: str) -> str:
    """First name of the machine template of a control plane (EKS Anywhere's)."""
    return f"{cluster}-control-plane-1"


def worker_template(cluster: str, group: str) -> str:
    """First name of the machine template and of the KubeadmConfigTemplate of a worker node group (EKS Anywhere's)."""
    return f"{cluster}-{group}-1"


def next_name(name: str) -> str:
    """The name with the next number; a name without number gets `-1`."""
    match = _NUMBERED.fullmatch(name)
    return f"{match[1]}-{int(match[2]) + 1}" if match else f"{name}-1"


def are_of_one_series(one: str, other: str) -> bool:
    """True if two names differ in their number alone: templates of the same machines, one after the other."""
    return next_name(one).rpartition("-")[0] == next_name(other).rpartition("-")[0]


def choose_name(first: str, referenced: str | None, existing: Mapping[str, bool]) -> str:
    """The name under which desired content is found or written.

    `referenced` is the template used now, if any; `existing` says of each template there is whether it has the desired
    content. A template that is used but gone is made again under its name. A name whose content is another is never
    taken, for a template that was left over (a change taken back half-way) must not be changed either; one left
    over with the desired content is used again, so that a change that is taken back leaves machines as they were.
    """
    name = referenced or first
    if existing.get(name, True):
        return name
    left_over = [other for other, has_content in existing.items() if has_content and _series(other) == _series(first)]
    if left_over:
        return min(left_over, key=lambda other: (len(other), other))
    while existing.get(name, True) is False:
        name = next_name(name)
    return name


def _series(name: str) -> str:
    match = _NUMBERED.fullmatch(name)
    return match[1] if match else name
