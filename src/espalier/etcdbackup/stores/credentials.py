"""Credentials in the files of etcd-backup-restore (docs/usage/getting_started.md there), for Gardener's Secrets.

An environment variable for each provider names a folder of files, or one JSON file with the same keys. With the prefix
`SOURCE_` it is that of a copy's source.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from espalier.api.trees import json_trees
from espalier.etcdbackup.stores.errors import Refused
from espalier.etcdbackup.stores.location import Kind

VARIABLES: Mapping[Kind, str] = {
    Kind.S3: "AWS_APPLICATION_CREDENTIALS",
    Kind.AZURE: "AZURE_APPLICATION_CREDENTIALS",
    Kind.GCS: "GOOGLE_APPLICATION_CREDENTIALS",
}
SOURCE = "SOURCE_"
ENDPOINT_BESIDE = "storageAPIEndpoint"
"""A file beside GCS's credentials."""
LARGEST = 1 << 20
"""The largest size of a file, in bytes."""
Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The content of the files, and their state when they were read."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By file name, or by key of the JSON file. For GCS, the service account is `serviceaccount.json`."""
    folder: Path | None = None
    """The folder of the files; for those that a client reads by itself, such as a token that is renewed."""
    stamp: Stamp = ()


@dataclass(frozen=True, slots=True)
class CredentialFiles:
    """The place of a store's credentials. They may change at any time; Kubernetes replaces a symbolic link then."""

    kind: Kind
    path: Path | None
    """Folder or file; None: the provider's client uses its defaults (environment, role of the machine)."""

    def stamp(self) -> Stamp:
        """A value that changes when the files do. Raises `Refused`."""
        return tuple(
            (str(file), state.st_ino, state.st_mtime_ns, state.st_size)
            for file in self._files()
            for state in (_state(file),)
        )

    def load(self) -> Credentials:
        """Read the files. Raises `Refused`, whose message names the file and has nothing of its content."""
        if self.path is None:
            return Credentials()
        stamp = self.stamp()
        if self.path.is_dir():
            values = {file.name: _text(file) for file in self._files()}
            return Credentials(values, self.path, stamp)
        if self.kind is Kind.GCS:
            beside = self.path.parent / ENDPOINT_BESIDE
            endpoint = {ENDPOINT_BESIDE: _text(beside)} if beside.is_file() else {}
            return Credentials({"serviceaccount.json": _text(self.path), **endpoint}, self.path.parent, stamp)
        return Credentials(_values(self.path), self.path.parent, stamp)

    def _files(self) -> list[Path]:
        if self.path is None:
            return []
        if not self.path.is_dir():
            return [self.path]
        try:
            return sorted(file for file in self.path.iterdir() if not file.name.startswith("..") and file.is_file())
        except OSError as error:
            raise _unreadable(self.path, error) from None


def find(kind: Kind, environ: Mapping[str, str], *, source: bool = False) -> CredentialFiles:
    """The files that the environment names for a kind of store.

    Raises `Refused` for a copy's source if only the target's are named, which would be sent to the source otherwise.
    """
    variable = VARIABLES.get(kind)
    if variable is None:
        return CredentialFiles(kind, None)
    named = _named(variable, environ, SOURCE if source else "")
    if named is None and source and _named(variable, environ, "") is not None:
        finding = f"{variable} is set, for the target, but {SOURCE}{variable} is not"
        raise Refused("credentials of the source", finding, "set it; the same path if the two share credentials")
    return CredentialFiles(kind, named)


def _named(variable: str, environ: Mapping[str, str], prefix: str) -> Path | None:
    named = environ.get(prefix + variable) or environ.get(f"{prefix}{variable}_JSON")
    return Path(named) if named else None


def _state(file: Path) -> os.stat_result:
    try:
        return file.stat()
    except OSError as error:
        raise _unreadable(file, error) from None


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise Refused(str(file), f"more than {LARGEST} bytes", "the file must hold credentials only")
        return data.decode().strip()
    except UnicodeDecodeError:
        raise Refused(str(file), "it is not text in UTF-8", "the file must hold credentials only") from None
    except OSError as error:
        raise _unreadable(file, error) from None


def _values(file: Path) -> dict[str, str]:
    advice = "allowed is one JSON object of strings, such as accessKeyID"
    try:
        tree = json_trees.decode(_text(file).encode())
    except msgspec.MsgspecError:
        raise Refused(str(file), "it is not JSON", advice) from None
    if not isinstance(tree, dict):
        raise Refused(str(file), "it is JSON, but not an object", advice)
    return {name: _word(value) for name, value in tree.items() if isinstance(value, str | bool)}


def _word(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _unreadable(path: Path, error: OSError) -> Refused:
    return Refused(str(path), f"the credentials can't be read: {error.strerror}", "mount the Secret there")
