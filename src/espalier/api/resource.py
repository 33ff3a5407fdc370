"""API resources: the coordinates under which objects of a kind are read and written."""

from __future__ import annotations

from typing import Any, NamedTuple


class Resource(NamedTuple):
    """Coordinates of one served kind. `group` is empty for the core group; `plural` is the path segment."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The value of `apiVersion` in objects of this kind: `v1`, or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """The name for people and RBAC: `secrets`, `clusters.cluster.x-k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def body(self, name: str, namespace: str = "") -> dict[str, Any]:
        """The beginning of an object: its kind and name, for a namespaced kind with a namespace that is not empty."""
        metadata = {"name": name, **({"namespace": namespace} if namespace and self.namespaced else {})}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of a collection (no name), an object or a subresource.

        A namespaced collection without a namespace is the one over all namespaces.
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name:
            path += f"/{name}"
        if subresource:
            path += f"/{subresource}"
        return path


class Key(NamedTuple):
    """Name of an object within its resource. `namespace` is empty for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
