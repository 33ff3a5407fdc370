"""The record of an operation on a management cluster: a ConfigMap that outlives the command.

It names the operation, its cluster, and the last step that is done. That of a creation and a deletion is in the
bootstrap, with the kubeconfig of the cluster beside it, because the Secret with it moves; that of an upgrade is in the
cluster itself. As a management cluster can be the bootstrap of others, each cluster has a record of its own.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from espalier.api.core import CONFIG_MAP, SECRET, ConfigMap, Secret
from espalier.api.eksa.vocabulary.group import MANAGEMENT_CLUSTER, MANAGEMENT_STATE_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text import paths
from espalier.api.trees import json_trees
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object

NAME = "management-operation"
"""The start of the names of ConfigMaps and Secrets, in the system's namespace."""
FIELD_MANAGER = "eks-a-cli"

CREATE, DELETE, UPGRADE, UPGRADE_COMPONENTS = "create", "delete", "upgrade", "upgrade-components"
_TEXTS = {
    CREATE: "creates cluster",
    DELETE: "deletes cluster",
    UPGRADE: "upgrades cluster",
    UPGRADE_COMPONENTS: "upgrades the components of cluster",
}

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
    """The manifest that the operation was begun with, as `manifest_of` writes it; of a deletion, the Cluster and what
    it links, as they were."""
    components: str = ""
    """The digest of the components that it was begun with, if files had them."""

    @property
    def key(self) -> Key:
        """The cluster."""
        return Key(self.namespace, self.name)

    @property
    def text(self) -> str:
        """The operation and its cluster, in words for messages."""
        return f"{_TEXTS.get(self.operation, self.operation)} {self.key}"


def name_of(key: Key) -> str:
    """Name of the ConfigMap of a cluster, and of the Secret with its kubeconfig."""
    return f"{NAME}.{key.namespace}.{key.name}"  # no namespace has a dot


def manifest_of(trees: Iterable[Tree]) -> str:
    """The objects of a manifest as a record has them."""
    named = {f"{tree['kind']} {tree['metadata']['name']}": tree for tree in trees}
    return msgspec.json.encode(named, order="deterministic").decode()


def objects_of(record: Record) -> list[Tree]:
    """The objects of the manifest of a record; none if it has none that can be read."""
    try:
        return list(json_trees.decode(record.manifest, dict[str, Tree]).values())
    except msgspec.MsgspecError:  # of an earlier build, or edited
        return []


def digest_of(trees: Iterable[Tree]) -> str:
    """The digest of components as a record has it. Secrets don't count: it would tell who guesses a password right."""
    counted = [tree for tree in trees if tree["kind"] != SECRET.kind]
    return sha256(msgspec.json.encode(counted, order="deterministic")).hexdigest()[:16]


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


async def read(client: Client, key: Key) -> Record | None:
    """The record of the operation on a cluster; None without any."""
    with suppress(NotFound):
        record = _record(await client.get(CONFIG_MAP, name_of(key), SYSTEM_NAMESPACE))
        return record if record is not None and record.key == key else None
    return None


async def of_bootstrap(bootstrap: Client, key: Key) -> Record | None:
    """The creation or deletion for which a bootstrap is in use: that of this cluster, or else of another one."""
    listed = (await bootstrap.list(CONFIG_MAP, SYSTEM_NAMESPACE)).items
    records = (_record(item) for item in listed if item.name.startswith(f"{NAME}."))
    in_use = [record for record in records if record is not None and record.operation in (CREATE, DELETE)]
    return min(in_use, key=lambda record: (record.key != key, record.key), default=None)


def _record(config_map: Object) -> Record | None:
    try:
        return msgspec.convert(config_map.decode(ConfigMap).data, Record)
    except msgspec.ValidationError:
        return None


async def write(client: Client, record: Record) -> None:
    """Write the record, in place of an earlier one of the same cluster."""
    metadata = {"name": name_of(record.key), "namespace": SYSTEM_NAMESPACE}
    await client.apply(
        CONFIG_MAP,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {**msgspec.to_builtins(record)},
        },
        field_manager=FIELD_MANAGER,
    )


async def read_kubeconfig(bootstrap: Client, key: Key) -> bytes | None:
    """The kubeconfig of a cluster; None until it is kept."""
    with suppress(NotFound):
        return (await bootstrap.get(SECRET, name_of(key), SYSTEM_NAMESPACE)).decode(Secret).data.get("value")
    return None


async def keep_kubeconfig(bootstrap: Client, key: Key, content: bytes) -> None:
    """Keep the kubeconfig of a cluster beside its record."""
    metadata = {"name": name_of(key), "namespace": SYSTEM_NAMESPACE}
    data = {"value": b64encode(content).decode()}
    await bootstrap.apply(
        SECRET,
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data},
        field_manager=FIELD_MANAGER,
    )


async def forget(client: Client, key: Key) -> None:
    """Delete the record of a cluster, and the kubeconfig; idempotent."""
    for resource in (SECRET, CONFIG_MAP):  # the record, which says that there is a kubeconfig, comes last
        with suppress(NotFound):
            await client.delete(resource, name_of(key), SYSTEM_NAMESPACE)


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
