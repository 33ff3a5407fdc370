"""Volumes in memory, for containers that are coroutines."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from espalier.api.meta import Tree
from espalier.simulator.pods.runtimes.inputs import Inputs
from espalier.simulator.pods.runtimes.life import ContainerEnded, Life

Content = dict[str, Any]
"""The content of a volume, by path relative to it: bytes of files, or what a program keeps in place of a folder."""


class Mounted(MutableMapping[str, Any]):
    """A volume mounted for one run of a container, and inaccessible after its end."""

    def __init__(self, content: Content, life: Life, *, read_only: bool = False) -> None:
        self._content = content
        self._life = life
        self.read_only = read_only

    def __getitem__(self, path: str) -> Any:
        return self._mounted_content()[path]

    def __setitem__(self, path: str, value: Any) -> None:
        self._writable_content()[path] = value

    def __delitem__(self, path: str) -> None:
        del self._writable_content()[path]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._mounted_content()))

    def __len__(self) -> int:
        return len(self._mounted_content())

    def _mounted_content(self) -> Content:
        if self._life.over:
            raise ContainerEnded(f"{self._life.name} has ended, and its volumes are unmounted")
        return self._content

    def _writable_content(self) -> Content:
        if self.read_only:
            raise PermissionError("read-only file system")
        return self._mounted_content()


@dataclass
class ClusterVolumes:
    """The volumes of one cluster: PersistentVolumes by name, emptyDirs by the uid of their pod and their name."""

    persistent: dict[str, Content] = field(default_factory=dict)
    of_pods: dict[str, dict[str, Content]] = field(default_factory=dict)


async def mount_volumes(container: Tree, inputs: Inputs, volumes: ClusterVolumes, life: Life) -> dict[str, Mounted]:
    """The volumes of a container by path. Raises `DependencyMissing`, and `ValueError` for unsupported ones."""
    specs = {volume["name"]: volume for volume in inputs.pod["spec"].get("volumes") or ()}
    mounts: dict[str, Mounted] = {}
    for mount in container.get("volumeMounts") or ():
        name = mount["name"]
        if name not in specs:
            raise ValueError(f"volumeMounts of {container['name']}: volume {name!r} does not exist")
        if mount.get("subPath") or mount.get("subPathExpr"):
            raise ValueError(f"volumeMounts of {container['name']}: subPath is not simulated")
        content, always_read_only = await _content(specs[name], inputs, volumes)
        mounts[mount["mountPath"]] = Mounted(content, life, read_only=always_read_only or bool(mount.get("readOnly")))
    return mounts


async def _content(volume: Tree, inputs: Inputs, volumes: ClusterVolumes) -> tuple[Content, bool]:
    """The content of a volume, and True if it is read-only whatever its mount says."""
    if claim := volume.get("persistentVolumeClaim"):
        return volumes.persistent.setdefault(await inputs.bound_volume(claim["claimName"]), {}), False
    if "emptyDir" in volume:
        of_pod = volumes.of_pods.setdefault(inputs.pod["metadata"]["uid"], {})
        return of_pod.setdefault(volume["name"], {}), False
    if (files := await inputs.files(volume)) is not None:
        return {path: text.encode() for path, text in files.items()}, True
    raise ValueError(
        f"volume {volume['name']}: its kind is not simulated; allowed are configMap, secret, projected, emptyDir and "
        "persistentVolumeClaim"
    )
