"""Generated files in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from espalier.api.meta import Tree
from espalier.api.text.listing import first
from espalier.cli.kit.connecting.home import naming
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.printing import output

_STAGED = ".espalier-new"
"""Folder in the folder, on the same file system, in which files are until all are written."""
_NEW, _FORMER = "new", "former"
"""Folders in that: of files to be moved, and of copies of those that they replace."""


def documents(trees: Iterable[Tree]) -> str:
    """Objects as documents of one YAML file."""
    return "---\n".join(output.to_yaml(tree) for tree in trees)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, by their paths in a folder, which is created. Files of an earlier run are replaced when all are
    written: an error leaves them as they were. A run that is killed while it replaces them leaves some of each run, and
    the next run replaces all.

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
            path = staged / _NEW / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with naming(path):
                path.write_text(text)
        _replace_all(folder, staged, list(files))
    finally:
        _remove(staged)


def _replace_all(folder: Path, staged: Path, names: Sequence[str]) -> None:
    """Move staged files into the folder, or put the former ones back. Raises `OSError`."""
    with ExitStack() as undo:
        for name in names:
            path, former = folder / name, staged / _FORMER / name
            path.parent.mkdir(parents=True, exist_ok=True)
            has_former = path.is_symlink() or path.is_file()
            if has_former:
                former.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, former, follow_symlinks=False)
            (staged / _NEW / name).replace(path)
            undo.callback(partial(former.replace, path) if has_former else path.unlink)
        undo.pop_all()


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
