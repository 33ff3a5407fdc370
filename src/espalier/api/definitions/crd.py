"""CustomResourceDefinitions, generated from the declarations of typed kinds."""

from __future__ import annotations

from typing import Any

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.structural import object_schema
from espalier.api.kinds import Column, KubeObject


def crd_of(cls: type[KubeObject]) -> dict[str, Any]:
    """The `apiextensions.k8s.io/v1` CustomResourceDefinition of a kind, ready to be applied."""
    declaration = cls.declaration
    resource = declaration.resource
    metadata: dict[str, Any] = {"name": resource.group_resource}
    if declaration.labels:
        metadata["labels"] = dict(declaration.labels)
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "names": _names(cls),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(cls)],
        },
    }


def _names(cls: type[KubeObject]) -> dict[str, Any]:
    declaration = cls.declaration
    names: dict[str, Any] = {
        "kind": declaration.resource.kind,
        "listKind": f"{declaration.resource.kind}List",
        "plural": declaration.resource.plural,
        "singular": declaration.singular,
    }
    if declaration.short_names:
        names["shortNames"] = list(declaration.short_names)
    if declaration.categories:
        names["categories"] = list(declaration.categories)
    return names


def _version(cls: type[KubeObject]) -> dict[str, Any]:
    declaration = cls.declaration
    version: dict[str, Any] = {
        "name": declaration.resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": object_schema(cls)},
    }
    subresources: dict[str, Any] = {}
    if declaration.status:
        subresources["status"] = {}
    if declaration.scale:
        subresources["scale"] = {
            "specReplicasPath": declaration.scale.spec_replicas,
            "statusReplicasPath": declaration.scale.status_replicas,
            "labelSelectorPath": declaration.scale.selector,
        }
    if subresources:
        version["subresources"] = subresources
    if declaration.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in declaration.columns]
    return version


def _column(column: Column) -> dict[str, Any]:
    printed: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.description:
        printed["description"] = column.description
    if column.priority:
        printed["priority"] = column.priority
    return printed
