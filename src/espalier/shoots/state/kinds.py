"""Kinds of extension resources in a seed: the known ones, and those installed later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import msgspec

from espalier.api.gardener import EXTENSION_KINDS
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.extension import GROUP, Extended
from espalier.api.kinds import kind
from espalier.api.meta import Observed
from espalier.api.resource import Resource
from espalier.kube.objects import Object

_KNOWN = {kind.resource.plural: kind for kind in EXTENSION_KINDS}
_NO_SHOOTS = frozenset({Cluster.resource.plural})


class _Names(Observed, frozen=True):
    kind: str = ""
    plural: str = ""


class _Version(Observed, frozen=True):
    name: str = ""
    served: bool = False


class _Spec(Observed, frozen=True):
    group: str = ""
    scope: str = ""
    names: _Names = _Names()
    versions: tuple[_Version, ...] = ()


class _Definition(Observed, frozen=True):
    spec: _Spec = _Spec()


def kinds_of(definition: Object) -> Iterator[type[Extended]]:
    """The kind of a CustomResourceDefinition, if its objects may be extension resources of shoots."""
    try:
        spec = definition.decode(_Definition).spec
    except msgspec.ValidationError:
        return
    served = [version.name for version in spec.versions if version.served]
    if spec.group != GROUP or spec.scope != "Namespaced" or not served or spec.names.plural in _NO_SHOOTS:
        return
    known = _KNOWN.get(spec.names.plural)
    yield known if known is not None else declared(Resource(GROUP, served[0], spec.names.plural, spec.names.kind))


def declared(resource: Resource) -> type[Extended]:
    """A kind with nothing but the fields of all extension kinds."""
    struct = cast(type[Extended], msgspec.defstruct(resource.kind, [], bases=(Extended,), kw_only=True))
    return kind(resource, status=True, partly=True)(struct)
