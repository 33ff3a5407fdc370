"""The record of an operation on a management cluster: a ConfigMap in its bootstrap, which outlives the command.

It names the operation, its cluster, and the last step that is done. The kubeconfig of the cluster is kept beside it,
because the Secret with it moves.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from espalier.api import json_trees, paths
from espalier.api.core import CONFIG_MAP, SECRET, ConfigMap, Secret
from espalier.api.eksa.group import MANAGEMENT_CLUSTER, MANAGEMENT_STATE_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound

NAME = "management-operation"
"""Name of the ConfigMap, and of the Secret with the kubeconfig, in the system's namespace of the bootstrap."""
FIELD_MANAGER = "eks-a-cli"

CREATING, RUNNING = "creating", "running"
"""States of a management cluster, in an annotation of the ConfigMap that names its record."""


class Record(msgspec.Struct, frozen=True):
    """An operation as it stands."""

    operation: str
    namespace: str
    name: str
    release: str
    """The release of the command that began it."""
    step: str = ""
    """The last step that is done; empty at first."""
    manifest: str = ""
    """The manifest that the operation was begun with, as `manifest_of` writes it; empty for a deletion."""

    @property
    def key(self) -> Key:
        """The cluster."""
        return Key(self.namespace, self.name)


def manifest_of(trees: Iterable[Tree]) -> str:
    """The objects of a manifest as a record has them."""
    named = {f"{tree['kind']} {tree['metadata']['name']}": tree for tree in trees}
    return msgspec.json.encode(named, order="deterministic").decode()


def changed(record: Record, manifest: str) -> list[str]:
    """The fields in which a manifest differs from that of a record, with both values; none if the record has none."""
    try:
        before = json_trees.decode(record.manifest, dict[str, Any])
    except msgspec.MsgspecError:  # of an earlier build, or edited
        return []
    after = json_trees.decode(manifest, dict[str, Any])
    texts = []
    for (name, *path), old, new in paths.differences(before, after, parts=parts):
        place = f"{name}: {paths.render(path)}" if path else str(name)
        texts.append(f"{place}: found {shown(new)}, begun with {shown(old)}")
    return texts


def parts(value: Any) -> Mapping[Any, Any] | None:
    """The parts of maps and lists, for `paths.differences`."""
    return dict(enumerate(value)) if isinstance(value, list) else paths.parts_of_map(value)


def shown(value: Any) -> str:
    """A value of a field in a message; nothing of what is in a map or list."""
    if value is None:
        return "nothing"
    return "a value" if isinstance(value, dict | list) else msgspec.json.encode(value).decode()


async def read(bootstrap: Client) -> Record | None:
    """The record in a bootstrap; None without any."""
    try:
        config_map = (await bootstrap.get(CONFIG_MAP, NAME, SYSTEM_NAMESPACE)).decode(ConfigMap)
        return msgspec.convert(config_map.data, Record)
    except (NotFound, msgspec.ValidationError):
        return None


async def write(bootstrap: Client, record: Record) -> None:
    """Write the record."""
    metadata = {"name": NAME, "namespace": SYSTEM_NAMESPACE}
    await bootstrap.apply(
        CONFIG_MAP,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {**msgspec.to_builtins(record)},
        },
        field_manager=FIELD_MANAGER,
    )


async def read_kubeconfig(bootstrap: Client) -> bytes | None:
    """The kubeconfig of the cluster; None until it is kept."""
    try:
        secret = await bootstrap.get(SECRET, NAME, SYSTEM_NAMESPACE)
    except NotFound:
        return None
    return secret.decode(Secret).data.get("value")


async def keep_kubeconfig(bootstrap: Client, content: bytes) -> None:
    """Keep the kubeconfig beside the record."""
    metadata = {"name": NAME, "namespace": SYSTEM_NAMESPACE}
    data = {"value": b64encode(content).decode()}
    await bootstrap.apply(
        SECRET,
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data},
        field_manager=FIELD_MANAGER,
    )


async def forget(bootstrap: Client) -> None:
    """Delete the record and the kubeconfig; idempotent."""
    for resource in (SECRET, CONFIG_MAP):
        try:
            await bootstrap.delete(resource, NAME, SYSTEM_NAMESPACE)
        except NotFound:
            continue


async def managed(cluster: Client) -> tuple[Key, str] | None:
    """The record that a management cluster names, and its state, which is empty if no command created it; None for a
    cluster that manages nothing.
    """
    try:
        config_map = await cluster.get(CONFIG_MAP, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE)
    except NotFound:
        return None
    data = config_map.decode(ConfigMap).data
    state = config_map.metadata.annotations.get(MANAGEMENT_STATE_ANNOTATION, "")
    return Key(data.get("namespace", ""), data.get("name", "")), state


async def mark(cluster: Client, state: str) -> None:
    """Write the state of a management cluster. Raises `NotFound` if its ConfigMap does not exist."""
    patch = {"metadata": {"annotations": {MANAGEMENT_STATE_ANNOTATION: state}}}
    await cluster.patch(CONFIG_MAP, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
