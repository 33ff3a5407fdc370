"""Manifests of `espalier manifests --of garden|seed`, applied as by kubectl."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api import core
from espalier.api.meta import Tree
from espalier.kube.client import Client

RESOURCES = (
    core.NAMESPACE,
    core.CUSTOM_RESOURCE_DEFINITION,
    core.SERVICE_ACCOUNT,
    core.CLUSTER_ROLE,
    core.CLUSTER_ROLE_BINDING,
    core.ROLE,
    core.ROLE_BINDING,
    core.VALIDATING_WEBHOOK_CONFIGURATION,
)
BY_KIND = {resource.kind: resource for resource in RESOURCES}


async def apply(client: Client, trees: Iterable[Tree]) -> None:
    """Apply manifests one after the other."""
    for tree in trees:
        await client.apply(BY_KIND[tree["kind"]], tree, field_manager="kubectl")
