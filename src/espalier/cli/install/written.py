"""Generated files in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from espalier.api.listing import first
from espalier.api.meta import Tree
from espalier.cli.kit import output
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.home import naming


def documents(trees: Iterable[Tree]) -> str:
    """Objects as documents of one YAML file."""
    return "---\n".join(output.to_yaml(tree) for tree in trees)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, by their paths in a folder, which is created. Files of an earlier run are overwritten.

    Raises `OSError`, and `Usage` if the folder has others: what reads it would take them for a part of it.
    """
    others = sorted(
        name
        for path in folder.rglob("*")
        if path.is_file() and (name := path.relative_to(folder).as_posix()) not in files
    )
    if others:
        raise Usage(
            f"--output-dir: found {first(others, 3)} in {folder}, allowed is a folder with nothing but what this "
            "command writes; remove them, or name another folder"
        )
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with naming(path):
            path.write_text(text)
