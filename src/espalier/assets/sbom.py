"""Bill of materials of an image in CycloneDX's JSON, for scanners. Pure: same content, same text."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from espalier.assets.wheels import Library

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
        "dependencies": [{"ref": subject["bom-ref"], "dependsOn": [one["bom-ref"] for one in components]}],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{number}"}, indent=1, sort_keys=True) + "\n"


def _library(library: Library) -> dict[str, Any]:
    found = _component(
        "library", library.name, library.version, f"pkg:pypi/{_pypi(library.name)}@{quote(library.version)}"
    )
    found["hashes"] = [{"alg": "SHA-256", "content": library.sha256}]
    return found | ({"licenses": [{"license": {"name": library.license}}]} if library.license else {})


def _package(text: str, distribution: str) -> dict[str, Any]:
    facts = dict(line.partition(": ")[::2] for line in text.splitlines())
    name, version = facts["Package"], facts["Version"]
    place = f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?arch={facts['Architecture']}&distro={distribution}"
    return _component("library", name, version, place)


def _component(type_: str, name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": type_, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _pypi(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
