"""URLs of stores: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, `file:///folder`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from espalier.etcdbackup.stores import keys


class Kind(StrEnum):
    """Kinds of stores; the scheme of their URLs."""

    S3 = "s3"
    GCS = "gs"
    AZURE = "az"
    LOCAL = "file"


_SCHEMES = {"s3": Kind.S3, "gs": Kind.GCS, "gcs": Kind.GCS, "az": Kind.AZURE, "abs": Kind.AZURE, "file": Kind.LOCAL}
_ALLOWED = "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///folder"


@dataclass(frozen=True, slots=True)
class Location:
    """A place for backups: bucket or container, and the prefix of all keys (without slashes at its ends).

    For a local folder, the container is the folder's absolute path, and the prefix is empty.
    """

    kind: Kind
    container: str
    prefix: str = ""

    def __str__(self) -> str:
        if self.kind is Kind.LOCAL:
            return f"file://{self.container}"
        return f"{self.kind}://{self.container}" + (f"/{self.prefix}" if self.prefix else "")


def parse(url: str) -> Location:
    """Parse a location's URL. Raises `ValueError`, whose message never repeats a password."""
    split = urlsplit(url)
    if split.username is not None or split.password is not None:
        raise ValueError("STORE: found a user in the URL; credentials come from files, see docs/etcd-backup.md")
    if split.query or split.fragment:
        raise ValueError(f"STORE: found {url!r} with ? or #, allowed is {_ALLOWED}")
    kind = _SCHEMES.get(split.scheme)
    if kind is None or not (split.netloc or kind is Kind.LOCAL):
        raise ValueError(f"STORE: found {url!r}, allowed is {_ALLOWED}")
    if kind is Kind.LOCAL:
        folder = PurePosixPath(unquote(split.path))
        if split.netloc not in ("", "localhost") or not folder.is_absolute() or ".." in folder.parts:
            raise ValueError(f"STORE: found {url!r}, allowed is an absolute folder: file:///var/backups/etcd-main")
        return Location(kind, str(folder))
    prefix = split.path.strip("/")
    return Location(kind, split.netloc, keys.checked(prefix, "prefix of STORE") if prefix else "")
