"""Authorization without stored roles."""

from __future__ import annotations

from espalier.apiserver.requests.requests import Attributes
from espalier.kube.transports.wire import User

MASTERS = "system:masters"

_OPEN = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})


def administrators_only(attributes: Attributes, user: User) -> bool:
    """Allows everything to administrators, self-reviews to everybody, and nothing else."""
    return MASTERS in user.groups or (attributes.verb == "create" and attributes.resource in _OPEN)
