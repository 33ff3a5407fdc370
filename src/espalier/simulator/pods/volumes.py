"""A pod's volumes as folders, and the environment of its containers."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.runtime import confined

KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
"""The valid keys of ConfigMaps and Secrets."""
SECRETS = "/var/run/secrets/kubernetes.io/serviceaccount"


class NotYet(Exception):
    """A dependency of a container is missing. The message names it, as a kubelet does."""


@dataclass(frozen=True)
class Source:
    """The sources of volumes."""

    client: Client
    pod: Tree
    node_root: Path
    folder: Path
    """For the volumes of this pod."""
    account: Callable[[], Awaitable[Mapping[str, str]]]
    """Token, CA and namespace for its ServiceAccount, by file name. Raises `NotYet`."""

    async def mounts(self, container: Tree) -> dict[str, Path]:
        """Path in the container -> its content. Raises `NotYet`, or `ValueError` for unsupported volumes."""
        spec = self.pod["spec"]
        volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
        found: dict[str, Path] = {}
        for mount in container.get("volumeMounts") or ():
            if mount.get("subPath") or mount.get("subPathExpr"):
                raise ValueError(f"volumeMounts of {container['name']}: subPath is not simulated")
            if mount["name"] not in volumes:
                raise ValueError(f"volumeMounts of {container['name']}: volume {mount['name']!r} does not exist")
            found[mount["mountPath"]] = await self._volume(volumes[mount["name"]])
        if spec.get("automountServiceAccountToken", True) and SECRETS not in found:
            found[SECRETS] = self._written("kube-api-access", await self.account())
        return found

    async def environment(self, container: Tree) -> dict[str, str]:
        """The environment variables of a container. Raises `NotYet`, `ValueError`."""
        found: dict[str, str] = {}
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            if "fieldRef" in source:
                found[variable["name"]] = field_of(self.pod, source["fieldRef"]["fieldPath"])
            elif "configMapKeyRef" in source:
                reference = source["configMapKeyRef"]
                found[variable["name"]] = (await self._data(CONFIG_MAP, reference["name"]))[reference["key"]]
            elif "secretKeyRef" in source:
                reference = source["secretKeyRef"]
                found[variable["name"]] = (await self._data(SECRET, reference["name"]))[reference["key"]]
            elif source:
                raise ValueError(
                    f"env {variable['name']} of {container['name']}: {next(iter(source))} is not simulated"
                )
            else:
                found[variable["name"]] = variable.get("value", "")
        return found

    async def _volume(self, volume: Tree) -> Path:
        name = str(volume["name"])
        if host := volume.get("hostPath"):
            return self._of_host(host)
        if reference := volume.get("configMap"):
            return self._written(name, _picked(await self._data(CONFIG_MAP, reference["name"]), reference))
        if reference := volume.get("secret"):
            return self._written(name, _picked(await self._data(SECRET, reference["secretName"]), reference))
        if projected := volume.get("projected"):
            return self._written(name, await self._projected(projected))
        if "emptyDir" in volume:
            return self._written(name, {})
        raise ValueError(
            f"volume {name}: its kind is not simulated; allowed are hostPath, configMap, secret, projected and emptyDir"
        )

    def _of_host(self, host: Tree) -> Path:
        path = str(host["path"])
        confined.relative(path)
        kind = host.get("type") or ""
        if kind == "DirectoryOrCreate":
            confined.make_folder(self.node_root, path)
        place = confined.place(self.node_root, path)
        if kind.startswith("Directory") and not place.is_dir():
            raise NotYet(f"hostPath type check failed: {host['path']} is not a directory")
        if kind == "File" and not place.is_file():
            raise NotYet(f"hostPath type check failed: {host['path']} is not a file")
        return place

    async def _projected(self, projected: Tree) -> dict[str, str]:
        files: dict[str, str] = {}
        for source in projected.get("sources") or ():
            if token := source.get("serviceAccountToken"):
                files[token.get("path", "token")] = (await self.account())["token"]
            elif reference := source.get("configMap"):
                files |= _picked(await self._authority_or(reference["name"]), reference)
            elif reference := source.get("secret"):
                files |= _picked(await self._data(SECRET, reference["name"]), reference)
            elif download := source.get("downwardAPI"):
                for item in download.get("items") or ():
                    files[item["path"]] = field_of(self.pod, item["fieldRef"]["fieldPath"])
        return files

    async def _authority_or(self, name: str) -> dict[str, str]:
        """A ConfigMap; the cluster's CA is known here, even before a controller created its ConfigMap."""
        if name == "kube-root-ca.crt":
            return {"ca.crt": (await self.account())["ca.crt"]}
        return await self._data(CONFIG_MAP, name)

    async def _data(self, resource: Resource, name: str) -> dict[str, str]:
        try:
            tree = (await self.client.get(resource, name, self.pod["metadata"]["namespace"])).tree
        except NotFound:
            raise NotYet(f'{resource.kind.lower()} "{name}" not found') from None
        data: dict[str, str] = dict(tree.get("data") or {})
        if resource == SECRET:
            return {key: base64.b64decode(value).decode() for key, value in data.items()}
        return data

    def _written(self, name: str, files: Mapping[str, str]) -> Path:
        folder = confined.child(self.folder, name)
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            if path.startswith("/") or not confined.relative(path):
                raise ValueError(f"volume {name}: found the path {path!r}, allowed are relative ones without '..'")
            confined.write(folder, path, text)
        return folder


def field_of(pod: Tree, path: str) -> str:
    """A field of the pod, by the downward API. Raises `ValueError`."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": status.get("hostIP", ""),
        "status.podIP": status.get("podIP", ""),
    }
    if path not in known:
        raise ValueError(f"the field {path} is not simulated; allowed are {', '.join(known)}")
    return str(known[path])


def _picked(data: Mapping[str, str], reference: Tree) -> dict[str, str]:
    """The keys in a volume: all, or its items. Raises `ValueError` for an invalid key."""
    for key in data:
        if not KEY.fullmatch(key) or key in (".", ".."):
            raise ValueError(f"found the key {key!r}, allowed are letters, digits, '-', '_' and '.', and not '..'")
    items = reference.get("items")
    return {item["path"]: data[item["key"]] for item in items} if items else dict(data)
