"""Marks of moves and restores, which are told apart, and read as earlier releases wrote them."""

from __future__ import annotations

import pytest

from espalier.api.eksa.vocabulary.group import MOVED_FROM_ANNOTATION
from espalier.moving.objects import CLUSTER
from espalier.moving.record import Record, next_epoch
from tests.support.objects.moved_clusters import GARDEN, made


def test_a_restore_has_a_mark_of_its_own() -> None:
    move, restore = Record(2, "here", "there"), Record(2, "here", "there", is_restore=True)
    assert (move.mark, restore.mark) == ("here/2", "here/restore/2")
    assert move.text == '{"epoch":2,"source":"here","target":"there"}'
    assert restore.text == '{"epoch":2,"source":"here","target":"there","isRestore":true}'


@pytest.mark.parametrize(("mark", "epoch"), [("here/2", 3), ("here/restore/2", 3), ("", 1), ("edited", 1)])
def test_epoch_follows_that_of_the_mark(mark: str, epoch: int) -> None:
    annotations = {MOVED_FROM_ANNOTATION: mark} if mark else {}
    assert next_epoch(made(CLUSTER.api_version, GARDEN, 1, annotations=annotations)) == epoch
