"""What a provider has in workload clusters, such as a cloud controller manager: which objects, and what was installed.

They are beside the CNI, and looked after as it is. An annotation on the Cluster of Cluster API says which objects
there are, so that those go that are no longer rendered: nothing else remembers them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from espalier.api.resource import Key, Resource
from espalier.clusters import names
from espalier.clusters.render.layered import rendered
from espalier.clusters.render_input import Design
from espalier.clusters.rendered import Manifest
from espalier.clusters.scope import Scope


class Placed(NamedTuple):
    """An object of the workload cluster."""

    resource: Resource
    key: Key


class Installed(NamedTuple):
    """What the annotation says."""

    digest: str = ""
    """Of the content of all of them; empty before the first installation, and `unfinished` within one."""
    objects: tuple[Placed, ...] = ()
    """Those that are there, or may be."""

    def __str__(self) -> str:
        return f"{self.digest} {','.join(map(_written, self.objects))}".strip()


def wanted(design: Design | None) -> list[Manifest]:
    """The objects, in the order in which they are applied."""
    return list(rendered(design).workload) if design is not None else []


def placed(manifests: Sequence[Manifest]) -> tuple[Placed, ...]:
    """Which objects these are."""
    found = ((one.resource, one.body["metadata"]) for one in manifests)
    return tuple(Placed(kind, Key(metadata.get("namespace", ""), metadata["name"])) for kind, metadata in found)


def digest(manifests: Sequence[Manifest]) -> str:
    """What differs when the objects do; empty without any."""
    content = msgspec.json.encode(manifests, order="sorted")
    return hashlib.sha256(content).hexdigest()[:12] if manifests else ""


def installed(scope: Scope) -> Installed:
    """What the workload cluster was given."""
    cluster = scope.capi_objects.cluster
    said = cluster.metadata.annotations.get(names.WORKLOAD_OBJECTS_ANNOTATION, "") if cluster is not None else ""
    digest_, _, objects = said.partition(" ")
    return Installed(digest_, tuple(_read(one) for one in objects.split(",") if one.count("/") == _SLASHES))


def _written(one: Placed) -> str:
    resource, key = one
    return "/".join((resource.group, resource.version, resource.plural, resource.kind, key.namespace, key.name))


_SLASHES = 5


def _read(text: str) -> Placed:
    group, version, plural, kind, namespace, name = text.split("/")
    return Placed(Resource(group, version, plural, kind, bool(namespace)), Key(namespace, name))
