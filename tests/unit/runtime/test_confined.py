"""No path and no link leads out of a folder whose content strangers decide."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from espalier.runtime import confined

NAMES = ("a", "b", "c")
PARTS = st.sampled_from((*NAMES, "..", ".", "", "secret", "x" * 300, "\0", "é"))
PATHS = st.builds(
    lambda root, parts: root + "/".join(parts), st.sampled_from(("", "/", "//")), st.lists(PARTS, max_size=7)
)
ENTRIES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(("file", "folder", "link")), PATHS), max_size=6)


def host(parent: Path) -> list[tuple[str, bytes]]:
    return sorted(
        (str(path.relative_to(parent)), path.read_bytes() if path.is_file() else b"")
        for path in (parent / "host").rglob("*")
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, derandomize=True)
@given(entries=ENTRIES, path=PATHS)
@example(entries=[("a", "link", "/../../host")], path="a/secret")
@example(entries=[("a", "link", "../host")], path="a/secret")
@example(entries=[("a", "link", "b"), ("b", "link", "a")], path="a")
def test_nothing_outside_folder_is_read_or_changed(entries: list[tuple[str, str, str]], path: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        parent = Path(temporary)
        root = parent / "root"
        for folder in (root, parent / "host"):
            folder.mkdir()
        (parent / "host/secret").write_text("of the host")
        (parent / "secret").write_text("of the host")
        for where in (root, root / "a"):
            for name, kind, target in entries:
                if not os.path.isdir(where) or where.is_symlink() or os.path.lexists(where / name):
                    continue
                if kind == "file":
                    (where / name).write_text("of the node")
                elif kind == "folder":
                    (where / name).mkdir()
                elif target and "\0" not in target:
                    try:
                        (where / name).symlink_to(target.replace("//", f"{parent}/"))
                    except OSError:  # a name that is too long for a link as well
                        continue
        before = host(parent)

        try:
            resolved = confined.place(root, path)
        except OSError:
            resolved = root
        assert resolved.is_relative_to(root)
        assert resolved.resolve().is_relative_to(root)
        for change in (
            lambda: confined.write(root, path, "written"),
            lambda: confined.make_folder(root, path),
            lambda: confined.remove(root, path),
        ):
            with contextlib.suppress(OSError):
                assert b"of the host" not in confined.read(root, path)
            with contextlib.suppress(OSError, ValueError):
                change()
        assert host(parent) == before
        assert (parent / "secret").read_text() == "of the host"
        assert sorted(path_.name for path_ in parent.iterdir()) == ["host", "root", "secret"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "../a", "a\0", "x" * 256])
def test_a_name_is_one_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid file name"):
        confined.child(tmp_path, name)


def test_a_file_that_is_not_regular_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name in ("fifo", "folder", "socket", "device"):
            with pytest.raises(OSError, match=r"regular|No such|directory|device"):
                confined.read(tmp_path, name)
            assert not confined.is_file(tmp_path, name)


def test_read_is_limited_from_either_end(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(10 * confined.LONGEST_READ)
        file.write(b"begin")
        file.seek(-3, os.SEEK_END)
        file.write(b"end")
    assert len(confined.read(tmp_path, "large")) == confined.LONGEST_READ
    assert confined.read(tmp_path, "large", start=-3) == b"end"


@pytest.mark.parametrize("swap", ["a", "a/secret"])
def test_link_put_into_the_path_is_not_followed(tmp_path: Path, swap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a/secret").write_text("of the node")
    (tmp_path / "secret").write_text("of the host")
    follow = confined.place

    def swapped(at: Path, path: str) -> Path:
        entry = follow(at, path)
        (root / swap).rename(root / "b")
        (root / swap).symlink_to(tmp_path / swap.removeprefix("a").removeprefix("/"))
        return entry

    monkeypatch.setattr(confined, "place", swapped)
    with pytest.raises(OSError, match=r"directory|symbolic links"):
        confined.read(root, "a/secret")


@pytest.mark.parametrize("link", [True, False], ids=["link", "another name of the file"])
def test_file_put_into_the_stage_is_not_written(tmp_path: Path, link: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    root.mkdir()
    secret.write_text("of the host")
    unlink = Path.unlink

    def replaced(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        if link:
            path.symlink_to(secret)
        else:
            path.hardlink_to(secret)

    monkeypatch.setattr(Path, "unlink", replaced)
    with pytest.raises(FileExistsError):
        confined.write(root, "a", "of the node")
    assert secret.read_text() == "of the host"


@pytest.mark.parametrize("target", ["folder", "file", "nowhere"])
def test_removing_a_link_removes_the_link_itself(tmp_path: Path, target: str) -> None:
    root = tmp_path / "root"
    for folder in (root, tmp_path / "folder"):
        folder.mkdir()
    (tmp_path / "folder/inside").write_text("of the host")
    (tmp_path / "file").write_text("of the host")
    (root / "a").symlink_to(tmp_path / target)
    confined.remove(root, "a")
    assert not os.path.lexists(root / "a")
    assert (tmp_path / "folder/inside").read_text() == (tmp_path / "file").read_text() == "of the host"
