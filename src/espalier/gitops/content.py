"""The part of an object that belongs into Git, and secrets, which never do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from espalier.api.definitions.reference import Writer
from espalier.api.meta import Tree
from espalier.api.metadata_rows import ANNOTATIONS
from espalier.api.text import paths, redaction

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_OF_SERVERS = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
"""Metadata that an API server writes. Flux deletes an object whose `resourceVersion` or `uid` is another one."""

_OF_MANAGERS = frozenset(key for key, prose in ANNOTATIONS if prose.writer is not Writer.USER) | {LAST_APPLIED}

_SSH_USER = re.compile(r"ssh://[^/:@\s]+@[^/@\s]+(/.*)?")
"""Without a password: everybody has the same user, and nobody is let in by it."""
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")


def desired(tree: Tree) -> Tree:
    """The object as its author wants it: without status and what API servers and managers write."""
    metadata = {name: value for name, value in (tree.get("metadata") or {}).items() if name not in _OF_SERVERS}
    annotations = {
        key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key not in _OF_MANAGERS
    }
    if annotations:
        metadata["annotations"] = annotations
    if not metadata.get("finalizers"):
        metadata.pop("finalizers", None)
    content = {name: value for name, value in tree.items() if name != "status"}
    return content | {"metadata": metadata}


def secrets_in(trees: Sequence[Tree], path: str) -> Iterator[str]:
    """Sentences about secrets in the objects of a file: the file, the object and the key, never the value."""
    for tree in trees:
        name = (tree.get("metadata") or {}).get("name", "")
        where = f"{path}: {tree.get('kind')} {name}"
        if tree.get("kind") == "Secret":
            keys = sorted({*(tree.get("data") or {}), *(tree.get("stringData") or {})})
            yield (
                f"{where}: a Secret must not be in Git (keys: {', '.join(keys) or 'none'}); create it in the cluster, "
                "or encrypt it with SOPS"
            )
            continue
        for at, value in _texts((), tree):
            if why := _secret(at, value):
                yield f"{where}: {paths.render(at)}: {why}; take it out of the file"


def _secret(at: tuple[paths.PathStep, ...], value: str) -> str:
    if _PRIVATE_KEY.search(value):
        return "it has a private key"
    if _SSH_USER.fullmatch(value):
        return ""
    if redaction.concealed(value) != value or redaction.secrets_of({str(at[-1]): value} if "://" not in value else {}):
        return "it has a user or a password"
    if value and redaction.is_secret(at):
        return "its name says that it is secret"
    return ""


def _texts(at: tuple[paths.PathStep, ...], value: Any) -> Iterator[tuple[tuple[paths.PathStep, ...], str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts((*at, str(name)), inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts((*at, index), inner)
    elif isinstance(value, str):
        yield at, value
