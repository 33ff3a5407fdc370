"""Debian packages: a file system made of them, and which files of it belong to some of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

SUITE = "bookworm"
MIRROR = "ESPALIER_DEBIAN_MIRROR"
UNREAD = (
    "usr/share/doc/",
    "usr/share/man/",
    "usr/share/locale/",
    "usr/share/lintian/",
    "usr/share/bash-completion/",
    "usr/lib/x86_64-linux-gnu/gconv/",
)
"""Files that no program reads."""


SUITES = re.compile(r"(oldoldstable|oldstable|stable|testing|sid|bullseye|bookworm|trixie|forky)(-[a-z-]+)?(/updates)?")
"""Suites of Debian itself: a mirror of one of them has the packages of all that are alive."""


def mirror(etc_apt: Path = Path("/etc/apt")) -> str | None:
    """Where packages come from: `$ESPALIER_DEBIAN_MIRROR`, else the machine's own source of the suite.

    None when the machine names none: debootstrap has its own default.
    """
    named = os.environ.get(MIRROR, "").split()
    return next(iter(named or [uri for uri, suites in _sources(etc_apt) if SUITE in suites]), None)


def mirrors(etc_apt: Path = Path("/etc/apt")) -> list[str]:
    """All places where packages of any of Debian's suites may come from: those in `$ESPALIER_DEBIAN_MIRROR`, separated
    by spaces, else this machine's own sources; empty when it names none."""
    own = [uri for uri, suites in _sources(etc_apt) if any(SUITES.fullmatch(suite) for suite in suites)]
    return list(dict.fromkeys(uri.rstrip("/") for uri in os.environ.get(MIRROR, "").split() or own))


def _sources(etc_apt: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Each source of component main that apt is told of, and its suites."""
    for path in sorted([etc_apt / "sources.list", *etc_apt.glob("sources.list.d/*")]):
        if path.suffix == ".list" and path.is_file():
            for line in path.read_text(errors="replace").splitlines():
                if match := re.match(r"deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s.*\bmain\b", line.strip()):
                    yield match[1], (match[2],)
        elif path.suffix == ".sources":
            for paragraph in paragraphs(path.read_text(errors="replace")):
                if "main" in paragraph.get("Components", "").split() and "URIs" in paragraph:
                    for uri in paragraph["URIs"].split():
                        yield uri, paragraph.get("Suites", "").split()


def package_files(root: Path, packages: Sequence[str]) -> Mapping[str, Path | str]:
    """The files of packages and of all they depend on, as installed below `root`; without what no program reads.

    Path without leading slash -> the file, or the text of a link. Alternatives (`/usr/sbin/iptables`) are among them,
    and the links that lead to the folders (`/lib`). Raises `ValueError` for a package that is not installed.
    """
    installed = _installed(root)
    files: dict[str, Path | str] = {}
    for package in _closure(installed, packages):
        for line in _file_list(root, package).read_text().splitlines():
            _collect(root, Path(line).relative_to("/"), files)
    for link in (link for folder in ("usr/bin", "usr/sbin") for link in (root / folder).iterdir() if link.is_symlink()):
        alternative = str(link.readlink()).lstrip("/")
        if alternative.startswith("etc/alternatives/"):
            target = str((root / alternative).readlink())
            if _place(root, Path(target.lstrip("/"))) in files:
                files[str(link.relative_to(root))] = f"/{alternative}"
                files[alternative] = target
    return files


def packages_of(root: Path, files: Iterable[str]) -> Mapping[str, str]:
    """The packages that some files of `root` are from: name -> what dpkg says of its version, as it writes it."""
    wanted = {path.removeprefix("usr/") for path in files}
    packages = {}
    for package, facts in sorted(_installed(root).items()):
        owned = _file_list(root, package).read_text().splitlines()
        if any(line.lstrip("/").removeprefix("usr/") in wanted and not (root / line[1:]).is_dir() for line in owned):
            fields = ("Package", "Status", "Maintainer", "Architecture", "Source", "Version", "Description")
            packages[package] = "".join(f"{field}: {facts[field]}\n" for field in fields if field in facts)
    return packages


def _collect(root: Path, path: Path, files: dict[str, Path | str]) -> None:
    """Add one path of a package's list, under the name it has when all links to folders are followed."""
    if str(path) == "." or str(path).startswith(UNREAD):
        return
    first = root / path.parts[0]
    if first.is_symlink():  # bin, lib, sbin -> usr/...
        files[path.parts[0]] = str(first.readlink())
    place = root / _place(root, path)
    if place.is_symlink():
        files[str(place.relative_to(root))] = str(place.readlink())
    elif place.is_file():
        files[str(place.relative_to(root))] = place


def _place(root: Path, path: Path) -> str:
    """Where a path leads when the links of its folders are followed, its own name left alone."""
    folder = Path(os.path.realpath(root / path.parent))
    return str((folder / path.name).relative_to(os.path.realpath(root)))


def _closure(installed: Mapping[str, Mapping[str, str]], packages: Sequence[str]) -> list[str]:
    """The packages and what they depend on, sorted; of alternatives, those that are installed."""
    provided = {
        name.split()[0]: package
        for package, facts in installed.items()
        for name in facts.get("Provides", "").split(",")
        if name.strip()
    }
    closure: set[str] = set()
    open_ = list(packages)
    while open_:
        package = open_.pop()
        if package in closure:
            continue
        if package not in installed:
            raise ValueError(f"the Debian package {package} is not installed in the node's file system")
        closure.add(package)
        for dependency in f"{installed[package].get('Depends', '')},{installed[package].get('Pre-Depends', '')}".split(
            ","
        ):
            names = [re.split(r"[\s:(]", choice.strip())[0] for choice in dependency.split("|")]
            names = [name if name in installed else provided.get(name, "") for name in names]
            open_ += [name for name in names if name][:1]
    return sorted(closure)


def _installed(root: Path) -> dict[str, dict[str, str]]:
    status = (root / "var/lib/dpkg/status").read_text()
    return {facts["Package"]: facts for facts in paragraphs(status) if facts.get("Status") == "install ok installed"}


def _file_list(root: Path, package: str) -> Path:
    lists = root / "var/lib/dpkg/info"
    plain = lists / f"{package}.list"
    return plain if plain.exists() else next(lists.glob(f"{package}:*.list"))


def paragraphs(text: str) -> list[dict[str, str]]:
    """The paragraphs of a control file: field -> its value, lines that go on joined by a space."""
    paragraphs = []
    for block in re.split(r"\n\s*\n", text):
        facts: dict[str, str] = {}
        field = ""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace():
                facts[field] = f"{facts.get(field, '')} {line.strip()}".strip()
            elif ":" in line:
                field, _, value = line.partition(":")
                facts[field] = value.strip()
        if facts:
            paragraphs.append(facts)
    return paragraphs
