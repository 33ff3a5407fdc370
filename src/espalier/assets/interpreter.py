"""A Debian's Python, started from where its files lie: nothing is installed, entered or run as root.

Debian's own loader starts it, so what it does depends on its packages, and not on this machine's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from espalier.assets.processes import follow, run

COMPILE = """
import py_compile, sys
MODE = py_compile.PycInvalidationMode.UNCHECKED_HASH
for line in sys.stdin:
    source, target, name = line.rstrip("\\n").split("\\t")
    py_compile.compile(source, target, name, doraise=True, invalidation_mode=MODE)
"""
COMPRESS = """
import sys, zlib
size = 2**20
packer = zlib.compressobj(6, zlib.DEFLATED, 31)
with open(sys.argv[1], "rb") as source, open(sys.argv[2], "wb") as target:
    while piece := source.read(size):
        target.write(packer.compress(piece))
    target.write(packer.flush())
"""


@dataclass(frozen=True)
class Interpreter:
    """Python in a Debian file system for this machine's architecture."""

    root: Path
    loader: str
    """Path of the dynamic loader below `root`, without leading slash; so are the two others."""
    libraries: str
    """Folder of shared libraries."""
    python: str
    label: str
    """The file system's name in messages."""
    paths: tuple[Path, ...] = ()
    """Additional search path for modules."""

    @property
    def tag(self) -> str:
        """The tag of this Python in names of compiled modules: `cpython-313`."""
        return f"cpython-{self.python.rpartition('python')[2].replace('.', '')}"

    def run(
        self,
        code: str,
        *arguments: str,
        paths: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        stdin: str = "",
        shown: str = "",
    ) -> str:
        """The output of a program. Of this process's environment it sees `environment` only. Raises `BuildFailed`."""
        shown = shown or self.python.rpartition("/")[2]
        command, settings = self._started(code, arguments, paths, environment or {})
        return run(command, f"Python of {self.label}", settings, stdin=stdin, shown=shown)

    def _started(
        self, code: str, arguments: Sequence[str], paths: Sequence[Path], environment: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """The command for a program, and its environment."""
        interpreter = [self.root / self.loader, "--library-path", self.root / self.libraries, self.root / self.python]
        settings = {
            **environment,
            "PYTHONHOME": str(self.root / "usr"),
            "PYTHONPATH": os.pathsep.join(map(str, [*self.paths, *paths])),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return [*map(str, interpreter), "-S", "-c", code, *arguments], settings

    def run_module(
        self, module: str, arguments: Sequence[str], *paths: Path, on_line: Callable[[str | None], bool]
    ) -> None:
        """Run a module as a program, with this process's environment. `on_line` is as for `follow`. Raises
        `BuildFailed` with the lines that matter.
        """
        code = f"import runpy, sys; sys.argv[0] = {module!r}; runpy.run_module({module!r}, run_name='__main__')"
        # Line by line, and errors where they occur.
        command, settings = self._started(code, arguments, paths, {**os.environ, "PYTHONUNBUFFERED": "1"})
        label, shown = f"Python of {self.label}", f"{module} {arguments[0]}"
        follow(command, Path.cwd(), environment=settings, label=label, on_line=on_line, shown=shown)

    def compile(self, sources: Mapping[str, Path], work_folder: Path) -> Mapping[str, Path]:
        """Path in the image -> the compiled module; the same bytes at each run, whoever runs it and where.

        Sources are not in the image: compiled modules stand in their place. Raises `BuildFailed`.
        """
        return self._compile({path: (source, path.removesuffix("c")) for path, source in sources.items()}, work_folder)

    def compile_beside(self, sources: Mapping[str, Path], work_folder: Path) -> Mapping[str, Path]:
        """As `compile`, for sources that are in the image too, by their paths there. Raises `BuildFailed`."""
        return self._compile(
            {
                f"{Path(path).parent}/__pycache__/{Path(path).stem}.{self.tag}.pyc": (source, path)
                for path, source in sources.items()
            },
            work_folder,
        )

    def _compile(self, sources: Mapping[str, tuple[Path, str]], work_folder: Path) -> Mapping[str, Path]:
        """Of each compiled module the source, and the path that the module says it is from."""
        lines: list[str] = []
        compiled = {}
        for target, (source, name) in sorted(sources.items()):
            place = work_folder / target
            place.parent.mkdir(parents=True, exist_ok=True)
            lines.append(f"{source}\t{place}\t/{name}\n")
            compiled[target] = place
        self.run(COMPILE, stdin="".join(lines))
        for place in compiled.values():
            place.chmod(0o644)
        return compiled

    def compress(self, source: Path, target: Path) -> None:
        """Compress a file by gzip: the same bytes with the same packages, whatever zlib this machine has.

        At level 6: the highest takes four times as long, for one percent. Raises `BuildFailed`.
        """
        self.run(COMPRESS, str(source), str(target))
