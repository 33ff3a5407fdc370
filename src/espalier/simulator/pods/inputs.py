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
from espalier.simulator.pods.runtime import NotYet

KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
"""The valid keys of ConfigMaps and Secrets."""


@dataclass(frozen=True)
class Inputs:
    """Inputs of one pod from the API. All methods raise `NotYet` while an object is missing."""

    client: Client
    pod: Tree
    account: Callable[[], Awaitable[Mapping[str, str]]]
    """Token, CA and namespace for its ServiceAccount, by file name. Raises `NotYet`."""

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

    async def files(self, volume: Tree) -> dict[str, str] | None:
        """The files of a volume that come from the API, by path; None for one of another kind. Raises `ValueError`."""
        if reference := volume.get("configMap"):
            return _picked(await self._data(CONFIG_MAP, reference["name"]), reference)
        if reference := volume.get("secret"):
            return _picked(await self._data(SECRET, reference["secretName"]), reference)
        if projected := volume.get("projected"):
            return await self._projected(projected)
        return None

    async def bound(self, claim: str) -> str:
        """The name of the volume that a claim is bound to."""
        namespace = self.pod["metadata"]["namespace"]
        try:
            tree = (await self.client.get(PERSISTENT_VOLUME_CLAIM, claim, namespace)).tree
        except NotFound:
            raise NotYet(f'persistentvolumeclaim "{claim}" not found') from None
        if (tree.get("status") or {}).get("phase") != "Bound":
            raise NotYet(f'pod has unbound PersistentVolumeClaim "{claim}"')
        return str(tree["spec"]["volumeName"])

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
