"""Fields that Gardener's API server has, and our kinds do not declare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from espalier.api.definitions.structural import object_schema
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree

PREFIX = "#/components/schemas/"
OF_REFERENCES = ("fieldPath", "resourceVersion", "uid")
OF_CORE = "com.github.gardener.gardener.pkg.apis.core.v1beta1."


def undeclared(kind: type[KubeObject], schemas: dict[str, Tree]) -> list[str]:
    """The highest fields of a spec that a kind does not declare, in order, by the schemas of Gardener's OpenAPI.

    Without those that only references from one object to another have, and nobody sets.
    """
    own: Tree = object_schema(kind)["properties"]["spec"]
    fields = _undeclared({"$ref": f"{PREFIX}{OF_CORE}{kind.resource.kind}Spec"}, own, "spec", schemas)
    return sorted(field for field in fields if field.rpartition(".")[2] not in OF_REFERENCES)


def _undeclared(theirs: Tree, own: Tree, path: str, schemas: dict[str, Tree]) -> Iterator[str]:
    theirs = _resolved(theirs, schemas)
    if theirs.get("type") == "array":
        yield from _undeclared(theirs.get("items", {}), own.get("items", {}), f"{path}[]", schemas)
        return
    declared: dict[str, Any] = own.get("properties", {})
    if not declared:  # a kind that declares nothing of an object keeps it as one field
        return
    for name, schema in theirs.get("properties", {}).items():
        if name in declared:
            yield from _undeclared(schema, declared[name], f"{path}.{name}", schemas)
        else:
            yield f"{path}.{name}"


def _resolved(schema: Tree, schemas: dict[str, Tree]) -> Tree:
    reference = schema.get("$ref") or next((item.get("$ref") for item in schema.get("allOf", ())), None)
    return schemas[reference.removeprefix(PREFIX)] if reference else schema
