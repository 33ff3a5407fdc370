"""Clusters that Flux applies with `force`: it deletes an object to make a change that an API server calls Invalid.

The Kustomization that applies an object is named by labels of the object. Flux may be absent.
"""

from __future__ import annotations

from espalier.api.flux import FORCE_ANNOTATION, KUSTOMIZATION, NAME_LABEL, NAMESPACE_LABEL
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Caches

_ON = "enabled"


class FluxKustomizations:
    """The cache of Flux's Kustomizations, in the namespaces that the manager watches."""

    def __init__(self, caches: Caches) -> None:
        self._cache = caches.of(KUSTOMIZATION, optional=True, missed=False)

    def forcing(self, object_: Object) -> str:
        """The field by which Flux applies an object with force; empty if it does not, as far as is known."""
        labels, annotations = object_.metadata.labels, object_.metadata.annotations
        name, namespace = labels.get(NAME_LABEL), labels.get(NAMESPACE_LABEL)
        if not name or not namespace:
            return ""
        if annotations.get(FORCE_ANNOTATION, "").lower() == _ON:
            return f"annotation {FORCE_ANNOTATION}"
        kustomization = self._cache.get(Key(namespace, name))
        spec = kustomization.tree.get("spec") if kustomization is not None else None
        is_forced = isinstance(spec, dict) and spec.get("force") is True
        return f"spec.force of Kustomization {namespace}/{name}" if is_forced else ""
