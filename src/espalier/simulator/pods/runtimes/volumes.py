"""A pod's volumes as folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from espalier.api.meta import Tree
from espalier.runtime import confined
from espalier.simulator.pods.runtimes.inputs import Inputs
from espalier.simulator.pods.runtimes.runtime import DependencyMissing

SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True)
class FolderVolumes:
    """Mounts the volumes of one pod."""

    inputs: Inputs
    node_root: Path
    folder: Path
    """The folder of the volumes of this pod, other than those below."""
    persistent_volumes: Path
    """The folder of the PersistentVolumes of its cluster."""

    async def mounts(self, container: Tree) -> dict[str, Path]:
        """Path in the container -> its content. Raises `DependencyMissing`, or `ValueError` for unsupported volumes."""
        spec = self.inputs.pod["spec"]
        volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
        mounts: dict[str, Path] = {}
        for mount in container.get("volumeMounts") or ():
            if mount.get("subPath") or mount.get("subPathExpr"):
                raise ValueError(f"volumeMounts of {container['name']}: subPath is not simulated")
            if mount["name"] not in volumes:
                raise ValueError(f"volumeMounts of {container['name']}: volume {mount['name']!r} does not exist")
            mounts[mount["mountPath"]] = await self._volume(volumes[mount["name"]])
        if spec.get("automountServiceAccountToken", True) and SERVICE_ACCOUNT_PATH not in mounts:
            mounts[SERVICE_ACCOUNT_PATH] = self._write("kube-api-access", await self.inputs.service_account())
        return mounts

    async def _volume(self, volume: Tree) -> Path:
        name = str(volume["name"])
        if host := volume.get("hostPath"):
            return self._host_path(host)
        if claim := volume.get("persistentVolumeClaim"):
            place = confined.child(self.persistent_volumes, await self.inputs.bound_volume(claim["claimName"]))
            place.mkdir(parents=True, exist_ok=True)
            return place
        if (files := await self.inputs.files(volume)) is not None:
            return self._write(name, files)
        if "emptyDir" in volume:
            return self._write(name, {})
        raise ValueError(
            f"volume {name}: its kind is not simulated; allowed are hostPath, configMap, secret, projected, emptyDir "
            "and persistentVolumeClaim"
        )

    def _host_path(self, host: Tree) -> Path:
        path = str(host["path"])
        confined.relative(path)
        kind = host.get("type") or ""
        if kind == "DirectoryOrCreate":
            confined.make_folder(self.node_root, path)
        place = confined.place(self.node_root, path)
        if kind.startswith("Directory") and not place.is_dir():
            raise DependencyMissing(f"hostPath type check failed: {host['path']} is not a directory")
        if kind == "File" and not place.is_file():
            raise DependencyMissing(f"hostPath type check failed: {host['path']} is not a file")
        return place

    def _write(self, name: str, files: Mapping[str, str]) -> Path:
        folder = confined.child(self.folder, name)
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            if path.startswith("/") or not confined.relative(path):
                raise ValueError(f"volume {name}: found the path {path!r}, allowed are relative ones without '..'")
            confined.write(folder, path, text)
        return folder
