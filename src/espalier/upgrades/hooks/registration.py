"""Registration of the hooks with Cluster API: the manager creates and maintains an ExtensionConfig."""

from __future__ import annotations

import base64

from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.eksa.upgrades import RUNTIME_EXTENSION
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.merge_patch import difference
from espalier.runtime.caches.cache import Cache, Caches
from espalier.upgrades import names

SYSTEM_NAMESPACE_ONLY = {"matchLabels": {"kubernetes.io/metadata.name": SYSTEM_NAMESPACE}}
"""Cluster API calls the hooks only for our machines, so that machines of other users never depend on them."""


class Extension:
    """Maintains the ExtensionConfig. `client_config` is `{"url": …}` or `{"service": …}`, without the CA bundle.

    The controller of the serving certificate runs on every replica; all apply the same object.
    """

    def __init__(self, client: Client, client_config: Tree) -> None:
        self._client = client
        self._client_config = client_config
        self._cache: Cache | None = None

    def follow(self, caches: Caches) -> Cache:
        """The cache of the one ExtensionConfig."""
        self._cache = caches.of(ExtensionConfig.resource, fields=f"metadata.name={RUNTIME_EXTENSION}")
        return self._cache

    async def trust(self, bundle: bytes) -> None:
        """Register the hooks with this PEM bundle of certificate authorities, if the ExtensionConfig differs."""
        extension = self._cache.get(Key("", RUNTIME_EXTENSION)) if self._cache else None
        body = extension_config(self._client_config, bundle)
        if extension is None or difference(extension.tree["spec"], body["spec"]):
            written = await self._client.apply(ExtensionConfig.resource, body, field_manager=names.FIELD_MANAGER)
            if self._cache is not None:
                self._cache.wrote(written)


def extension_config(client_config: Tree, bundle: bytes) -> Tree:
    """The ExtensionConfig of hooks served at `client_config`, with a certificate that `bundle` verifies."""
    ca = {"caBundle": base64.b64encode(bundle).decode()}
    return {
        "apiVersion": ExtensionConfig.resource.api_version,
        "kind": ExtensionConfig.resource.kind,
        "metadata": {"name": RUNTIME_EXTENSION},
        "spec": {"clientConfig": client_config | ca, "namespaceSelector": SYSTEM_NAMESPACE_ONLY},
    }
