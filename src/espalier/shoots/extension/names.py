"""Names of the contract between gardenlets and extensions."""

from __future__ import annotations

from espalier.api.resource import Resource

GROUP = "extensions.gardener.cloud"
CLUSTER = Resource(GROUP, "v1alpha1", "clusters", "Cluster", namespaced=False)

OPERATION = "gardener.cloud/operation"
TIMESTAMP = "gardener.cloud/timestamp"
"""Given with each operation, so that the same one can be asked for again."""

MIGRATE, RESTORE, RECONCILE = "migrate", "restore", "reconcile"
WAIT_FOR_STATE = "wait-for-state"
"""Of an object whose `status.state` is still to be written: nothing is done before another value stands there."""

LEASE_VALID = "LeaseValid"
"""Condition of an extension resource: False while it is left alone, because its seed may have lost the shoot."""


def finalizer_of(resource: Resource) -> str:
    """The finalizer of an extension kind. An object without it has nothing at the provider that is its own."""
    return f"{GROUP}/{resource.kind.lower()}"
