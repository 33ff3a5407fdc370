"""The folder of an environment is for its owner alone, whoever made it and however."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from espalier.apiserver.storage.sqlite import SqliteStore
from espalier.cli.kit.connecting.home import Home, private
from espalier.cli.kit.failures import Failure


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("there", [True, False], ids=["made before", "made now"])
def test_the_folder_is_for_its_owner_only(tmp_path: Path, there: bool) -> None:
    home = Home(tmp_path / "home")
    if there:
        home.root.mkdir(mode=0o755)
        home.root.chmod(0o755)
    home.create()
    assert mode(home.root) == 0o700


def test_readable_earlier_files_become_private(tmp_path: Path) -> None:
    home = Home(tmp_path)
    files = [home.database, home.log, home.lock, tmp_path / "management.db-wal"]
    for file in files:
        file.touch()
        file.chmod(0o644)
    tmp_path.chmod(0o755)
    home.create()
    assert mode(tmp_path) == 0o700
    assert {mode(file) for file in files if file != home.lock} == {0o600}


def test_foreign_folder_is_refused_unchanged(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(
        Failure, match=r"can be read by others, and has files that are not Espalier's \(thesis.tex\).*ESPALIER_HOME"
    ):
        Home(tmp_path).create()
    assert mode(tmp_path) == 0o755


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(Failure, match=r"belongs to another user .*ESPALIER_HOME"):
        Home(tmp_path).create()


async def test_stores_and_logs_are_private_everywhere(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        before_this = SqliteStore(tmp_path / "old.db")
        await before_this.start()
        await before_this.close()
        (tmp_path / "old.db").chmod(0o644)
        for name in ("old.db", "new.db"):
            store = SqliteStore(tmp_path / name)
            await store.start()
            beside = await asyncio.to_thread(lambda: list(tmp_path.glob("*.db*")))
            assert {mode(file) for file in beside if file.name.startswith(name)} == {0o600}
            await store.close()
        (tmp_path / "world.log").touch(mode=0o644)
        with open(tmp_path / "world.log", "ab", opener=private):  # noqa: ASYNC230
            assert mode(tmp_path / "world.log") == 0o600
    finally:
        os.umask(before)
