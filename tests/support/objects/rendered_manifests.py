"""Rendered objects as manifests: listed, searched for secrets, and without them."""

from __future__ import annotations

import base64

import msgspec
import yaml

from espalier.api.capi import cluster as capi
from espalier.api.capi.addons import SECRET_TYPE
from espalier.api.definitions.crd import crd_of
from espalier.api.meta import Tree
from espalier.clusters.design.rendered import Rendered
from espalier.kube.objects import to_bytes
from tests.support.objects.render_inputs import documents

FORK = msgspec.json.decode(to_bytes(crd_of(capi.Cluster)))


def objects(rendered: Rendered) -> list[Tree]:
    """All rendered objects as they are applied."""
    extras = [msgspec.to_builtins(extra) for extra in rendered.extras]
    etcd = [rendered.etcd.machine_template, rendered.etcd.cluster] if rendered.etcd else []
    cluster = documents(msgspec.structs.replace(rendered, cni=(), workload=()))
    return [*extras, *cluster, *map(msgspec.to_builtins, etcd), *(item.body for item in rendered.workload)]


def redacted(trees: list[Tree]) -> list[Tree]:
    """Without Secrets' content, in which a person sees nothing."""
    return [{**tree, "data": sorted(tree["data"])} if tree["kind"] == "Secret" else tree for tree in trees]


def holds(tree: Tree, secret: str) -> bool:
    """True if the data of a Secret, or of a Secret that is in it, have a text."""
    for value in tree.get("data", {}).values() if tree["kind"] == "Secret" else ():
        text = base64.b64decode(value).decode()
        inner = yaml.safe_load_all(text) if tree.get("type") == SECRET_TYPE else ()
        if secret in text or any(holds(item, secret) for item in inner):
            return True
    return False
