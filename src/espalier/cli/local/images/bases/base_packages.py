"""Debian's packages that images are made of: locked by hash, downloaded and unpacked without dpkg."""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from espalier.assets.cache import cache_folder
from espalier.assets.debian import MIRROR, mirrors, paragraphs
from espalier.assets.processes import BuildFailed
from espalier.runtime import confined

LOCK = Path(__file__).with_name("base-packages.txt")
HEADER = "# Packages of {suite}, locked on {day} by `make base-packages`: image, name, version, sha256, size, path"
SECONDS = 60
"""The longest silence of a mirror."""
ATTEMPTS = 3
PAUSES = (1.0, 4.0)
AR_MAGIC = b"!<arch>\n"
MEMBER = 60
"""Bytes of a member's header in an archive of ar."""


@dataclass(frozen=True)
class Package:
    """One package of the lock."""

    architecture: str
    """Of the image it is for: a package for all of them is in the lock once for each."""
    name: str
    version: str
    sha256: str
    size: int
    path: str
    """Below a mirror's address."""

    def __str__(self) -> str:
        return f"{self.architecture} {self.name} {self.version} {self.sha256} {self.size} {self.path}"


@dataclass(frozen=True)
class Lock:
    """The locked packages."""

    suite: str
    day: str
    """When they were the suite's newest: 2026-11-29."""
    packages: tuple[Package, ...]

    @classmethod
    def read(cls, place: Path = LOCK) -> Lock:
        """The lock that this Espalier has."""
        header, *lines = place.read_text().splitlines()
        words = header.replace(",", "").split()
        packages = []
        for line in lines:
            architecture, name, version, sha256, size, path = line.split()
            packages.append(Package(architecture, name, version, sha256, int(size), path))
        return cls(words[3], words[6], tuple(packages))

    def write(self, place: Path = LOCK) -> None:
        """Write it as `read` reads it."""
        lines = [HEADER.format(suite=self.suite, day=self.day), *map(str, self.packages)]
        place.write_text("".join(f"{line}\n" for line in lines))

    def of(self, architecture: str) -> list[Package]:
        """The packages of an architecture."""
        return [package for package in self.packages if package.architecture == architecture]


def download(lock: Lock, packages: Sequence[Package], *, show: Callable[[str], None]) -> list[Path]:
    """The packages' files, from the cache or else from a mirror; every byte is verified. `show` gets the progress.

    Raises `BuildFailed`, which says what to do, and `OSError`.
    """
    folder = cache_folder() / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    places = []
    for number, package in enumerate(packages, 1):
        place = folder / f"{package.sha256}.deb"
        if not _is_intact(place, package):
            show(f"download {package.name} for {package.architecture} ({number} of {len(packages)})")
            _download(lock, package, place)
        places.append(place)
    return places


def _download(lock: Lock, package: Package, place: Path) -> None:
    sources = mirrors()
    if not sources:
        raise BuildFailed(
            f"{package.name} {package.version}: this machine's apt names no mirror of Debian: set {MIRROR} to one, or"
            " to several separated by spaces"
        )
    staged = place.with_name(f".{place.name}.{os.getpid()}")
    problems = []
    try:
        for source in sources:
            try:
                _fetch(f"{source}/{package.path}", staged, package.size)
            except (http.client.HTTPException, OSError, ValueError) as error:  # the last is of an invalid address
                problems.append(f"{source}: {error}")
                continue
            if _is_intact(staged, package):
                staged.replace(place)
                return
            problems.append(f"{source}: sent another file than the locked one")
    finally:
        staged.unlink(missing_ok=True)
    raise BuildFailed(
        f"{package.name} {package.version} could not be downloaded ({'; '.join(problems)}). A mirror that has newer"
        f" versions alone: run `make base-packages` in a checkout, or set {MIRROR} to Debian's snapshot of {lock.day}"
    )


def _fetch(url: str, target: Path, size: int) -> None:
    """Read a file of an expected size; a longer one is cut, and then not what is expected. Retries what may pass."""
    for attempt in range(ATTEMPTS):
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as answer, target.open("wb") as file:  # noqa: S310
                _copy(answer, file, size + 1)
            return
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == ATTEMPTS - 1:
                raise
        except (http.client.HTTPException, OSError):  # an URLError is an OSError
            if attempt == ATTEMPTS - 1:
                raise
        time.sleep(PAUSES[attempt])


def _copy(source: http.client.HTTPResponse, target: BinaryIO, most: int) -> None:
    while most > 0 and (piece := source.read(min(most, 2**20))):
        target.write(piece)
        most -= len(piece)


def _is_intact(place: Path, package: Package) -> bool:
    try:
        with place.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == package.sha256
    except FileNotFoundError:
        return False


def unpack(place: Path, target: Path) -> str:
    """Unpack a package's files and links below a folder; returns its facts, as dpkg writes them.

    Raises `BuildFailed` for what is no package, or has other entries.
    """
    try:
        members = dict(_members(place))
        with tarfile.open(fileobj=io.BytesIO(_member(members, "data.tar"))) as data:
            for entry in data:
                _unpack(data, entry, target)
        with tarfile.open(fileobj=io.BytesIO(_member(members, "control.tar"))) as control:
            facts = control.extractfile("./control")
            if facts is None:
                raise ValueError("control is no file")
            return _status(facts.read().decode())
    except (tarfile.TarError, ValueError, KeyError, EOFError) as error:
        raise BuildFailed(f"{place.name} is not a package that can be unpacked ({error})") from error


def _members(place: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each member of an archive of ar."""
    with place.open("rb") as file:
        if file.read(len(AR_MAGIC)) != AR_MAGIC:
            raise ValueError("no archive of ar")
        while header := file.read(MEMBER):
            name, size = header[:16].decode("ascii").strip().rstrip("/"), int(header[48:58])
            content = file.read(size)
            if len(content) != size:
                raise ValueError(f"{name} is cut off")
            yield name, content
            file.read(size % 2)


def _member(members: dict[str, bytes], prefix: str) -> bytes:
    for name, content in members.items():
        if name.startswith(prefix):
            return content
    raise ValueError(f"it has no {prefix}")


def _unpack(data: tarfile.TarFile, entry: tarfile.TarInfo, target: Path) -> None:
    place = target / Path(*confined.relative(entry.name))
    if entry.isdir():
        place.mkdir(parents=True, exist_ok=True)
    elif entry.issym():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(entry.linkname)
    elif entry.isfile() or entry.islnk():
        content = data.extractfile(entry)
        if content is None:
            raise ValueError(f"{entry.name} has no content")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.read())
        place.chmod(0o755 if entry.mode & 0o100 else 0o644)
    else:
        raise ValueError(f"{entry.name} is no file, folder or link")


def _status(control: str) -> str:
    """A package's facts as scanners read them in an image without dpkg."""
    facts = paragraphs(control)[0]
    fields = ("Package", "Maintainer", "Architecture", "Source", "Version", "Description")
    return "".join(f"{field}: {facts[field]}\n" for field in fields if field in facts)
