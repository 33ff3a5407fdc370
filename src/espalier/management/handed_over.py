"""A management cluster that is moved away while Git owns it.

Flux is suspended, for it would apply the cluster again, and the bootstrap gets the same GitOps configuration, for no
cluster may name another than that of its management cluster.
"""

from __future__ import annotations

import asyncio

from espalier.api import conditions
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.gitops import KINDS
from espalier.api.flux import KUSTOMIZATION, Kustomization
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.management import record as records
from espalier.management.steps import Progress

_PAUSE = 0.5
_PATIENCE = 60.0
"""Seconds for which a reconcile that has begun is waited for."""


async def suspend(cluster: Client, progress: Progress) -> None:
    """Have Flux apply nothing more: `spec.suspend` of all Kustomizations, that of Flux's own folder first. Idempotent.

    Returns once none is in the middle of a reconcile, or after a minute.
    """
    try:
        kustomizations = (await cluster.list(KUSTOMIZATION)).items
    except NotFound:
        return  # the cluster has no Flux
    for kustomization in sorted(
        kustomizations, key=lambda kustomization: kustomization.name != kustomization.namespace
    ):
        patch = {"spec": {"suspend": True}}
        try:
            await cluster.patch(
                KUSTOMIZATION, kustomization.name, kustomization.namespace, patch=patch, type=PatchType.MERGE
            )
        except NotFound:
            continue
    end = asyncio.get_running_loop().time() + _PATIENCE
    while asyncio.get_running_loop().time() < end:
        busy = [
            str(kustomization.key)
            for kustomization in (await cluster.list(KUSTOMIZATION)).items
            if conditions.is_true(kustomization.decode(Kustomization).status.conditions, "Reconciling")
        ]
        if not busy:
            return
        progress.wait(f"Flux applies {', '.join(busy)}")
        await asyncio.sleep(_PAUSE)


async def share_configuration(cluster: Client, bootstrap: Client, key: Key) -> None:
    """Give the record of a bootstrap the GitOps configuration that a cluster names, if it names any. Idempotent."""
    reference = (await cluster.get(Cluster.resource, key.name, key.namespace)).tree["spec"].get("gitOpsRef")
    kind = next(
        (config_kind for config_kind in KINDS if reference and config_kind.resource.kind == reference.get("kind")), None
    )
    record = await records.managed(bootstrap)
    if kind is None or record is None:
        return
    try:
        config = await cluster.get(kind.resource, reference["name"], key.namespace)
    except NotFound:
        return  # nobody can say what it was: the move is refused, and says so
    metadata = {"name": config.name, "namespace": record[0].namespace}
    await bootstrap.apply(kind.resource, {"metadata": metadata, "spec": config.tree["spec"]})
    patch = {"spec": {"gitOpsRef": reference}}
    await bootstrap.patch(Cluster.resource, record[0].name, record[0].namespace, patch=patch, type=PatchType.MERGE)
