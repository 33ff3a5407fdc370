"""Owner references: created from objects, and searched in them. A `Writer` writes them."""

from __future__ import annotations

from espalier.api.meta import OwnerReference
from espalier.kube.objects import Object


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
