"""In which order files get to the disk and get their names: what a machine that loses power has afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


class DiskOrder:
    """Notes each flush and each rename from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, Path]] = []
        """The operations, each with its path; of a rename, the new name."""
        fsync, rename = os.fsync, os.rename

        def flushed(descriptor: int) -> None:
            fsync(descriptor)
            self.steps.append(("flush", Path(os.readlink(f"/proc/self/fd/{descriptor}"))))

        def renamed(source: str | Path, target: str | Path) -> None:
            rename(source, target)
            self.steps.append(("rename", Path(target)))

        monkeypatch.setattr(os, "fsync", flushed)
        monkeypatch.setattr(os, "rename", renamed)

    def before(self, name: Path) -> set[Path]:
        """The paths flushed before one was renamed to this."""
        at = self.steps.index(("rename", name))
        return {path for what, path in self.steps[:at] if what == "flush"}

    def after(self, name: Path) -> set[Path]:
        """The paths flushed after one was renamed to this."""
        at = self.steps.index(("rename", name))
        return {path for what, path in self.steps[at:] if what == "flush"}
