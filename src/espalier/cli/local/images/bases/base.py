"""The base of images: an interpreter with its standard library, what they load and read, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from espalier.assets.archive import Layer
from espalier.assets.interpreter import Interpreter
from espalier.cli.install.deployment import USER
from espalier.cli.local.images.architectures import PYTHON, Architecture
from espalier.cli.local.images.bases.base_packages import Lock, Package, download, unpack
from espalier.cli.local.images.bases.shared_libraries import closure

INTERPRETER = f"usr/bin/python{PYTHON}"
PACKAGES = "var/lib/dpkg/status.d"
"""Path of the package facts that scanners read in an image without dpkg."""
BUNDLE = "etc/ssl/certs/ca-certificates.crt"
FOR_WHEELS = (
    *("libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "libresolv.so.2", "librt.so.1"),
    *("libstdc++.so.6", "libutil.so.1", "libz.so.1"),
)
"""Libraries that a wheel for Linux may take for granted: so the base is the same whatever comes on top of it."""
MODULES_LEFT_OUT = (
    *("test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "venv", "pydoc_data", "curses", "_pyrepl"),
    *("sqlite3", "dbm", "unittest", "__pycache__", "turtle.py", "sitecustomize.py", "antigravity.py", "this.py"),
    *("_curses", "_curses_panel", "_sqlite3", "_dbm", "_ctypes_test", "readline", "xxsubtype"),
    *("_ios_support.py", "_aix_support.py", "_android_support.py", "_apple_support.py", "_osx_support.py"),
)
"""Parts of the standard library for terminals, development and tests."""
TESTS_LEFT_OUT = ("_test", "_xxtest", "xxlimited")
COPIED = ("etc/protocols", "etc/services", "usr/share/zoneinfo")
LINKS = {
    "lib": "usr/lib",
    "usr/bin/python3": INTERPRETER.rpartition("/")[2],
    "usr/lib/ssl/cert.pem": f"/{BUNDLE}",
    "usr/lib/ssl/certs": "/etc/ssl/certs",
}
TEXTS = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nespalier:x:{USER}:{USER}:espalier:/:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nespalier:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
"""Files that programs look up: a user name, and host names from files first, then from DNS."""


@dataclass(frozen=True)
class Base:
    """Unpacked packages of one architecture."""

    architecture: Architecture
    root: Path
    packages: tuple[Package, ...]
    facts: Mapping[str, str]
    """Facts of each package as dpkg writes them, by name."""

    def layer(self, interpreter: Interpreter, work_folder: Path) -> Layer:
        """The layer; what it has besides the packages' files is made in `work_folder`, which must be empty.

        `interpreter` is the one of this machine's base: compiled modules are the same for all architectures.
        Raises `BuildFailed` and `OSError`.
        """
        library = self.root / f"usr/lib/python{PYTHON}"
        modules = [file for file in _files(library, _is_kept) if file.suffix in (".py", ".so")]
        extensions = [file for file in modules if file.suffix == ".so"]
        wanted = [place for place in map(self.library, FOR_WHEELS) if place is not None]
        libraries = [*wanted, *closure([self.root / INTERPRETER, *extensions, *wanted], self.library)]
        sources = {str(self._path(file).with_suffix(".pyc")): file for file in modules if file.suffix == ".py"}
        bundle = b"".join(
            file.read_bytes() for file in sorted((self.root / "usr/share/ca-certificates").rglob("*.crt"))
        )
        texts = {
            **{path: text.encode() for path, text in TEXTS.items()},
            **{f"{PACKAGES}/{name}": text.encode() for name, text in self.facts.items()},
            BUNDLE: bundle,
        }
        return Layer(
            {
                **LINKS,
                **dict(self.architecture.links),
                **self._entries(COPIED),
                **self._entries(f"usr/share/doc/{name}/copyright" for name in self.facts),
                **self._loader(),
                **{str(self._path(file)): file for file in [self.root / INTERPRETER, *extensions]},
                **{f"{self.architecture.libraries}/{file.name}": file.resolve() for file in libraries},
                **interpreter.compile(sources, work_folder),
                **{path: put(work_folder, path, content) for path, content in texts.items()},
            },
            {"tmp": 0o1777, "proc": 0o755, "dev": 0o755, "sys": 0o755},
        )

    def library(self, name: str) -> Path | None:
        """The file of a shared library, under the name that programs have for it; None if there is none."""
        place = self.root / self.architecture.libraries / name
        return place if place.exists() else None

    def _loader(self) -> dict[str, Path | str]:
        """The loader, and the links by which programs name it."""
        name = Path(self.architecture.loader).name
        places = [self.root / folder / name for folder in ("usr/lib", "usr/lib64")]
        return {
            self.architecture.loader: self.root / self.architecture.loader,
            **{str(self._path(link)): str(link.readlink()) for link in places if link.is_symlink()},
        }

    def _entries(self, paths: Iterable[str]) -> dict[str, Path | str]:
        """Files and links below paths of the packages; what is not there is left out."""
        entries: dict[str, Path | str] = {}
        for path in paths:
            place = self.root / path
            for file in _files(place) if place.is_dir() and not place.is_symlink() else [place]:
                if file.is_symlink():
                    entries[str(self._path(file))] = str(file.readlink())
                elif file.is_file():
                    entries[str(self._path(file))] = file
        return entries

    def _path(self, file: Path) -> Path:
        return file.relative_to(self.root)


def unpacked(architecture: Architecture, target: Path, show: Callable[[str], None]) -> Base:
    """The base of an architecture, its packages unpacked below `target`. Raises `BuildFailed` and `OSError`."""
    lock = Lock.read()
    packages = lock.of(architecture.name)
    files = download(lock, packages, show=show)
    facts = {package.name: unpack(file, target) for package, file in zip(packages, files, strict=True)}
    return Base(architecture, target, tuple(packages), facts)


def put(folder: Path, path: str, content: bytes, mode: int = 0o644) -> Path:
    """Write a file below a folder."""
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    place.chmod(mode)
    return place


def _files(folder: Path, accept: Callable[[Path], bool] = lambda _: True) -> Iterator[Path]:
    """All files and links below a folder, sorted; an entry that is not accepted is left out with all in it."""
    for entry in sorted(folder.iterdir()):
        if not accept(entry):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _files(entry, accept)
        else:
            yield entry


def _is_kept(entry: Path) -> bool:
    """True if an entry of the standard library's folders is in the base."""
    name = entry.name.partition(".")[0] if entry.suffix == ".so" else entry.name
    return name not in MODULES_LEFT_OUT and not (entry.suffix == ".so" and name.startswith(TESTS_LEFT_OUT))
