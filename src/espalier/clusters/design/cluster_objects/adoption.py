"""The record of a cluster that was taken over from EKS Anywhere (decision 0236). Pure.

It is a ConfigMap in the system's namespace, where users of other namespaces can't write, and is owned by the Cluster of
Cluster API, so that it is moved and deleted with it. It says which objects without our labels belong to the cluster,
and what its machines were made of: as long as nobody asks for other machines, they stay what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

from espalier.api.core import ConfigMap
from espalier.api.resource import Key, Resource
from espalier.api.trees import json_trees
from espalier.kube.objects import Object

FIELD = "record"
FORMAT = "v1"

_DIGEST_BYTES = 16

_encode = msgspec.json.Encoder(order="deterministic").encode


class Machines(msgspec.Struct, frozen=True):
    """The machines of a control plane, of a worker node group or of external etcd: digests of what they are made of."""

    rendered: str
    """Digest of what was rendered for them."""
    live: str
    """Digest of what they are made of."""


class Adoption(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """A cluster as it was taken over."""

    namespace: str
    name: str
    objects: tuple[str, ...] = ()
    """The objects that belong to it, as `claim` names them."""
    machines: Mapping[str, Machines] = {}
    """By the object that owns the machines, as `claim` names it."""
    cni: str = ""
    """The content hash of the CNI as it was rendered: the installed one is left alone until another is asked for."""
    workload: str = ""
    """The provider's objects in the workload cluster, likewise."""
    written: Mapping[str, str] = {}
    """The annotations that were written on the Cluster."""
    before: Mapping[str, str] = {}
    """Those of the same names before, where there were any."""
    format: str = FORMAT

    @property
    def key(self) -> Key:
        """The Cluster."""
        return Key(self.namespace, self.name)

    @cached_property
    def claims(self) -> frozenset[str]:
        """The objects that belong to it."""
        return frozenset(self.objects)

    def names(self, kind: str) -> list[str]:
        """The names of those of a kind."""
        named = (text.partition(" ") for text in self.objects)
        return [name for of, _, name in named if of == kind]


def config_map(cluster: str) -> str:
    """The name of the record of a Cluster of Cluster API."""
    return f"{cluster}-adoption"


def claim(resource: Resource, name: str) -> str:
    """An object of Cluster API, or made for it, in a record."""
    return f"{resource.kind} {name}"


@lru_cache(maxsize=1024)
def of_object(object_: Object) -> Adoption | None:
    """The record in a ConfigMap; None if there is none that this build can read."""
    try:
        text = object_.decode(ConfigMap).data.get(FIELD, "")
        adoption = json_trees.decode(text, Adoption)
    except msgspec.MsgspecError:
        return None
    return adoption if adoption.format == FORMAT else None


def text_of(adoption: Adoption) -> str:
    """The record as the ConfigMap has it."""
    return _encode(adoption).decode()


def digest(content: Any) -> str:
    """The digest of what machines are made of. Order of keys and nulls do not count."""
    return blake2b(_encode(json_trees.without_nulls(content)), digest_size=_DIGEST_BYTES).hexdigest()
