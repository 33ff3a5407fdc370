"""Which typed kind an `apiVersion` and `kind` name."""

from __future__ import annotations

from espalier.api import capi, core, eksa
from espalier.api.kinds import KubeObject
from espalier.api.resource import Resource

_TYPED: tuple[type[KubeObject], ...] = (*eksa.KINDS, *capi.KINDS, core.Namespace, core.Secret, core.ConfigMap)
_KINDS = {(cls.resource.api_version, cls.resource.kind): cls for cls in _TYPED}


def kind_of(api_version: str, kind: str) -> type[KubeObject] | None:
    """The typed kind, None when there is none."""
    return _KINDS.get((api_version, kind))


def resource_of(api_version: str, kind: str) -> Resource:
    """The coordinates of a typed kind. Raises `KeyError` when there is none."""
    return _KINDS[api_version, kind].resource
