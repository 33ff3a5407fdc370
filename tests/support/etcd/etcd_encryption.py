"""A Cluster's encryption of its etcd by KMS plugins."""

from __future__ import annotations

from espalier.api.meta import Tree

PLUGIN: Tree = {"name": "vault", "socketListenAddress": "unix:///var/run/kmsplugin/vault.sock"}


def asked(*plugins: Tree, resources: tuple[str, ...] = ("secrets",)) -> list[Tree]:
    return [{"providers": [{"kms": plugin} for plugin in plugins], "resources": list(resources)}]
