from __future__ import annotations

import os
from pathlib import Path

import pytest

from espalier.cli import lock
from espalier.cli.failures import Failure


def test_the_holder_is_known_while_it_holds_and_not_after(tmp_path: Path) -> None:
    path = tmp_path / "world.lock"
    assert lock.holder(path) is None
    with lock.hold(path) as held:
        held.announce("https://127.0.0.1:6443")
        assert lock.holder(path) == lock.Holder(os.getpid(), "https://127.0.0.1:6443")
    assert lock.holder(path) is None


def test_a_second_world_in_the_same_folder_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "world.lock"
    with lock.hold(path), pytest.raises(Failure, match=r"process \d+.*espalier down"), lock.hold(path):
        pass


async def test_release_is_awaited(tmp_path: Path) -> None:
    path = tmp_path / "world.lock"
    with lock.hold(path):
        assert not await lock.released(path, 0)
    assert await lock.released(path, 5)
