"""The gate: whether anything was asked for since a cluster was last reconciled to its end. Pure.

It compares content, by a hash of it that the Cluster carries. Generations and uids start anew with a restore,
with a move to another management cluster and with an object that is deleted and made again, and their sum can stay the
same over a change; content does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from espalier.clusters import names
from espalier.kube.objects import Object

FORMAT = "v1"
"""What the digest is made of and how. Whatever changes either changes this, and clusters are adopted, not rolled."""

OPENED = "open"
"""The content hash of a cluster that is being changed. No content has it, so changing back doesn't close the gate."""

_DIGEST_BYTES = 20

_encode = msgspec.json.Encoder(order="deterministic").encode


class Isolation(StrEnum):
    """What keeps a manager from changing clusters of which nothing new was asked: `--isolation`."""

    LAYERS = "layers"
    """The gate, and each cluster is rendered as its own release does it; so drift can be seen."""
    GATE = "gate"
    """A cluster is left alone until something is asked of it; then it is rendered as the newest release does it."""
    OFF = "off"
    """Every cluster follows this manager."""


class Gate(Enum):
    """Where a cluster stands."""

    CLOSED = "closed"
    """Reconciled to its end, and nothing was asked for since."""
    ADOPTED = "adopted"
    """As closed, as far as that is known: by the generations alone, for there is no hash, or one of a format that this
    manager doesn't know; or by all but credentials, which the manager before didn't look at."""
    CREDENTIALS = "credentials"
    """As closed but for data of Secrets: what carries that is written, and nothing else."""
    OPEN = "open"
    """Something was asked for, or is half done."""


Data: TypeAlias = Mapping[str, Mapping[str, bytes]]
"""That of Secrets and ConfigMaps on which rendered objects depend, by `Kind namespace/name`."""


def content_hash(
    cluster: Object,
    children: Iterable[Object],
    data: Data | None = None,
    credentials: Data | None = None,
    key: bytes = b"",
    resolved: Mapping[str, str] | None = None,
) -> str:
    """The content hash of a cluster that was reconciled with this content.

    Content is the name of the Cluster, its spec, the patches it consents to (an annotation), the specs of its children,
    `data`: that of ConfigMaps, and what was `resolved` elsewhere. Specs count as they are stored: fields that this
    manager doesn't know do, and defaults that it would fill in don't. Order of keys and nulls is no content, nor are
    other metadata (but the name, so that a copy of a Cluster is not taken for the original) and status.

    `credentials`, the data of Secrets, have a digest of their own, the last part of the hash, which is absent without
    any. Its `key` is secret, or whoever may read Clusters could try passwords; as long as the key isn't known,
    credentials count as others.
    """
    content: dict[str, Any] = {
        "cluster": _content(cluster),
        "children": sorted(map(_content, children), key=_encode),
        "data": data or {},
    }
    if patches := names.consents(cluster.metadata.annotations):  # absent without any, so that earlier hashes stay good
        content["patches"] = sorted(patches)
    if resolved:
        content["resolved"] = resolved
    found = f"{FORMAT}:{_digest(content, _KEY)}"
    if not credentials:
        return found
    # By the name as well: nobody sees which clusters have the same credentials.
    return f"{found}:{_digest([cluster.namespace, cluster.name, credentials], key) if key else OPENED}"


def opened(wanted: str, gate: Gate) -> str:
    """The content hash while a cluster is written to that stands so, and shall have `wanted` afterwards.

    That of one to which credentials alone are written says so: whoever finishes it may write nothing else either.
    """
    return f"{FORMAT}:{_parts(wanted)[0]}:{OPENED}" if gate is Gate.CREDENTIALS else OPENED


def stand(found: str | None, wanted: str, *, generations_match: bool) -> Gate:
    """Where a cluster with the content hash `found` (None without one) stands, whose content now has `wanted`."""
    if found == OPENED:
        return Gate.OPEN
    if found is None or not found.startswith(f"{FORMAT}:"):
        return Gate.ADOPTED if generations_match else Gate.OPEN
    (content, credentials), (wanted_content, wanted_credentials) = _parts(found), _parts(wanted)
    if content != wanted_content:
        return Gate.OPEN
    if OPENED in (credentials, wanted_credentials):
        return Gate.CREDENTIALS
    if credentials == wanted_credentials:
        return Gate.CLOSED
    return Gate.CREDENTIALS if credentials and wanted_credentials else Gate.ADOPTED


_KEY = f"espalier gate {FORMAT}".encode()
"""Digests of different formats have nothing in common, even of the same bytes."""


def _parts(content_hash: str) -> tuple[str, str]:
    """The digests of content and of credentials in a content hash of this format; the latter is empty without any."""
    _, content, credentials = f"{content_hash}::".split(":")[:3]
    return content, credentials


def _digest(content: Any, key: bytes) -> str:
    return blake2b(_encode(content), digest_size=_DIGEST_BYTES, key=key).hexdigest()


def _content(object_: Object) -> list[Any]:
    group = object_.head.api_version.rpartition("/")[0]  # another version of a kind is no other content
    return [group, object_.kind, object_.namespace, object_.name, _without_nulls(object_.tree.get("spec", {}))]


def _without_nulls(value: Any) -> Any:
    """A field that is null is absent, as for the API server."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
