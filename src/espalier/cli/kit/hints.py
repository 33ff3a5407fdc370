"""Hints for operators if a kind or permission is missing in the management cluster."""

from __future__ import annotations

import re

from espalier.api.resource import Resource
from espalier.clusterapi.infrastructures import infrastructure
from espalier.kube.errors import Forbidden, NotFound

_LACKS_RIGHT = re.compile(r'User "[^"]*" cannot \w+ resource')
_OURS = "eks.amazonaws.com"

_APPLY = "apply the output of this version's `espalier manifests`, which"


def hint(resource: Resource, error: Exception) -> str:
    """A hint about a failure to read or create objects of a kind; empty if there is none."""
    if isinstance(error, Forbidden) and _LACKS_RIGHT.search(str(error)):
        return f"{_APPLY} grants it"
    if not isinstance(error, NotFound):
        return ""
    if str(error).startswith('namespaces "'):
        return f"{_APPLY} creates the namespace"
    if resource.group.endswith(_OURS):
        return f"{_APPLY} defines it"
    if resource.group == infrastructure.GROUP:
        return "only clusters of that provider need it; `clusterctl init --infrastructure PROVIDER` installs it"
    return "install Cluster API and its providers in a version that serves it, as `clusterctl init` does"
