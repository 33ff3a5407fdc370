"""Validation of ShootStates. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from espalier.api.gardener import metadata_keys, ownership
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.shoot import Shoot
from espalier.api.gardener.shoot_state import ShootState
from espalier.api.violations import Violation
from espalier.kube.wire import User
from espalier.shoots.admission import messages, users


def made_by_another_seed(state: ShootState, shoot: Shoot | None, user: User) -> Iterator[Violation]:
    """The problems of a ShootState that a gardenlet creates: it could choose the keys of a shoot that another seed
    has."""
    own = users.seed_of(user)
    if own is None:
        return
    owner = _owner(shoot)
    uids = [one.uid for one in state.metadata.owner_references if one.kind == Shoot.resource.kind]
    if shoot is None or owner != own or uids != [shoot.metadata.uid]:
        yield Violation("metadata.name", state.metadata.name, "", messages.STATE_OF_OTHER_SEED)


def _owner(shoot: Shoot | None) -> str:
    try:
        epochs = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP) if shoot else None)
    except OwnershipError:
        return ""
    return epochs.current.seed if epochs.current is not None else ""


def violations(state: ShootState) -> Iterator[Violation]:
    """The problems of a ShootState. No message has the value of a secret."""
    metadata = state.metadata
    owners = [owner for owner in metadata.owner_references if owner.kind == Shoot.resource.kind and owner.controller]
    if [owner.name for owner in owners] != [metadata.name]:
        found = ", ".join(owner.name for owner in owners) or "nothing"
        yield Violation("metadata.ownerReferences", found, metadata.name, messages.STATE_OF_NO_SHOOT)
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
            found = " ".join(filter(None, key_of_entry))
            yield Violation(f"extensions[{place}]", found, "", messages.TWICE)
        entries.add(key_of_entry)
        if entry.state is not None and entry.state_ref is not None:
            yield Violation(f"extensions[{place}].stateRef", "", "", messages.STATE_AND_REFERENCE)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
