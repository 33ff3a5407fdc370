"""The record of a management cluster that was deleted: by somebody whom no webhook refused, or with its API server's
data. The objects of Cluster API are still there, and nobody acts on the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object

FIELD_MANAGER = "espalier-record"
_PAUSED = "true"


async def existing(cluster: Client, key: Key) -> Object | None:
    """The record; None if it is gone."""
    try:
        return await cluster.get(Cluster.resource, key.name, key.namespace)
    except NotFound:
        return None


def is_lost(record: Object | None) -> bool:
    """True if the record is gone, will be as soon as its finalizers are, or was not made anew to its end."""
    return record is None or _is_deleted(record) or _is_half_made(record)


def _is_deleted(record: Object) -> bool:
    return record.metadata.deletion_timestamp is not None


def _is_half_made(record: Object) -> bool:
    """True if the owner of the pause still owns what it made the record with."""
    entries = record.tree["metadata"].get("managedFields") or []
    return any(entry.get("manager") == FIELD_MANAGER and "f:spec" in entry.get("fieldsV1", {}) for entry in entries)


async def make_anew(cluster: Client, record: Object | None, prepared: Sequence[tuple[Resource, Tree]]) -> Object:
    """The record, written from its manifest, paused, with what it names; in place of one that is being deleted.

    `prepared` is that manifest, the Cluster last. Nobody acts on either of the two, so no machine is touched.
    """
    if record is not None and _is_deleted(record):
        patch = {"metadata": {"finalizers": None, "uid": record.metadata.uid}}
        with suppress(NotFound):
            await cluster.patch(Cluster.resource, record.name, record.namespace, patch=patch, type=PatchType.MERGE)
    *named, (resource, tree) = prepared
    for other, body in named:
        await cluster.apply(other, body)
    # The pause has an owner of its own, so it stays when the manifest, which does not have it, is applied by commands.
    annotations = {PAUSED_ANNOTATION: _PAUSED}
    metadata = tree["metadata"]
    paused = tree | {"metadata": metadata | {"annotations": (metadata.get("annotations") or {}) | annotations}}
    await cluster.apply(resource, paused, field_manager=FIELD_MANAGER)
    await cluster.apply(resource, tree)
    place = {"name": metadata["name"], "namespace": metadata["namespace"], "annotations": annotations}
    return await cluster.apply(resource, {"metadata": place}, field_manager=FIELD_MANAGER)
