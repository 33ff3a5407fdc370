"""The record of what was done once for all clusters: a ConfigMap in the system's namespace, by which a take-over goes
on after an interruption, and is undone. Each field is written before what it says is done, but for
`replaced_releases`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from espalier.api.core import CONFIG_MAP, ConfigMap
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, Conflict, NotFound
from espalier.kube.objects import Object
from espalier.management.steps import Refused

NAME = "adoption-of-eks-anywhere"
FIELD = "record"
FIELD_MANAGER = "eks-a-cli"

_NOT_CONTENT = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


class SiteRecord(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Things that were done."""

    replicas: int | None = None
    """Those of EKS Anywhere's controller before it was scaled to 0; None if it was not."""
    webhooks: Sequence[Tree] = ()
    """The configurations that were deleted."""
    definition: Tree | None = None
    """The definition of EKSARelease that was replaced."""
    releases: Sequence[Tree] = ()
    """Its objects."""
    replaced_releases: bool = False
    """True if ours were created in their place, written after that: those that are absent since were deleted."""
    named_management: bool = False
    """True if the ConfigMap that names the management cluster was created."""
    made_gate_key: bool = False
    """True if the key for digests of credentials was created."""
    version: str = ""
    """The resourceVersion that was read; empty if there was no record. It is not part of what is written."""


async def read(client: Client) -> SiteRecord | None:
    """The record; None without one. Raises `ValueError` for one that can't be read."""
    try:
        config_map = await client.get(CONFIG_MAP, NAME, SYSTEM_NAMESPACE)
    except NotFound:
        return None
    try:
        record = json_trees.decode(config_map.decode(ConfigMap).data.get(FIELD, ""), SiteRecord)
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"ConfigMap {SYSTEM_NAMESPACE}/{NAME}: data.{FIELD} can't be read: {error}; restore it, for it has what "
            "`espalier adopt undo` puts back"
        ) from None
    return msgspec.structs.replace(record, version=config_map.metadata.resource_version)


async def write(client: Client, record: SiteRecord) -> SiteRecord:
    """Write the record, and return it as it is stored. Raises `Refused` if it is not the one that was read any more:
    another command would lose what it has recorded.
    """
    content_ = msgspec.structs.replace(record, version="")
    data = {FIELD: msgspec.json.encode(content_, order="deterministic").decode()}
    try:
        if record.version:
            patch = {"metadata": {"resourceVersion": record.version}, "data": data}
            written = await client.patch(CONFIG_MAP, NAME, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
        else:
            metadata = {"namespace": SYSTEM_NAMESPACE, "name": NAME}
            tree = {"apiVersion": "v1", "kind": CONFIG_MAP.kind, "metadata": metadata, "data": data}
            written = await client.create(CONFIG_MAP, tree)
    except (AlreadyExists, Conflict, NotFound):
        stored = await read(client)
        if stored is not None and msgspec.structs.replace(stored, version="") == content_:
            return stored  # this very write, whose answer was lost
        raise _changed() from None
    return msgspec.structs.replace(record, version=written.metadata.resource_version)


async def forget(client: Client, record: SiteRecord) -> None:
    """Delete the record; idempotent. Raises `Refused` if it is not the one that was read any more."""
    try:
        await client.delete(CONFIG_MAP, NAME, SYSTEM_NAMESPACE, resource_version=record.version)
    except NotFound:
        return
    except Conflict:
        raise _changed() from None


def _changed() -> Refused:
    return Refused(
        f"ConfigMap {SYSTEM_NAMESPACE}/{NAME} was changed since it was read: another `espalier adopt` runs; wait until "
        "it has ended, then give this command again"
    )


def content(object_: Object) -> Tree:
    """An object as it can be created again."""
    tree = dict(object_.tree)
    tree.pop("status", None)
    tree["metadata"] = {name: value for name, value in tree["metadata"].items() if name not in _NOT_CONTENT}
    return tree
