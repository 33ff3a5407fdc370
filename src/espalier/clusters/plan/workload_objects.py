"""A provider's objects in workload clusters, such as a cloud controller manager, and the list of installed ones.

They are handled like the CNI. An annotation on the Cluster API Cluster lists the installed objects, so that those that
are no longer rendered can be deleted: nothing else records them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.resource import Key, Resource
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.design.rendered import Manifest
from espalier.clusters.observe.scope import Scope


class WorkloadObject(NamedTuple):
    """An object of the workload cluster."""

    resource: Resource
    key: Key


class Installed(NamedTuple):
    """The content of the annotation."""

    digest: str = ""
    """The digest of all objects; empty before the first installation, and `unfinished` during one."""
    objects: tuple[WorkloadObject, ...] = ()
    """The objects that exist or may exist."""

    def __str__(self) -> str:
        return f"{self.digest} {','.join(map(_written, self.objects))}".strip()


def wanted(render_input: RenderInput | None) -> list[Manifest]:
    """The objects, in the order in which they are applied. Shared: must not be modified."""
    return list(rendered(render_input).workload) if render_input is not None else []


def placed(manifests: Sequence[Manifest]) -> tuple[WorkloadObject, ...]:
    """The identities of these objects."""
    located = ((manifest.resource, manifest.body["metadata"]) for manifest in manifests)
    return tuple(
        WorkloadObject(kind, Key(metadata.get("namespace", ""), metadata["name"])) for kind, metadata in located
    )


def digest(manifests: Sequence[Manifest]) -> str:
    """The digest of the objects; empty if there are none.

    It does not allow guessing of passwords: it covers only the names of Secrets' fields.
    """
    content = msgspec.json.encode([_without_data(manifest) for manifest in manifests], order="sorted")
    return hashlib.sha256(content).hexdigest()[:12] if manifests else ""


def _without_data(manifest: Manifest) -> Manifest:
    if manifest.resource != SECRET:
        return manifest
    return manifest._replace(body={**manifest.body, "data": sorted(manifest.body.get("data", {}))})


def installed(scope: Scope) -> Installed:
    """The objects installed in the workload cluster."""
    cluster = scope.capi_objects.cluster
    recorded = (
        cluster.metadata.annotations.get(metadata_keys.WORKLOAD_OBJECTS_ANNOTATION, "") if cluster is not None else ""
    )
    adopted = scope.capi_objects.adoption
    if not recorded and adopted is not None:
        recorded = adopted.workload
    digest_, _, objects = recorded.partition(" ")
    return Installed(digest_, tuple(_read(part) for part in objects.split(",") if part.count("/") == _SLASHES))


def are_adopted(scope: Scope) -> bool:
    """True as long as they are those that EKS Anywhere installed."""
    cluster, adopted = scope.capi_objects.cluster, scope.capi_objects.adoption
    is_noted = cluster is not None and metadata_keys.WORKLOAD_OBJECTS_ANNOTATION in cluster.metadata.annotations
    return adopted is not None and bool(adopted.workload) and not is_noted


class PendingObjects(NamedTuple):
    """Objects to be installed in the workload cluster."""

    manifests: list[Manifest]
    superfluous: tuple[WorkloadObject, ...]
    """Installed objects that are no longer rendered: they are deleted."""
    installed: Installed
    """The content of the annotation afterwards."""


def due(scope: Scope) -> PendingObjects | None:
    """The objects to be installed; None if none are, because the rendered objects are those installed last."""
    manifests, before = wanted(scope.render_input), installed(scope)
    after = Installed(digest(manifests), placed(manifests))
    if before == after:
        return None
    return PendingObjects(
        manifests, tuple(object_ for object_ in before.objects if object_ not in after.objects), after
    )


def _written(object_: WorkloadObject) -> str:
    resource, key = object_
    return "/".join((resource.group, resource.version, resource.plural, resource.kind, key.namespace, key.name))


_SLASHES = 5


def _read(text: str) -> WorkloadObject:
    group, version, plural, kind, namespace, name = text.split("/")
    return WorkloadObject(Resource(group, version, plural, kind, bool(namespace)), Key(namespace, name))
