"""Changes of a machine's bootstrap configuration that the upgrader makes on its node: files and kubelet flags. Pure.

Bootstrap data writes them before kubeadm runs. Only changes that can take effect on an existing node are applied: files
below `FOLDERS`, which static pods mount, kubeadm reads, or the kubelet reads when it starts; and kubelet flags, except
those that only matter when the node registers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from hashlib import sha256

import msgspec
from msgspec import json

from espalier.api.meta import Tree

FOLDERS = ("/etc/kubernetes/", "/var/lib/kubeadm/")
"""Folders whose files are read by the programs that an upgrade restarts."""
_KUBEADM = (
    "/etc/kubernetes/pki/",
    "/etc/kubernetes/tmp/",
    *(
        f"/etc/kubernetes/{name}.conf"
        for name in ("admin", "super-admin", "kubelet", "controller-manager", "scheduler")
    ),
    *(
        f"/etc/kubernetes/manifests/{name}.yaml"
        for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    ),
)
"""Paths that kubeadm itself writes."""
_ONCE = frozenset(
    {
        "bootstrap-kubeconfig",
        "cert-dir",
        "cloud-provider",
        "config",
        "config-dir",
        "container-runtime-endpoint",
        "hostname-override",
        "kubeconfig",
        "node-labels",
        "provider-id",
        "register-node",
        "register-schedulable",
        "register-with-taints",
        "root-dir",
    }
)
"""Kubelet flags that only matter when the node registers, or that would make it another node."""
FILES, FLAGS = "files", "joinConfiguration.nodeRegistration.kubeletExtraArgs"
PATCHES = "joinConfiguration.patches"
"""The fields, as named by a comparison of machines."""


class Traits(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a KubeadmConfig that a node has, short enough for an annotation: digests of files, not contents."""

    files: dict[str, str]
    kubelet_args: dict[str, list[str]]
    patches: str = ""


def traits(spec: Tree) -> Traits:
    """The traits of the node of a machine with a KubeadmConfig spec."""
    digests = {path: sha256(json.encode(file, order="sorted")).hexdigest()[:32] for path, file in _files(spec).items()}
    return Traits(digests, _flags(spec), _patches(spec))


def changes_since(old: Traits, after: Tree) -> Tree:
    """The changes that bring a node with these traits to a KubeadmConfig spec.

    Empty when nothing changes, else the parts that are not empty: `files`, `removedFiles`, `kubeletArgs`,
    `removedKubeletArgs`. Contents of files are in base64. `patches` is the folder with patches for kubeadm's output, if
    it differs; empty for none.
    """
    new = traits(after)
    changes: Tree = {
        "files": [
            {
                "path": path,
                "owner": file.get("owner") or "root:root",
                "permissions": file.get("permissions") or "0644",
                "content": _content(file),
            }
            for path, file in sorted(_files(after).items())
            if new.files[path] != old.files.get(path)
        ],
        "removedFiles": sorted(old.files.keys() - new.files.keys()),
        "kubeletArgs": [
            {"name": name, "value": value}
            for name, values in sorted(new.kubelet_args.items())
            if values != old.kubelet_args.get(name)
            for value in values
        ],
        "removedKubeletArgs": sorted(old.kubelet_args.keys() - new.kubelet_args.keys()),
    }
    patches = {"patches": new.patches} if old.patches != new.patches else {}
    return {name: part for name, part in changes.items() if part} | patches


def only_new(before: Tree, after: Tree) -> Iterator[str]:
    """The changed files and kubelet flags that only a new machine gets, by field."""
    old, new = _files(before), _files(after)
    for path in sorted(old.keys() | new.keys()):
        file = new.get(path)
        if file == old.get(path):
            continue
        is_read = path.startswith(FOLDERS) and not path.startswith(_KUBEADM)
        if not is_read or path.endswith("/") or any(part in ("", ".", "..") for part in path.split("/")[1:]):
            yield f"{FILES}[{path}]"
        elif file is not None:
            for part in ("contentFrom", "append"):
                if file.get(part) and file.get(part) != "replace":
                    yield f"{FILES}[{path}].{part}"
            if not _is_readable(file):
                yield f"{FILES}[{path}].encoding"
    old_flags, new_flags = _flags(before), _flags(after)
    for name in sorted(old_flags.keys() | new_flags.keys()):
        values = new_flags.get(name, [])
        if values != old_flags.get(name, []) and (name in _ONCE or not all(map(_is_word, (name, *values)))):
            yield f"{FLAGS}[{name}]"


def _files(spec: Tree) -> dict[str, Tree]:
    """The files by path; parts that are empty mean the same as none."""
    files = (file for file in spec.get("files") or () if isinstance(file, dict))
    return {str(file.get("path", "")): {name: value for name, value in file.items() if value} for file in files}


def _flags(spec: Tree) -> dict[str, list[str]]:
    """The kubelet's flags, each with its values in order."""
    flags: dict[str, list[str]] = {}
    for argument in (_section(spec).get("nodeRegistration") or {}).get("kubeletExtraArgs") or ():
        flags.setdefault(str(argument.get("name", "")), []).append(str(argument.get("value", "")))
    return flags


def _patches(spec: Tree) -> str:
    return str((_section(spec).get("patches") or {}).get("directory") or "")


def _section(spec: Tree) -> Tree:
    """kubeadm's configuration of the node: that of the machine that initializes the cluster, or of those that join."""
    section: Tree = spec.get("joinConfiguration") or spec.get("initConfiguration") or {}
    return section


def _content(file: Tree) -> str:
    """The content in base64."""
    content = str(file.get("content") or "")
    return content if file.get("encoding") == "base64" else base64.b64encode(content.encode()).decode()


def _is_readable(file: Tree) -> bool:
    if file.get("encoding") not in (None, "base64"):
        return False
    try:
        base64.b64decode(_content(file), validate=True)
    except binascii.Error:
        return False
    return True


def _is_word(text: str) -> bool:
    """True if a text may be written without quotes into a file of variables."""
    return text.isascii() and text.isprintable() and not any(sign in " \"'\\$`" for sign in text)
