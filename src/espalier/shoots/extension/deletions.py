"""Objects that are being deleted, though nobody confirmed that, and that finalizers or use hold. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from espalier.api.conditions import parse_timestamp
from espalier.api.gardener.responsibility import is_deleted_unconfirmed
from espalier.api.text.listing import first, merged
from espalier.kube.objects import Object

HELD_AFTER = 60.0
"""Seconds from a deletion until it is reported: most end at once."""
_MOST = 5


def split(objects: Iterable[Object], now: datetime) -> tuple[list[Object], float | None]:
    """The objects that have been held for `HELD_AFTER`, and the seconds until the next one will have been; None if
    there is none."""
    held: list[Object] = []
    remaining: list[float] = []
    for object_ in objects:
        if not is_deleted_unconfirmed(object_.metadata):
            continue
        since = parse_timestamp(object_.metadata.deletion_timestamp or "")
        seconds = HELD_AFTER - (now - since).total_seconds() if since is not None else 0
        if seconds > 0:
            remaining.append(seconds)
        else:
            held.append(object_)
    return held, min(remaining, default=None)


def described(held: list[Object]) -> str:
    """The message on held objects, with what to do; empty if there are none."""
    if not held:
        return ""
    ordered = sorted(held, key=lambda object_: (object_.kind, object_.name))
    texts = merged(f"{object_.kind} {object_.name}: {_state(object_)}" for object_ in ordered)
    advice = "they come back once they are gone: have what set the finalizers remove them"
    with_finalizers = next((object_ for object_ in ordered if object_.metadata.finalizers), None)
    if with_finalizers is not None:
        advice += f", or, if it does not exist any more, remove them by hand: {_command(with_finalizers)}"
    return f"{first(texts, _MOST, separator='; ')}; {advice}"


def _state(object_: Object) -> str:
    finalizers = ", ".join(object_.metadata.finalizers)
    return f"somebody has deleted it, and {f'finalizers {finalizers} hold it' if finalizers else 'it is still there'}"


def _command(object_: Object) -> str:
    group = object_.head.api_version.rpartition("/")[0]
    kind = f"{object_.kind.lower()}.{group}" if group else object_.kind.lower()
    where = f" -n {object_.namespace}" if object_.namespace else ""
    return f"""kubectl patch {kind} {object_.name}{where} --type merge -p '{{"metadata":{{"finalizers":null}}}}'"""
