"""A Python without anything around it, cut out of a Debian file system: interpreter, modules in use, libraries.

Nothing is run as root and nothing is entered: Debian's own loader starts Debian's own Python from where it lies.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from espalier.assets.debian import packages_of
from espalier.assets.interpreter import Interpreter
from espalier.assets.processes import run

LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBRARIES}/ld-linux-x86-64.so.2"
LINKS = {"lib": "usr/lib", "lib64": "usr/lib64", f"usr/lib64/{Path(LOADER).name}": f"/{LOADER}"}
"""Paths of the loader and of libraries."""
PACKAGES = "var/lib/dpkg/status.d"
"""Path of the package facts that scanners read in an image without dpkg."""

FIND = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
for module in list(sys.modules.values()):
    if getattr(module, "__file__", None):
        print(module.__file__)
"""


class Debian:
    """A Debian file system with Python in it, whose programs can be started from outside."""

    def __init__(self, root: Path, *paths: Path) -> None:
        self._root = root
        # Modules found on the additional search path are not part of the runtime.
        self.interpreter = Interpreter(root, LOADER, LIBRARIES, _python(root), "the node's file system", paths)

    def runtime(self, programs: Sequence[str], modules: Sequence[str], work_folder: Path) -> Mapping[str, Path | str]:
        """The files of Python, of other programs and of all libraries that they load, for a layer of an image.

        `modules` are imported to see which others they need. Modules are compiled into `work_folder`, which must be
        empty: nothing in a container could keep what is compiled there. Raises `BuildFailed`.
        """
        loaded = [Path(line) for line in self.interpreter.run(FIND, *modules).splitlines()]
        paths = [path for path in loaded if path.is_relative_to(self._root)]
        binaries = [
            self.interpreter.python,
            *programs,
            *(str(path.relative_to(self._root)) for path in paths if path.suffix == ".so"),
        ]
        files: dict[str, Path | str] = {path: self._root / path for path in binaries}
        for library in sorted({library for binary in binaries for library in self._libraries(self._root / binary)}):
            if library.is_relative_to(self._root):
                files[f"{LIBRARIES}/{library.name}"] = Path(os.path.realpath(library))
        sources = {path.relative_to(self._root).with_suffix(".pyc"): path for path in paths if path.suffix == ".py"}
        compiled = self.interpreter.compile({str(target): source for target, source in sources.items()}, work_folder)
        return {
            **files,
            **compiled,
            **LINKS,
            **self._packages([*binaries, *map(str, files), *map(str, paths)], work_folder),
        }

    def _libraries(self, binary: Path) -> Iterable[Path]:
        """Libraries that the loader loads for a program or library."""
        libraries = self._root / LIBRARIES
        output = run([self._root / LOADER, "--library-path", libraries, "--list", binary], str(binary))
        for line in output.splitlines():
            _, arrow, place = line.strip().partition(" => ")
            if arrow:
                yield Path(place.split(" (")[0])

    def _packages(self, files: Iterable[str], work_folder: Path) -> Mapping[str, Path]:
        """Package facts for scanners: one file for each package."""
        facts = {}
        folder = work_folder / PACKAGES
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, text in packages_of(self._root, files).items():
            place = folder / name
            place.write_text(text)
            place.chmod(0o644)
            facts[f"{PACKAGES}/{name}"] = place
        return facts


def _python(root: Path) -> str:
    """Path of the interpreter, without leading slash: that which `python3` leads to."""
    return f"usr/bin/{(root / 'usr/bin/python3').readlink().name}"
