"""Digests of the persisted secrets, as a shoot's seed has reported them on the Shoot: a third place beside the
ShootState and the seed, so that the two others can be judged when they differ. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from espalier.api.trees import json_trees
from espalier.kube.errors import UNREADABLE
from espalier.shoots.secrets.names import PERSISTED
from espalier.shoots.secrets.persisted import Data

_LENGTH = 16


def of_secret(data: Data) -> str:
    """The digest of one secret. All of them are random, so it tells nothing about them."""
    return hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()[:_LENGTH]


def reported(secrets: Mapping[str, Data]) -> str:
    """The annotation for these secrets."""
    digests = {name: of_secret(secrets[name]) for name in PERSISTED if name in secrets}
    return msgspec.json.encode(digests, order="sorted").decode()


def parsed(text: str | None) -> dict[str, str]:
    """The digests in an annotation, by the names of secrets; none in a missing or malformed one."""
    try:
        return json_trees.decode(text, dict[str, str]) if text is not None else {}
    except UNREADABLE:
        return {}
