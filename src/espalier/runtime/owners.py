"""Owner references and finalizers: made from objects, written by patches that change nothing else.

A patch replaces the list it was made from, so it carries the resource version: `Conflict` when somebody was faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from espalier.api.meta import ObjectMeta, OwnerReference
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object


class AlreadyOwned(ValueError):
    """The object has another controlling owner."""


def owner_reference(owner: Object, *, controller: bool = True, block_owner_deletion: bool = True) -> OwnerReference:
    """A reference to `owner`."""
    return OwnerReference(
        api_version=owner.head.api_version,
        kind=owner.kind,
        name=owner.name,
        uid=owner.metadata.uid,
        controller=controller or None,
        block_owner_deletion=block_owner_deletion or None,
    )


def is_owned_by(object_: Object, owner: Object) -> bool:
    """True if `owner` is among the owners."""
    return any(reference.uid == owner.metadata.uid for reference in object_.metadata.owner_references)


def with_owner(metadata: ObjectMeta, owner: OwnerReference) -> list[OwnerReference]:
    """The object's owners with this one among them; an entry of the same uid is brought up to date."""
    if owner in metadata.owner_references:
        return metadata.owner_references
    return [*(other for other in metadata.owner_references if other.uid != owner.uid), owner]


async def add_owner(client: Client, resource: Resource, object_: Object, owner: OwnerReference) -> Object:
    """Have this reference among the owners, in the place of an older one to the same owner; no write if it is there.

    Raises `AlreadyOwned` when both the reference and another owner claim control.
    """
    owners = object_.metadata.owner_references
    if owner in owners:
        return object_
    others = [other for other in owners if other.uid != owner.uid]
    if owner.controller and any(other.controller for other in others):
        raise AlreadyOwned(f"{object_.kind} {object_.key} is controlled by another owner")
    return await _patch(client, resource, object_, {"ownerReferences": msgspec.to_builtins([*others, owner])})


async def remove_owner(client: Client, resource: Resource, object_: Object, uid: str) -> Object | None:
    """Have no owner with this uid; no write if there is none. None when the object is gone."""
    owners = object_.metadata.owner_references
    others = [other for other in owners if other.uid != uid]
    if len(others) == len(owners):
        return object_
    return await _patch_if_there(client, resource, object_, {"ownerReferences": msgspec.to_builtins(others)})


async def add_finalizer(client: Client, resource: Resource, object_: Object, finalizer: str) -> Object:
    """Have this finalizer; no write if it is there."""
    present = object_.metadata.finalizers
    if finalizer in present:
        return object_
    return await _patch(client, resource, object_, {"finalizers": [*present, finalizer]})


async def remove_finalizer(client: Client, resource: Resource, object_: Object, finalizer: str) -> Object | None:
    """Not have this finalizer; no write if it is not there. None when the object is gone.

    What is returned for the last finalizer of a deleted object is its last state: the object is gone as well.
    """
    present = object_.metadata.finalizers
    if finalizer not in present:
        return object_
    others: Sequence[str] = [other for other in present if other != finalizer]
    return await _patch_if_there(client, resource, object_, {"finalizers": others})


async def _patch_if_there(
    client: Client, resource: Resource, object_: Object, metadata: dict[str, Any]
) -> Object | None:
    try:
        return await _patch(client, resource, object_, metadata)
    except NotFound:
        return None


async def _patch(client: Client, resource: Resource, object_: Object, metadata: dict[str, Any]) -> Object:
    # The uid as well: an object of this name made since then is not the one that was looked at.
    precondition = {"resourceVersion": object_.resource_version, "uid": object_.metadata.uid}
    return await client.patch(
        resource,
        object_.name,
        object_.namespace or None,
        patch={"metadata": {**precondition, **metadata}},
        type=PatchType.MERGE,
    )
