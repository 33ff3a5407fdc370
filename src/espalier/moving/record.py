"""The record of a move, in an annotation on the Cluster at its source and at its target; that of a restore is at the
target alone. Pure.
"""

from __future__ import annotations

import msgspec

from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, MOVED_FROM_ANNOTATION
from espalier.api.trees import json_trees
from espalier.kube.objects import Object

COPYING, HANDED_OVER = "copying", "handed-over"
"""States at the source: the move can be taken back; it can't, because the target has the cluster."""


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A move as it stands. Management clusters are named by the uid of their system namespace."""

    epoch: int
    """The number of moves of the cluster, this one included."""
    source: str
    target: str
    state: str = COPYING
    paused: str | None = None
    """The paused annotation before the move; None without one."""
    is_restore: bool = False
    """True if the copies come from a folder, so that a move neither goes on with them nor deletes them."""

    @property
    def mark(self) -> str:
        """The value of `MOVED_FROM_ANNOTATION` on the copies."""
        return f"{self.source}/restore/{self.epoch}" if self.is_restore else self.mark_of_move

    @property
    def mark_of_move(self) -> str:
        """The mark that a move of the same source and epoch has."""
        return f"{self.source}/{self.epoch}"

    @property
    def text(self) -> str:
        """The value of the annotation."""
        return msgspec.json.encode(self, order="deterministic").decode()


_decode = json_trees.decoder(Record)


def record_of(cluster: Object) -> Record | None:
    """The record on a Cluster; None without one. Raises `msgspec.MsgspecError` for one that was edited."""
    text = cluster.metadata.annotations.get(MOVE_ANNOTATION)
    return None if text is None else _decode(text.encode())


def next_epoch(cluster: Object) -> int:
    """The epoch of the next move of a Cluster."""
    last = cluster.metadata.annotations.get(MOVED_FROM_ANNOTATION, "").rpartition("/")[2]
    return int(last) + 1 if last.isdecimal() else 1
