"""Python libraries for an image: unpacked wheels of locked requirements, and their bill of materials (CycloneDX)."""

from __future__ import annotations

import email
import hashlib
import importlib.util
import json
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote

from espalier.assets.processes import BuildFailed
from espalier.assets.runtime import Debian
from espalier.runtime import confined

LEFT_OUT = (".pyi", ".pyx", ".pxd", ".c", ".h", ".js", "/RECORD", "/INSTALLER", "/REQUESTED", "/direct_url.json")
"""Files that no program reads."""
FOLDED = ("purelib", "platlib")
"""Folders of a wheel's `.data` whose content belongs next to its packages."""


@dataclass(frozen=True)
class Library:
    """One library in an image."""

    name: str
    version: str
    license: str
    sha256: str
    """The hash of the wheel in the locked requirements."""


def download(debian: Debian, requirements: Path, folder: Path) -> Sequence[Path]:
    """Have pip download the wheels of locked requirements, and verify their hashes; by name. Raises `BuildFailed`."""
    pip = importlib.util.find_spec("pip")
    if pip is None or pip.origin is None:
        raise BuildFailed("pip, which installs the libraries, is not installed beside Espalier: install it there")
    # By Debian's Python: pip chooses wheels for, and reads conditions of requirements as, the Python that runs it.
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes")
    debian.run_module(
        "pip", ["download", *options, "-r", str(requirements), "-d", str(folder)], Path(pip.origin).parents[1]
    )
    return sorted(folder.glob("*.whl"))


def unpack(wheel: Path, target: Path) -> Library:
    """Unpack a wheel for import into a folder. Raises `BuildFailed` for an invalid one."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                place = _place(entry.filename)
                if place is not None:
                    file = target / place
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(archive.read(entry))
                    file.chmod(0o644)
            described = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            facts = email.message_from_bytes(archive.read(described))
    except (zipfile.BadZipFile, ValueError, StopIteration) as error:
        raise BuildFailed(f"{wheel.name} is not a wheel that can be unpacked ({error})") from error
    with wheel.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return Library(facts["Name"], facts["Version"], _license(facts), digest)


def _place(name: str) -> Path | None:
    """Path of a wheel's file below the folder; None for an omitted one. Raises `ValueError`."""
    parts = confined.relative(name)
    if name.startswith("/") or name.endswith("/") or name.endswith(LEFT_OUT):
        return None
    if parts[0].endswith(".data"):
        return Path(*parts[2:]) if parts[1] in FOLDED else None
    return Path(*parts)


def _license(facts: Message) -> str:
    """The license in SPDX format, or in the author's words if these are few; empty if there is none."""
    license_ = facts.get("License-Expression") or facts.get("License") or ""
    return license_ if len(license_) <= 80 and "\n" not in license_ else ""


SPECIFICATION = "1.5"


def bill(name: str, version: str, libraries: Sequence[Library], packages: Mapping[str, str], distribution: str) -> str:
    """The bill of an application: libraries of Python, and packages of Debian as dpkg writes them, by name."""
    subject = _component("application", name, version, f"pkg:pypi/{_pypi(name)}@{version}")
    components = [
        *(_library(library) for library in sorted(libraries, key=lambda library: _pypi(library.name))),
        *(_package(text, distribution) for _, text in sorted(packages.items())),
    ]
    content: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": {"component": subject},
        "components": components,
        "dependencies": [{"ref": subject["bom-ref"], "dependsOn": [component["bom-ref"] for component in components]}],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{number}"}, indent=1, sort_keys=True) + "\n"


def _library(library: Library) -> dict[str, Any]:
    component = _component(
        "library", library.name, library.version, f"pkg:pypi/{_pypi(library.name)}@{quote(library.version)}"
    )
    component["hashes"] = [{"alg": "SHA-256", "content": library.sha256}]
    return component | ({"licenses": [{"license": {"name": library.license}}]} if library.license else {})


def _package(text: str, distribution: str) -> dict[str, Any]:
    facts = dict(line.partition(": ")[::2] for line in text.splitlines())
    name, version = facts["Package"], facts["Version"]
    place = f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?arch={facts['Architecture']}&distro={distribution}"
    return _component("library", name, version, place)


def _component(type_: str, name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": type_, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _pypi(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
