"""The caches that an environment's own controllers use."""

from __future__ import annotations

from espalier.api.resource import Resource
from espalier.clusterapi.infrastructures import infrastructure
from espalier.runtime.caches.cache import Cache, Caches


def shared(caches: Caches, resource: Resource) -> Cache:
    """The cache that controllers have of a kind: the kinds of providers may be absent, so they ask for them like this.

    Another one would begin empty.
    """
    return caches.of(resource, optional=resource.group == infrastructure.GROUP)
