"""The contents of an upgrader image, apart from Python and the components."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from .contents import COMPONENTS, CONTENTS, IMAGE_FOLDER, Contents, ImageFile, dump

PROGRAM = "usr/local/bin/upgrader"
LIBRARY = "usr/lib/upgrader"
"""Directory of the program's modules in the image."""
PACKAGE = "espalier.upgrades.node"
"""The package's name in the image, independent of its name here."""
LAZY_IMPORTS = ("http.client", "ssl", "encodings.idna", "traceback", "linecache", "shutil")
"""Modules that the program, or Python itself, imports only when they are needed."""
MODULES = ("espalier.upgrader.main", *LAZY_IMPORTS)
HOST_TOOLS = ("usr/bin/nsenter",)
"""The programs in the image that the upgrader runs; all others are the host's."""


def launcher(python: str) -> str:
    """The text of the executable; the image has no shell."""
    return (
        f"#!/{python} -IS\nimport sys\n\nsys.path.insert(0, '/{LIBRARY}')\n\n"
        f"from {PACKAGE}.main import main\n\nsys.exit(main())\n"
    )


def sources() -> Mapping[str, Path | None]:
    """Path in the image -> module of the program; None for an empty `__init__.py`."""
    here = Path(__file__)
    place = f"{LIBRARY}/{PACKAGE.replace('.', '/')}"
    modules: dict[str, Path | None] = {
        f"{place}/{path.name}": path for path in sorted(here.parent.glob("*.py")) if path != here
    }
    return {f"{LIBRARY}/espalier/__init__.py": None, f"{LIBRARY}/espalier/upgrades/__init__.py": None, **modules}


def components(files: Mapping[str, Path]) -> dict[str, Path | str]:
    """Path in the image -> file, for `component/program` -> file. Programs that share a file become links."""
    placed: dict[str, Path | str] = {}
    first: dict[Path, str] = {}
    for name, file in sorted(files.items()):
        twin = first.setdefault(file.resolve(), name)
        path = f"{IMAGE_FOLDER}/{COMPONENTS}/{name}"
        placed[path] = file.resolve() if twin == name else f"../{twin}"
    return placed


def describe(version: str, machine: str, versions: Mapping[str, str], files: Mapping[str, Path]) -> tuple[str, str]:
    """The path and text of the image's description of its contents."""
    sums: dict[Path, ImageFile] = {}
    for file in files.values():
        real = file.resolve()
        if real not in sums:
            with real.open("rb") as opened:
                sums[real] = ImageFile(hashlib.file_digest(opened, "sha256").hexdigest(), real.stat().st_size)
    contained = {name: sums[file.resolve()] for name, file in files.items()}
    return f"{IMAGE_FOLDER}/{CONTENTS}", dump(Contents(version, machine, versions, contained))
