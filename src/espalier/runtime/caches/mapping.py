"""Mappings from a changed object to the keys to reconcile, and from an object to the values of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from espalier.api.meta import OwnerReference
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object

ToKeys = Callable[[Object], Iterable[Key]]
Index = Callable[[Object], Iterable[str]]


def own_key(object_: Object) -> Iterable[Key]:
    """The object itself."""
    return (object_.key,)


def owners_of(resource: Resource, *, any_owner: bool = False) -> ToKeys:
    """The owner of that kind, in any version of its group; the controlling one, unless `any_owner`."""

    def to_keys(object_: Object) -> Iterable[Key]:
        return [
            Key(object_.namespace if resource.namespaced else "", owner.name)
            for owner in object_.metadata.owner_references
            if owner.kind == resource.kind and group_of(owner) == resource.group and (any_owner or owner.controller)
        ]

    return to_keys


def named_by_label(name: str, *, namespace: str | None = None) -> ToKeys:
    """The key in these labels; without a `namespace` label, in the object's own namespace. No key if one is missing."""

    def to_keys(object_: Object) -> Iterable[Key]:
        labels = object_.metadata.labels
        value = labels.get(name)
        key_namespace = object_.namespace if namespace is None else labels.get(namespace)
        return (Key(key_namespace, value),) if value and key_namespace is not None else ()

    return to_keys


def by_owner(object_: Object) -> Iterable[str]:
    """Index: the uids of all owners."""
    return [owner.uid for owner in object_.metadata.owner_references]


def by_controller(object_: Object) -> Iterable[str]:
    """Index: the uid of the controlling owner."""
    return [owner.uid for owner in object_.metadata.owner_references if owner.controller]


def group_of(owner: OwnerReference) -> str:
    """The API group of an owner; empty for the core group."""
    group, slash, _ = owner.api_version.partition("/")
    return group if slash else ""
