"""Unit tests ask the code, not the machine that they happen to run on."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

ROOM = 1 << 40
"""Bytes that are free on every disk."""
PROCESSORS = 2


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disks with room, and two idle processors. A test of a full disk has functions of its own."""
    statvfs = os.statvfs

    def with_room(path: Any) -> os.statvfs_result:
        told = list(statvfs(path))
        told[3] = told[4] = ROOM // told[1]  # f_bfree and f_bavail, in blocks of f_frsize
        return os.statvfs_result(told)

    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(2 * ROOM, ROOM, ROOM))
    monkeypatch.setattr(os, "statvfs", with_room)
    monkeypatch.setattr(os, "cpu_count", lambda: PROCESSORS)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
