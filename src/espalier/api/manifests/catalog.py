"""Typed kinds by `apiVersion` and `kind`."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.eksa import aws
from espalier.api.eksa.vocabulary.group import GROUP
from espalier.api.kinds import KubeObject
from espalier.api.resource import Resource


class Catalog:
    """Typed kinds by their names."""

    def __init__(self, kinds: Iterable[type[KubeObject]]) -> None:
        self._kinds = {(cls.resource.api_version, cls.resource.kind): cls for cls in kinds}
        resources = [
            cls.resource for cls in self._kinds.values() if cls.resource.group == GROUP and cls not in aws.KINDS
        ]
        self.datacenters = {
            resource.kind: resource for resource in resources if resource.kind.endswith("DatacenterConfig")
        }
        """Kinds that `spec.datacenterRef` of a Cluster may reference."""
        self.machine_configs = tuple(resource.kind for resource in resources if resource.kind.endswith("MachineConfig"))
        """Kinds that a `machineGroupRef` may reference."""
        self.further = tuple(
            resource.kind for resource in resources if resource.kind.endswith(("TemplateConfig", "IPPool"))
        )
        """Kinds that machine configs may reference."""

    def kind_of(self, api_version: str, kind: str) -> type[KubeObject] | None:
        """The typed kind; None if there is none."""
        return self._kinds.get((api_version, kind))

    def resource_of(self, api_version: str, kind: str) -> Resource:
        """The coordinates of a typed kind. Raises `KeyError` if there is none."""
        return self._kinds[api_version, kind].resource
