"""The times of a gardenlet that determine how long a move takes, in an annotation of its seed's Lease."""

from __future__ import annotations

from typing import Annotated

import msgspec

from espalier.api.definitions.reference import Annotation, Writer
from espalier.api.etcd.timing import Timing, TimingError
from espalier.api.gardener.vocabulary.metadata_keys import DOMAIN
from espalier.api.trees import json_trees

KEY: Annotated[
    str,
    Annotation(
        "Lease of a seed", Writer.GARDENLET, "The times with which the gardenlet runs, for `espalier shoots plan`."
    ),
] = DOMAIN + "move-times"
LARGEST = 4096
"""Characters of the annotation."""


class MoveTimes(msgspec.Struct, frozen=True, rename="camel"):
    """The times with which a gardenlet runs, and so the agents beside its etcds."""

    timing: Timing = Timing()
    dns_ttl: float = 120
    """Seconds for which resolvers keep the address of an API server."""

    def render(self) -> str:
        """The value of the annotation."""
        return msgspec.json.encode(self).decode()


def parse(text: str | None) -> MoveTimes | None:
    """Parse the annotation; None if it is missing or invalid."""
    if not text or len(text) > LARGEST:
        return None
    try:
        return json_trees.decode(text.encode(), MoveTimes)
    except (msgspec.MsgspecError, TimingError):
        return None
