"""Digests of the results that an extension reports in a status.

Results are passed on to other resources, so a value that somebody else wrote has effects: another network means other
machines.

The digests are in an annotation of the resource, written between the results and the success. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from espalier.api.gardener.extensions.extension import GROUP
from espalier.api.gardener.vocabulary import metadata_keys as keys
from espalier.api.meta import Observed
from espalier.api.trees import json_trees
from espalier.kube.errors import UNREADABLE
from espalier.kube.objects import Object
from espalier.shoots.state import digests

_LENGTH = 16


class _Reported(Observed, frozen=True):
    status: dict[str, msgspec.Raw] | None = None


def digests_of(object_: Object, fields: Iterable[str]) -> str | None:
    """The annotation for these fields of the status, as they are stored; None without fields."""
    values = _digests(object_, fields)
    return msgspec.json.encode(values, order="sorted").decode() if values else None


def changed(object_: Object) -> list[str]:
    """The paths of fields that are not as the extension reported them; none for an object without digests, whose
    extension writes none. A malformed annotation counts as changed."""
    text = object_.metadata.annotations.get(keys.RESULT_DIGESTS)
    if text is None:
        return []
    try:
        reported = json_trees.decode(text, dict[str, str])
    except UNREADABLE:
        return [f"metadata.annotations[{keys.RESULT_DIGESTS}]"]
    present = _digests(object_, reported)
    return [f"status.{field}" for field, digest in reported.items() if present[field] != digest]


def problem(object_: Object) -> str:
    """A message that names changed fields, and what to do about them; empty if there are none."""
    fields = changed(object_)
    if not fields:
        return ""
    where = f" -n {object_.namespace}" if object_.namespace else ""
    command = f"kubectl annotate {object_.kind.lower()}.{GROUP} {object_.name}{where} --overwrite"
    return (
        f"{object_.kind} {object_.name}: {', '.join(fields)}: found a value that its extension did not report; it is "
        "not passed on, and the extension reports its own again. If it does not, request that in the seed: "
        f"{command} {keys.OPERATION}={keys.RECONCILE}"
    )


def _digests(object_: Object, fields: Iterable[str]) -> dict[str, str]:
    status = object_.decode(_Reported).status or {}
    return {field: _digest(status.get(field)) for field in fields}


def _digest(value: msgspec.Raw | None) -> str:
    try:
        return digests.of_value(bytes(value))[:_LENGTH] if value is not None else "absent"
    except UNREADABLE:
        return "unreadable"
