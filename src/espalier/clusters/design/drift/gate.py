"""The gate: whether the desired state changed since the cluster was last fully reconciled. Pure.

It compares a content hash that the Cluster carries. Generations and uids are reset by a restore, by a move to another
management cluster and by recreating an object, and the sum of generations can stay the same over a change; content
can't.

The state is annotation `reconciled-content` of the Cluster, compared with the hash of the present content in each
reconcile (`state_of`):

- Closed: both are equal. The reconcile stops before it writes objects, whatever this manager would render; drift is
  another question (`clusters/plan/drift.py`).
- Open: they differ, or the annotation is `open`. The cluster is reconciled.
- Credentials: they differ in the part that covers data of Secrets. Only objects that carry credentials are written.
- Adopted: there is no hash, or one of another format, and the generations that were observed match. Taken for closed,
  and the hash is stored. Clusters of EKS Anywhere and of other managers come this way.

Transitions:

- Closed -> Open: somebody changes the Cluster or an object that it names. The first write of the change is preceded by
  a write of the annotation (`opened`): `open` for a new cluster, `open:existing` for one that has objects of Cluster
  API. A change that is taken back halfway so finds no hash that it equals, and is reconciled to its end as well; and if
  the objects of an existing cluster are missing later, they are not made anew.
- Open -> Closed: a reconcile came to its end. It stores the hash of the content that it began with, so an edit in the
  meantime opens the gate again.
- Closed -> Credentials -> Closed: the same, with `open` in the place of the second digest alone.

A manager that stops anywhere leaves a state from which the next one goes on. Decision 0040 has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from espalier.api.trees import json_trees
from espalier.clusters.design import names
from espalier.kube.objects import Object

FORMAT = "v1"
"""The version of the digest's input and algorithm. When either changes, this changes too, and clusters are adopted
instead of rolled."""

OPENED = "open"
"""The content hash of a cluster that is being changed. No content hashes to it, so reverting a change doesn't close the
gate."""

CHANGING = f"{OPENED}:existing"
"""The same for a cluster that existed before the change: if its Cluster API objects are missing, they were deleted or
not restored, and must not be recreated."""

SPECS = 1024
"""The size of the cache of specs."""

_DIGEST_BYTES = 20

_encode = msgspec.json.Encoder(order="deterministic").encode


class Isolation(StrEnum):
    """How clusters are isolated from manager upgrades: `--isolation`."""

    LAYERS = "layers"
    """The gate, and each cluster is rendered with the layers of its own release; so drift can be detected."""
    GATE = "gate"
    """A cluster is not changed until its desired state changes; then it is rendered as the newest release does it."""
    OFF = "off"
    """Every cluster is rendered as the newest release does it, at once."""


class Gate(Enum):
    """The state of a cluster's gate."""

    CLOSED = "closed"
    """Fully reconciled, and the desired state is unchanged."""
    ADOPTED = "adopted"
    """Closed as far as known: by generations only, because there is no hash or its format is unknown to this manager;
    or by everything except credentials, which the previous manager didn't hash."""
    CREDENTIALS = "credentials"
    """Closed except for data of Secrets: only the objects that carry credentials are written."""
    OPEN = "open"
    """The desired state changed, or a change is incomplete."""


Data: TypeAlias = Mapping[str, Mapping[str, bytes]]
"""The data of Secrets and ConfigMaps on which rendered objects depend, by `Kind namespace/name`."""


def content_hash(
    cluster: Object,
    children: Iterable[Object],
    data: Data | None = None,
    credentials: Data | None = None,
    key: bytes = b"",
    resolved: Mapping[str, str] | None = None,
) -> str:
    """The content hash of a cluster that was fully reconciled with this content.

    Content is the name of the Cluster, its spec, the patches it consents to (an annotation), the specs of its children,
    the data of ConfigMaps, and values that the provider `resolved`. Specs count as stored: including fields unknown to
    this manager, without defaults that it would fill in. Order of keys and nulls do not count, nor do status and other
    metadata (the name does, so that a copy of a Cluster is not taken for the original).

    `credentials`, the data of Secrets, have a digest of their own as the last part of the hash, absent without
    credentials. It is keyed with a secret `key`, or a reader of Clusters could guess passwords; while the key is
    unknown, credentials count as changed.
    """
    content: dict[str, Any] = {
        "cluster": _content(cluster),
        "children": sorted(map(_content, children), key=_encode),
        "data": data or {},
    }
    if patches := names.consents(cluster.metadata.annotations):  # absent if empty, so that earlier hashes stay valid
        content["patches"] = sorted(patches)
    if resolved:
        content["resolved"] = resolved
    value = f"{FORMAT}:{_digest(content, _KEY)}"
    if not credentials:
        return value
    # Includes the name, so that nobody can tell which clusters share credentials.
    return f"{value}:{_digest([cluster.namespace, cluster.name, credentials], key) if key else OPENED}"


def opened(recorded: str | None, wanted: str, gate: Gate, *, exists: bool) -> str:
    """The content hash during a change, for a gate in this state, with the hash `recorded` before and the `wanted` one
    afterwards; `exists` says whether the cluster has Cluster API objects.

    While only credentials are written the hash records that: whoever finishes the change must not write anything else
    either.
    """
    if gate is Gate.CREDENTIALS:
        return f"{FORMAT}:{_parts(wanted)[0]}:{OPENED}"
    if recorded is not None and is_open(recorded):
        return recorded
    return CHANGING if exists else OPENED


def is_open(recorded: str) -> bool:
    """True for the content hash of a cluster that is being made or changed."""
    return recorded in (OPENED, CHANGING)


def state_of(recorded: str | None, wanted: str, *, generations_match: bool) -> Gate:
    """The state of the gate for the stored content hash `recorded` (None: not stored) and the present content's hash
    `wanted`.
    """
    if recorded is not None and is_open(recorded):
        return Gate.OPEN
    if recorded is None or not recorded.startswith(f"{FORMAT}:"):
        return Gate.ADOPTED if generations_match else Gate.OPEN
    (content, credentials), (wanted_content, wanted_credentials) = _parts(recorded), _parts(wanted)
    if content != wanted_content:
        return Gate.OPEN
    if OPENED in (credentials, wanted_credentials):
        return Gate.CREDENTIALS
    if credentials == wanted_credentials:
        return Gate.CLOSED
    return Gate.CREDENTIALS if credentials and wanted_credentials else Gate.ADOPTED


def without_credentials(content_hash: str) -> str:
    """The part of a content hash that covers everything but credentials."""
    return _parts(content_hash)[0]


_KEY = f"espalier gate {FORMAT}".encode()
"""Digests of different formats differ even for the same bytes."""


def _parts(content_hash: str) -> tuple[str, str]:
    """The digests of content and of credentials in a content hash of this format; the second is empty if absent."""
    _, content, credentials = f"{content_hash}::".split(":")[:3]
    return content, credentials


def _digest(content: Any, key: bytes) -> str:
    return blake2b(_encode(content), digest_size=_DIGEST_BYTES, key=key).hexdigest()


def _content(object_: Object) -> list[Any]:
    group = object_.head.api_version.rpartition("/")[0]  # the API version of a kind is not content
    return [group, object_.kind, object_.namespace, object_.name, _canonical(object_.raw_spec)]


@lru_cache(maxsize=SPECS)
def _canonical(spec: bytes) -> msgspec.Raw:
    """A spec in the form that is hashed. Specs rarely change, statuses often."""
    return msgspec.Raw(_encode(json_trees.without_nulls(json_trees.decode(spec) or {})))
