"""Inputs of a pod's containers from the API: environment, ConfigMaps, Secrets, tokens, and bound volumes."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from espalier.api.core import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, SECRET
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.simulator.pods.runtimes.runtime import DependencyMissing

KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
"""The valid keys of ConfigMaps and Secrets."""


@dataclass(frozen=True)
class Inputs:
    """Inputs of one pod from the API. All methods raise `DependencyMissing` while an object does not exist."""

    client: Client
    pod: Tree
    service_account: Callable[[], Awaitable[Mapping[str, str]]]
    """Token, CA and namespace for its ServiceAccount, by file name. Raises `DependencyMissing`."""

    async def environment(self, container: Tree) -> dict[str, str]:
        """The environment variables of a container.

        Raises `DependencyMissing`, `KeyError` for a missing key, and `ValueError` for an unsupported source.
        """
        variables: dict[str, str] = {}
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            if "fieldRef" in source:
                variables[variable["name"]] = field_of(self.pod, source["fieldRef"]["fieldPath"])
            elif "configMapKeyRef" in source:
                reference = source["configMapKeyRef"]
                variables[variable["name"]] = (await self._data(CONFIG_MAP, reference["name"]))[reference["key"]]
            elif "secretKeyRef" in source:
                reference = source["secretKeyRef"]
                variables[variable["name"]] = (await self._data(SECRET, reference["name"]))[reference["key"]]
            elif source:
                raise ValueError(
                    f"env {variable['name']} of {container['name']}: {next(iter(source))} is not simulated"
                )
            else:
                variables[variable["name"]] = variable.get("value", "")
        return variables

    async def files(self, volume: Tree) -> dict[str, str] | None:
        """The files of a volume that come from the API, by path; None for one of another kind. Raises `ValueError`."""
        if reference := volume.get("configMap"):
            return _selected_keys(await self._data(CONFIG_MAP, reference["name"]), reference)
        if reference := volume.get("secret"):
            return _selected_keys(await self._data(SECRET, reference["secretName"]), reference)
        if projected := volume.get("projected"):
            return await self._projected(projected)
        return None

    async def bound_volume(self, claim: str) -> str:
        """The name of the PersistentVolume that a PersistentVolumeClaim is bound to."""
        namespace = self.pod["metadata"]["namespace"]
        try:
            tree = (await self.client.get(PERSISTENT_VOLUME_CLAIM, claim, namespace)).tree
        except NotFound:
            raise DependencyMissing(f'persistentvolumeclaim "{claim}" not found') from None
        if (tree.get("status") or {}).get("phase") != "Bound":
            raise DependencyMissing(f'pod has unbound PersistentVolumeClaim "{claim}"')
        return str(tree["spec"]["volumeName"])

    async def _projected(self, projected: Tree) -> dict[str, str]:
        files: dict[str, str] = {}
        for source in projected.get("sources") or ():
            if token := source.get("serviceAccountToken"):
                files[token.get("path", "token")] = (await self.service_account())["token"]
            elif reference := source.get("configMap"):
                files |= _selected_keys(await self._config_map(reference["name"]), reference)
            elif reference := source.get("secret"):
                files |= _selected_keys(await self._data(SECRET, reference["name"]), reference)
            elif downward_api := source.get("downwardAPI"):
                for item in downward_api.get("items") or ():
                    files[item["path"]] = field_of(self.pod, item["fieldRef"]["fieldPath"])
        return files

    async def _config_map(self, name: str) -> dict[str, str]:
        """The data of a ConfigMap. That of the cluster's CA is known here, even before a controller has created it."""
        if name == "kube-root-ca.crt":
            return {"ca.crt": (await self.service_account())["ca.crt"]}
        return await self._data(CONFIG_MAP, name)

    async def _data(self, resource: Resource, name: str) -> dict[str, str]:
        try:
            tree = (await self.client.get(resource, name, self.pod["metadata"]["namespace"])).tree
        except NotFound:
            raise DependencyMissing(f'{resource.kind.lower()} "{name}" not found') from None
        data: dict[str, str] = dict(tree.get("data") or {})
        if resource == SECRET:
            return {key: base64.b64decode(value).decode() for key, value in data.items()}
        return data


def field_of(pod: Tree, path: str) -> str:
    """A field of the pod for the downward API. Raises `ValueError` for one that is not simulated."""
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


def _selected_keys(data: Mapping[str, str], reference: Tree) -> dict[str, str]:
    """The files of a volume, by path: all keys, or its `items`.

    Raises `ValueError` for an invalid key, `KeyError` for an item whose key is missing.
    """
    for key in data:
        if not KEY.fullmatch(key) or key in (".", ".."):
            raise ValueError(f"found the key {key!r}, allowed are letters, digits, '-', '_' and '.', and not '..'")
    items = reference.get("items")
    return {item["path"]: data[item["key"]] for item in items} if items else dict(data)
