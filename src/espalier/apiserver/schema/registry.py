"""The served kinds: built-in ones, and those of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from espalier.api.kinds import Column, Scale
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.apiserver.schema.rules import RuleNode, rules_of
from espalier.apiserver.schema.validation import Validator, validator_of
from espalier.kube.errors import StatusCause
from espalier.kube.server_side_apply.structure import Node, node_of

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

Complete = Callable[[Tree, Tree | None], None]
"""Sets defaults of a kind: (new, old or None), in place."""

Check = Callable[[Tree, Tree | None], Iterable[StatusCause]]
"""Validates a kind beyond its schema: (new, old or None)."""


@dataclass(frozen=True, eq=False)
class ServedKind:
    """One kind in one version, as discovery, OpenAPI, printing and the handler see it.

    `columns` is None for built-in kinds: their columns are in `printers`. Versions of a kind share `table`,
    the table of the store with their objects, which have `storage_version` as `apiVersion`.
    `selectable` maps fields that field selectors may name to their paths, beside those of metadata. `renamed` are
    top-level fields that are called otherwise in storage. With `generation`, the object's `metadata.generation`
    increases with changes of its desired state.
    """

    resource: Resource
    singular: str
    list_kind: str
    table: str
    storage_version: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[str, ...] = ()
    columns: tuple[Column, ...] | None = None
    scale: Scale | None = None
    custom: bool = False
    generation: bool = True
    selectable: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    renamed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    complete: Complete | None = None
    assign: Complete | None = None
    """Sets what the server assigns, after webhooks of a write: unlike defaults (`complete`), no manager owns it."""
    check: Check | None = None
    definition: str = ""
    minor: str = ""
    """The minor version of Kubernetes whose definitions a built-in kind has."""
    make_schema: Callable[[], Tree] = dict
    make_node: Callable[[], Node] | None = None

    @cached_property
    def schema(self) -> Tree:
        """The OpenAPI v3 schema, without references. Shared: do not change it."""
        return self.make_schema()

    @cached_property
    def node(self) -> Node:
        """The schema as a `Node`, for merging and pruning."""
        return self.make_node() if self.make_node is not None else node_of(self.schema)

    @cached_property
    def validator(self) -> Validator:
        """Checks objects of this kind against its schema; for kinds of CRDs only."""
        return validator_of(self.schema)

    @cached_property
    def rules(self) -> RuleNode:
        """The CEL rules of this kind; for kinds of CRDs only."""
        return rules_of(self.schema)


class Registry:
    """The served kinds. `changed` increases with every change, so that documents generated from it can be cached."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self.changed = 0
        self._kinds: dict[tuple[str, str, str], ServedKind] = {}
        self._by_kind: dict[tuple[str, str], ServedKind] = {}
        self._custom: dict[str, tuple[ServedKind, ...]] = {}
        self._versions: dict[str, list[ServedKind]] = {}
        for kind in kinds:
            self._add(kind)
        self._built_in = frozenset(kind.resource.group for kind in self._kinds.values())

    def kinds(self) -> Iterable[ServedKind]:
        """All served kinds, one for each version: built-in ones first, then in the order of their definition."""
        return self._kinds.values()

    def lookup(self, group: str, version: str, plural: str) -> ServedKind | None:
        """The kind of a resource."""
        return self._kinds.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> ServedKind | None:
        """The kind by apiVersion and kind of an object."""
        return self._by_kind.get((api_version, kind))

    def versions(self, table: str) -> list[ServedKind]:
        """The kind whose objects are in a table, in all its served versions."""
        return self._versions.get(table, [])

    def is_built_in(self, group: str) -> bool:
        """True if a group has built-in kinds."""
        return group in self._built_in

    def replace_built_in(self, kinds: Iterable[ServedKind]) -> None:
        """Serve the built-in kinds of another minor version of Kubernetes, in place of those of the same names."""
        for kind in kinds:
            resource = kind.resource
            before = self._kinds[resource.group, resource.version, resource.plural]
            self._kinds[resource.group, resource.version, resource.plural] = kind
            self._by_kind[resource.api_version, resource.kind] = kind
            self._versions[kind.table] = [
                kind if version is before else version for version in self._versions[kind.table]
            ]
        self.changed += 1

    def define(self, name: str, kinds: Iterable[ServedKind]) -> None:
        """Serve the kinds of the CustomResourceDefinition of this name; replaces its previous ones."""
        self._remove(name)
        served = tuple(kinds)
        for kind in served:
            self._add(kind)
        self._custom[name] = served
        self.changed += 1

    def forget(self, name: str) -> None:
        """Remove the kinds of a CustomResourceDefinition; idempotent."""
        if self._remove(name):
            self.changed += 1

    def _add(self, kind: ServedKind) -> None:
        self._kinds[kind.resource.group, kind.resource.version, kind.resource.plural] = kind
        self._by_kind[kind.resource.api_version, kind.resource.kind] = kind
        self._versions.setdefault(kind.table, []).append(kind)

    def _remove(self, name: str) -> bool:
        kinds = self._custom.pop(name, ())
        for kind in kinds:
            del self._kinds[kind.resource.group, kind.resource.version, kind.resource.plural]
            del self._by_kind[kind.resource.api_version, kind.resource.kind]
            self._versions[kind.table].remove(kind)
        return bool(kinds)
