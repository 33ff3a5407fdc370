"""The record of what was done once for all clusters: a ConfigMap in the system's namespace, by which a take-over goes
on after an interruption, and is undone. Each field is written before what it says is done.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from espalier.api import json_trees
from espalier.api.core import CONFIG_MAP, ConfigMap
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object

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
    named_management: bool = False
    """True if the ConfigMap that names the management cluster was created."""
    made_gate_key: bool = False
    """True if the key for digests of credentials was created."""


async def read(client: Client) -> SiteRecord | None:
    """The record; None without one. Raises `ValueError` for one that can't be read."""
    try:
        config_map = await client.get(CONFIG_MAP, NAME, SYSTEM_NAMESPACE)
    except NotFound:
        return None
    try:
        return json_trees.decode(config_map.decode(ConfigMap).data.get(FIELD, ""), SiteRecord)
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"ConfigMap {SYSTEM_NAMESPACE}/{NAME}: data.{FIELD} can't be read: {error}; restore it, for it has what "
            "`espalier adopt undo` puts back"
        ) from None


async def write(client: Client, record: SiteRecord) -> None:
    """Write the record."""
    tree = {
        "apiVersion": "v1",
        "kind": CONFIG_MAP.kind,
        "metadata": {"namespace": SYSTEM_NAMESPACE, "name": NAME},
        "data": {FIELD: msgspec.json.encode(record, order="deterministic").decode()},
    }
    await client.apply(CONFIG_MAP, tree, field_manager=FIELD_MANAGER)


async def forget(client: Client) -> None:
    """Delete the record; idempotent."""
    try:
        await client.delete(CONFIG_MAP, NAME, SYSTEM_NAMESPACE)
    except NotFound:
        return


def content(object_: Object) -> Tree:
    """An object as it can be created again."""
    tree = dict(object_.tree)
    tree.pop("status", None)
    tree["metadata"] = {name: value for name, value in tree["metadata"].items() if name not in _NOT_CONTENT}
    return tree
