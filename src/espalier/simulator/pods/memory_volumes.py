"""Volumes in memory, for containers that are coroutines."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from espalier.api.meta import Tree
from espalier.simulator.pods.inputs import Inputs
from espalier.simulator.pods.life import ContainerEnded, Life

Content = dict[str, Any]
"""The content of a volume, by path relative to it: bytes of files, or what a program keeps in place of a folder."""


class Mounted(MutableMapping[str, Any]):
    """A volume mounted for one run of a container, and inaccessible after its end."""

    def __init__(self, content: Content, life: Life, *, read_only: bool = False) -> None:
        self._content = content
        self._life = life
        self.read_only = read_only

    def __getitem__(self, path: str) -> Any:
        return self._reached()[path]

    def __setitem__(self, path: str, value: Any) -> None:
        self._writable()[path] = value

    def __delitem__(self, path: str) -> None:
        del self._writable()[path]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._reached()))

    def __len__(self) -> int:
        return len(self._reached())

    def _reached(self) -> Content:
        if self._life.over:
            raise ContainerEnded(f"{self._life.name} has ended, and its volumes are unmounted")
        return self._content

    def _writable(self) -> Content:
        if self.read_only:
            raise PermissionError("read-only file system")
        return self._reached()


@dataclass
class Disks:
    """All volumes of one cluster: bound ones by name, others by the uid of their pod."""

    bound: dict[str, Content] = field(default_factory=dict)
    of_pods: dict[str, dict[str, Content]] = field(default_factory=dict)


async def mounted(container: Tree, inputs: Inputs, disks: Disks, life: Life) -> dict[str, Mounted]:
    """The volumes of a container by path. Raises `NotYet`, and `ValueError` for unsupported ones."""
    volumes = {volume["name"]: volume for volume in inputs.pod["spec"].get("volumes") or ()}
    found: dict[str, Mounted] = {}
    for mount in container.get("volumeMounts") or ():
        name = mount["name"]
        if name not in volumes:
            raise ValueError(f"volumeMounts of {container['name']}: volume {name!r} does not exist")
        if mount.get("subPath") or mount.get("subPathExpr"):
            raise ValueError(f"volumeMounts of {container['name']}: subPath is not simulated")
        content, fixed = await _content(volumes[name], inputs, disks)
        found[mount["mountPath"]] = Mounted(content, life, read_only=fixed or bool(mount.get("readOnly")))
    return found


async def _content(volume: Tree, inputs: Inputs, disks: Disks) -> tuple[Content, bool]:
    if claim := volume.get("persistentVolumeClaim"):
        return disks.bound.setdefault(await inputs.bound(claim["claimName"]), {}), False
    if "emptyDir" in volume:
        of_pod = disks.of_pods.setdefault(inputs.pod["metadata"]["uid"], {})
        return of_pod.setdefault(volume["name"], {}), False
    if (files := await inputs.files(volume)) is not None:
        return {path: text.encode() for path, text in files.items()}, True
    raise ValueError(
        f"volume {volume['name']}: its kind is not simulated; allowed are configMap, secret, projected, emptyDir and "
        "persistentVolumeClaim"
    )
