"""Names of templates. A template's content never changes: other content gets the next name, `-1`, `-2` and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

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


def are_of_same_series(name: str, other: str) -> bool:
    """True if two names differ only in their number: successive templates of the same machines."""
    return next_name(name).rpartition("-")[0] == next_name(other).rpartition("-")[0]


def choose_name(
    first: str, referenced: str | None, existing: Collection[str], has_content: Callable[[str], bool]
) -> str:
    """The name under which desired content is found or written.

    `referenced` is the template in use, if any; `has_content` says if an existing template has the desired content,
    and is called for no more of them than needed: mostly for the one in use. A deleted template that is in use is
    recreated under its name. A name with different content is never reused, because templates left over by a reverted
    change must stay unchanged too. A left-over template with the desired content is reused, so that reverting a change
    leaves machines unchanged.
    """
    name = referenced or first
    if name not in existing or has_content(name):
        return name
    left_over = [other for other in existing if _series(other) == _series(first) and has_content(other)]
    if left_over:
        return min(left_over, key=lambda other: (len(other), other))
    while name in existing and not has_content(name):
        name = next_name(name)
    return name


def _series(name: str) -> str:
    match = _NUMBERED.fullmatch(name)
    return match[1] if match else name
