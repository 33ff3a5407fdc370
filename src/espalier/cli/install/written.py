"""Generated files in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from espalier.api.listing import first
from espalier.api.meta import Tree
from espalier.cli.kit import output
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.home import naming

_STAGED = ".espalier-new"
"""Folder in the folder, on the same file system, in which files are until all are written."""


def documents(trees: Iterable[Tree]) -> str:
    """Objects as documents of one YAML file."""
    return "---\n".join(output.to_yaml(tree) for tree in trees)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, by their paths in a folder, which is created. Files of an earlier run are replaced when all are
    written: an error leaves them as they were.

    Raises `OSError`, and `Usage` if the folder has others: what reads it would take them for a part of it.
    """
    others = sorted(
        name
        for path in folder.rglob("*")
        if path.is_file() and (name := path.relative_to(folder).as_posix()) not in files
        if not name.startswith(f"{_STAGED}/")
    )
    if others:
        raise Usage(
            f"--output-dir: found {first(others, 3)} in {folder}, allowed is a folder with nothing but what this "
            "command writes; remove them, or name another folder"
        )
    staged = folder / _STAGED
    _remove(staged)  # of a run that was killed
    try:
        for name, text in files.items():
            path = staged / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with naming(path):
                path.write_text(text)
        for name in files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            (staged / name).replace(path)
    finally:
        _remove(staged)


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def replace(file: Path, text: str) -> None:
    """Replace a file when its new content is written. Raises `OSError`."""
    staged = file.with_name(f".{file.name}.new")
    try:
        with naming(staged):
            staged.write_text(text)
        staged.replace(file)
    finally:
        staged.unlink(missing_ok=True)
