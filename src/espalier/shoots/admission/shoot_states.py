"""Validation of ShootStates, and of Secrets in namespace `shoot-states` with pieces of large ones. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator

from espalier.api.gardener import ownership
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.text.violations import Violation
from espalier.kube.objects import Object
from espalier.kube.transports.wire import User
from espalier.shoots.admission import messages, users
from espalier.shoots.state import pieces


def made_by_another_seed(state: ShootState, shoot: Shoot | None, user: User) -> Iterator[Violation]:
    """The problems of a ShootState that a gardenlet creates: it could choose the keys of a shoot that another seed
    has."""
    own = users.seed_of(user)
    if own is None:
        return
    owner = _owner(shoot)
    uids = [reference.uid for reference in state.metadata.owner_references if reference.kind == Shoot.resource.kind]
    if shoot is None or owner is None or owner[1] != own or uids != [shoot.metadata.uid]:
        yield Violation("metadata.name", state.metadata.name, "", messages.STATE_OF_OTHER_SEED)


def violations(state: ShootState) -> Iterator[Violation]:
    """The problems of a ShootState. No message has the value of a secret."""
    metadata = state.metadata
    owners = [owner for owner in metadata.owner_references if owner.kind == Shoot.resource.kind and owner.controller]
    if [owner.name for owner in owners] != [metadata.name]:
        owner_names = ", ".join(owner.name for owner in owners) or "nothing"
        yield Violation("metadata.ownerReferences", owner_names, metadata.name, messages.STATE_OF_NO_SHOOT)
    names: set[str] = set()
    for place, secret in enumerate(state.gardenlet.secrets):
        if secret.name in names:
            yield Violation(f"gardenlet.secrets[{place}].name", secret.name, "", messages.TWICE)
        names.add(secret.name)
        for key, value in secret.data.items():
            if not _is_base64(value):
                yield Violation(f"gardenlet.secrets[{place}].data[{key}]", "", "", messages.NOT_BASE64)
    entries: set[tuple[str, str, str]] = set()
    for place, entry in enumerate(state.extensions):
        key_of_entry = entry.kind, entry.name, entry.purpose
        if key_of_entry in entries:
            yield Violation(f"extensions[{place}]", " ".join(filter(None, key_of_entry)), "", messages.TWICE)
        entries.add(key_of_entry)
        if entry.state is not None and entry.state_ref is not None:
            yield Violation(f"extensions[{place}].stateRef", "", "", messages.STATE_AND_REFERENCE)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def piece_of_another_seed(secret: Object, user: User, find: Callable[[str], Shoot | None]) -> Iterator[Violation]:
    """The problems of a Secret that a gardenlet creates: a piece of a large state. `find` returns the Shoot with a UID.

    RBAC can't restrict creations by name. The seed that has a shoot later reads, and deletes, what is created here
    under the shoot's UID.
    """
    seed = users.seed_of(user)
    if seed is None:
        return
    origin = pieces.origin_of(secret.name)
    if origin is None or _owner(find(origin.shoot_uid)) != (origin.epoch, seed):
        yield Violation("metadata.name", secret.name, "", messages.PIECE_OF_OTHER_SEED)
        return
    labels = {metadata_keys.SHOOT_UID: origin.shoot_uid, metadata_keys.EPOCH: str(origin.epoch)}
    for label, allowed in labels.items():
        value = secret.metadata.labels.get(label, "")
        if value != allowed:
            yield Violation(f"metadata.labels[{label}]", value or "nothing", allowed, messages.PIECE_LABELS)
    if secret.metadata.owner_references:
        yield Violation("metadata.ownerReferences", "", "nothing", messages.PIECE_LABELS)


def _owner(shoot: Shoot | None) -> tuple[int, str] | None:
    """The number and the seed of a shoot's newest epoch; None if there is none, or if it can't be parsed."""
    try:
        current = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP) if shoot else None).current
    except OwnershipError:
        return None
    return (current.epoch, current.seed) if current is not None else None
