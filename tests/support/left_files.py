"""A bound for the files that a run of tests leaves behind, whatever fails."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

KEEP = "ESPALIER_KEEP_FILES"
"""Set, all files of failed tests stay."""

MIB = 1 << 20
OF_A_TEST = 64 * MIB
OF_A_RUN = 768 * MIB


class LeftFiles:
    """Removes what failed tests leave beyond a bound for each, and for all of this process."""

    def __init__(self, of_a_test: int, of_all: int) -> None:
        self._of_a_test, self._left = of_a_test, of_all

    def after(self, folder: Path) -> str:
        """Remove the folder of a failed test if it is too large. Returns a message, empty if it stays."""
        if KEEP in os.environ:
            return ""
        size = size_of(folder)
        if size <= min(self._of_a_test, self._left):
            self._left -= size
            return ""
        shutil.rmtree(folder, ignore_errors=True)
        return f"{size / MIB:.0f} MiB in {folder} were removed; to keep them, set {KEEP}=1"

    def at_the_end(self, folder: Path, bound: int) -> list[str]:
        """Remove the largest folders of a run until the bound is kept: fixtures of modules have theirs until here."""
        if KEEP in os.environ or not folder.exists():
            return []
        sizes = {each: size_of(each) for each in folder.iterdir() if not each.is_symlink()}
        removed, total = [], sum(sizes.values())
        for each in sorted(sizes, key=lambda size: -sizes[size]):
            if total <= bound:
                break
            total -= sizes[each]
            shutil.rmtree(each, ignore_errors=True)
            removed.append(f"{sizes[each] / MIB:.0f} MiB in {each} were removed; to keep them, set {KEEP}=1")
        return removed


@contextmanager
def folder_of_a_fixture(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """A folder that goes with its fixture: pytest keeps those of modules to the end, and an etcd takes 122 MiB."""
    folder = factory.mktemp(name)
    try:
        yield folder
    finally:
        if KEEP not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)


def of_this_process() -> LeftFiles:
    """The bounds of a process, one of as many as pytest has workers."""
    return LeftFiles(OF_A_TEST, share())


def share() -> int:
    """Bytes that this process may leave."""
    return OF_A_RUN // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def size_of(folder: Path) -> int:
    """Bytes that a folder takes on its disk, without following links."""
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                size += Path(path, name).lstat().st_blocks * 512
            except OSError:
                continue  # of a program that still runs
    return size
