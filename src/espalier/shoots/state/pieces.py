"""State in Secrets: compressed, in pieces, under names that follow from its content.

A changed state gets new names, so a reader of a reference finds all of one state or none of it; and no epoch uses the
Secrets of another, which its gardenlet may delete. Readers verify size and digest.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from espalier.api.core import SECRET
from espalier.api.gardener import names
from espalier.api.gardener.garden.shoot_state import StateReference
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.api.text.listing import first
from espalier.kube.objects import Object
from espalier.shoots.state import digests
from espalier.shoots.state.limits import LARGEST_STATE, PIECE

STATE_TYPE = metadata_keys.DOMAIN + "state"
"""Type of the Secrets."""

BY_SHOOT_UID = "UID"

_KEY = "state"
_DIGITS = 32
_NAME = re.compile(rf"([0-9a-z-]{{1,63}})--(0|[1-9][0-9]{{0,15}})-[0-9a-f]{{{_DIGITS}}}--[0-9]{{1,3}}")


class TruncatedState(ValueError):
    """The pieces of a state are incomplete, or belong to another state: nothing is restored from them."""


class Origin(NamedTuple):
    """The gardenlet that made a Secret, according to its name."""

    shoot_uid: str
    epoch: int


def split(text: bytes, shoot_uid: str, epoch: int = 0) -> tuple[StateReference, list[Tree]]:
    """A reference to a state, and the Secrets that have it."""
    digest = digests.of_text(text)
    packed = zlib.compress(text, 6)
    pieces = [packed[start : start + PIECE] for start in range(0, len(packed), PIECE)]
    labels = {metadata_keys.SHOOT_UID: shoot_uid, metadata_keys.EPOCH: str(epoch)}
    name = f"{shoot_uid}--{epoch}-{digest[:_DIGITS]}"
    secrets = [_secret(f"{name}--{place}", piece, labels) for place, piece in enumerate(pieces)]
    reference = StateReference(
        secrets=[str(secret["metadata"]["name"]) for secret in secrets], size=len(text), sha256=digest
    )
    return reference, secrets


def join(reference: StateReference, pieces: Sequence[Tree | None]) -> bytes:
    """The state of a reference, from its Secrets in order (None: missing). Raises `TruncatedState`."""
    if reference.size > LARGEST_STATE:
        raise TruncatedState(f"its recorded size is {reference.size} bytes, more than {LARGEST_STATE}")
    missing = [name for name, piece in zip(reference.secrets, pieces, strict=True) if piece is None]
    if missing:
        raise TruncatedState(f"Secrets of namespace {names.STATE_NAMESPACE} are missing: {first(missing, 3)}")
    try:
        packed = b"".join(base64.b64decode(str(piece["data"][_KEY]), validate=True) for piece in pieces if piece)
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(packed, reference.size + 1)  # not a byte more than is expected
    except (KeyError, TypeError, binascii.Error, zlib.error):
        raise TruncatedState("its Secrets do not hold a compressed state") from None
    if len(text) != reference.size or digests.of_text(text) != reference.sha256:
        raise TruncatedState("what its Secrets hold is not the state that was written: size or digest differ")
    return text


def shoot_uids(shoot: Object) -> Iterable[str]:
    """Index of Shoots (`BY_SHOOT_UID`): the UID in the names of their Secrets."""
    return (shoot.metadata.uid,)


def origin_of(name: str) -> Origin | None:
    """The origin of the Secret of a name; None if the name is not one of ours."""
    match = _NAME.fullmatch(name)
    return Origin(match[1], int(match[2])) if match is not None else None


def _secret(name: str, piece: bytes, labels: dict[str, str]) -> Tree:
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            "name": name,
            "namespace": names.STATE_NAMESPACE,
            "labels": labels,
        },
        "type": STATE_TYPE,
        "immutable": True,
        "data": {_KEY: base64.b64encode(piece).decode()},
    }
