"""A Python without anything around it, cut out of a Debian file system: interpreter, modules in use, libraries.

Nothing is run as root and nothing is entered: Debian's own loader starts Debian's own Python from where it lies.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from espalier.assets.debian import packages_of
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
COMPILE = """
import py_compile, sys
MODE = py_compile.PycInvalidationMode.UNCHECKED_HASH
for source, target, name in zip(*[iter(sys.argv[1:])] * 3):
    py_compile.compile(source, target, name, doraise=True, invalidation_mode=MODE)
"""


MODULES_LEFT_OUT = (
    *("test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "venv", "distutils", "pydoc_data", "curses"),
    *("sqlite3", "dbm", "unittest", "__pycache__", "turtle.py", "sitecustomize.py", "antigravity.py", "this.py"),
    *("_curses", "_curses_panel", "_sqlite3", "_dbm", "_ctypes_test", "readline", "nis", "ossaudiodev", "_crypt"),
)
"""Parts of the standard library for terminals, development and tests."""
TESTS_LEFT_OUT = ("_test", "_xxtest", "xxlimited")


class Debian:
    """A Debian file system with Python in it, whose programs can be started from outside."""

    def __init__(self, root: Path, *paths: Path) -> None:
        self._root = root
        self._paths = paths
        """Additional search path for modules; modules found there are not part of the runtime."""

    @property
    def python(self) -> str:
        """Path of the interpreter, without leading slash: that which `python3` leads to."""
        return f"usr/bin/{(self._root / 'usr/bin/python3').readlink().name}"

    def runtime(self, programs: Sequence[str], modules: Sequence[str], work_folder: Path) -> Mapping[str, Path | str]:
        """The files of Python, of other programs and of all libraries that they load, for a layer of an image.

        `modules` are imported to see which others they need. Modules are compiled into `work_folder`, which must be
        empty: nothing in a container could keep what is compiled there. Raises `BuildFailed`.
        """
        files = [Path(line) for line in self._run(FIND, *modules).splitlines()]
        return self._layer(programs, [path for path in files if path.is_relative_to(self._root)], (), work_folder)

    def python_runtime(self, extensions: Iterable[Path], work_folder: Path) -> Mapping[str, Path | str]:
        """The files of Python with its standard library, of which `MODULES_LEFT_OUT` are not there.

        With the shared libraries that `extensions` load: modules which lie elsewhere. Else as `runtime`.
        """
        library = self._root / "usr/lib" / self.python.rpartition("/")[2]
        names = [entry for folder in (library, library / "lib-dynload") for entry in sorted(folder.iterdir())]
        entries = [entry for entry in names if _stays(entry)]
        modules = [file for entry in entries for file in ([entry] if entry.is_file() else sorted(entry.rglob("*.py")))]
        return self._layer((), [file for file in modules if file.suffix in (".py", ".so")], extensions, work_folder)

    def run_module(self, module: str, arguments: Sequence[str], *paths: Path) -> str:
        """The output of a module that is run as a program, with this process's environment. Raises `BuildFailed`."""
        code = f"import runpy, sys; sys.argv[0] = {module!r}; runpy.run_module({module!r}, run_name='__main__')"
        return self._run(code, *arguments, paths=paths, environment=os.environ)

    def try_modules(self, modules: Sequence[str], *paths: Path) -> None:
        """Import modules that are to run on this Python. Raises `BuildFailed`."""
        self._run(FIND, *modules, paths=paths)

    def _layer(
        self, programs: Sequence[str], paths: Sequence[Path], extensions: Iterable[Path], work_folder: Path
    ) -> Mapping[str, Path | str]:
        binaries = [
            self.python,
            *programs,
            *(str(path.relative_to(self._root)) for path in paths if path.suffix == ".so"),
        ]
        files: dict[str, Path | str] = {path: self._root / path for path in binaries}
        loading = [*(self._root / binary for binary in binaries), *extensions]
        for library in sorted({library for binary in loading for library in self._libraries(binary)}):
            if library.is_relative_to(self._root):
                files[f"{LIBRARIES}/{library.name}"] = Path(os.path.realpath(library))
        sources = {path.relative_to(self._root).with_suffix(".pyc"): path for path in paths if path.suffix == ".py"}
        compiled = self.compile({str(target): source for target, source in sources.items()}, work_folder)
        return {
            **files,
            **compiled,
            **LINKS,
            **self._packages([*binaries, *map(str, files), *map(str, paths)], work_folder),
        }

    @property
    def tag(self) -> str:
        """The tag of this Python in names of compiled modules: `cpython-311`."""
        return f"cpython-{self.python.rpartition('python')[2].replace('.', '')}"

    def compile(
        self, sources: Mapping[str, Path], work_folder: Path, names: Mapping[str, str] | None = None
    ) -> Mapping[str, Path]:
        """Path in the image -> the compiled module; the same bytes at each run, whoever runs it and where.

        `names` say where sources lie in the image; else they are not there, and compiled modules stand in their place.
        """
        arguments: list[str] = []
        compiled = {}
        for target, source in sorted(sources.items()):
            place = work_folder / target
            place.parent.mkdir(parents=True, exist_ok=True)
            arguments += [str(source), str(place), f"/{names[target] if names else target.removesuffix('c')}"]
            compiled[target] = place
        self._run(COMPILE, *arguments)
        for place in compiled.values():
            place.chmod(0o644)
        return compiled

    def _run(
        self, code: str, *arguments: str, paths: Sequence[Path] = (), environment: Mapping[str, str] | None = None
    ) -> str:
        libraries = self._root / LIBRARIES
        interpreter: list[str | Path] = [self._root / LOADER, "--library-path", libraries, self._root / self.python]
        settings = {
            **(environment or {}),
            "PYTHONHOME": str(self._root / "usr"),
            "PYTHONPATH": os.pathsep.join(map(str, [*self._paths, *paths])),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return run([*interpreter, "-S", "-c", code, *arguments], "Python of the node's file system", settings)

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


def _stays(entry: Path) -> bool:
    """True if an entry of the standard library's folders is among the files of a runtime."""
    name = entry.name.partition(".")[0] if entry.suffix == ".so" else entry.name
    return name not in MODULES_LEFT_OUT and not (entry.suffix == ".so" and name.startswith(TESTS_LEFT_OUT))
