"""What kubeadm leaves behind on a control plane node: backups of manifests and of etcd's data, at each upgrade.

kubeadm keeps them for people who have to repair a failed upgrade by hand, and never takes them away. Those that were
made by an upgrade which succeeded go with it; what was there before stays.
"""

from __future__ import annotations

import json
import re

from .node import Node

FOLDER = "/etc/kubernetes/tmp"
PREFIX = "kubeadm-"
MANIFESTS = "/etc/kubernetes/manifests"


def note(node: Node) -> None:
    """Note what is there before kubeadm runs for the first time."""
    if not node.files.is_file(_note(node)):
        node.files.make_folder(node.contents.work)
        node.files.write(_note(node), json.dumps(_found(node)))


def remove(node: Node) -> None:
    """Take away what came since then."""
    before = node.files.text(_note(node))
    if not before:
        return
    for name in _found(node):
        if name not in json.loads(before):
            node.files.remove_folder(f"{FOLDER}/{name}")


def size(node: Node) -> int:
    """Bytes that kubeadm needs for its backups, at the most."""
    if not node.control_plane:
        return 0
    manifest = node.files.text(f"{MANIFESTS}/etcd.yaml")
    data = re.search(r"--data-dir=(/[^\s\"',]+)", manifest)
    return node.files.folder_size(MANIFESTS) + (node.files.folder_size(data[1]) if data else 0)


def _note(node: Node) -> str:
    return f"{node.contents.work}/kubeadm-backups.before"


def _found(node: Node) -> list[str]:
    return [name for name in node.files.names(FOLDER) if name.startswith(PREFIX)]
