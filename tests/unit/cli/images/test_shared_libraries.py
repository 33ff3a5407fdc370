"""Libraries that programs of an image load, read from their headers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from espalier.assets.processes import BuildFailed
from espalier.cli.local.images.bases.shared_libraries import closure, needed

PROGRAM = Path(sys.executable).resolve()


def test_program_names_the_libraries_it_loads() -> None:
    assert "libc.so.6" in needed(PROGRAM)


def test_closure_has_what_libraries_load_themselves() -> None:
    asked: list[str] = []

    def find(name: str) -> Path:
        asked.append(name)
        return PROGRAM

    assert closure([PROGRAM], find) == [PROGRAM] * len(needed(PROGRAM))
    assert sorted(asked) == sorted(needed(PROGRAM))


def test_missing_library_is_named_with_its_program() -> None:
    with pytest.raises(BuildFailed) as failure:
        closure([PROGRAM], lambda _: None)
    assert f"libc.so.6 (for {PROGRAM.name})" in str(failure.value)


def test_library_that_is_there_is_not_looked_for() -> None:
    assert closure([PROGRAM], lambda _: None, there=needed(PROGRAM)) == []


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF"])
def test_file_that_is_no_program_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "thing.so").write_bytes(content)
    with pytest.raises(BuildFailed, match=r"thing\.so is not a program or library"):
        needed(tmp_path / "thing.so")
