"""Statements on an image: its bill of materials (SPDX 2.3), and how it was built (in-toto, SLSA provenance 1).

Neither has times or random numbers of its own, so the same image has the same statements. They are not signed.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from espalier.cli.kit import distribution
from espalier.cli.local.images.bases.base_packages import Lock, Package
from espalier.cli.local.images.layout import dump
from espalier.cli.local.images.wheels import Library

SPDX = "application/spdx+json"
IN_TOTO = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
BUILD = "urn:espalier:image-build:1"
"""The way in which images are built: a new number when parameters or dependencies get another meaning."""
DISTRIBUTION = "debian-13"
UNKNOWN = "NOASSERTION"


@dataclass(frozen=True)
class Parts:
    """The parts of an image for one architecture."""

    tag: str
    architecture: str
    program: str
    """Digest of the layer with Espalier itself, before compression."""
    packages: Sequence[Package]
    libraries: Sequence[Library]


def bill(parts: Parts) -> bytes:
    """The bill of materials."""
    subject = _package("espalier", distribution.NAME, distribution.version(), _own_purl(), "") | {
        "primaryPackagePurpose": "APPLICATION"
    }
    libraries = [_library(library) for library in sorted(parts.libraries, key=lambda library: _pypi(library.name))]
    packages = [_debian(package) for package in sorted(parts.packages, key=lambda package: package.name)]
    content: dict[str, Any] = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{parts.tag} ({parts.architecture})",
        "creationInfo": {
            # The day of the packages: SPDX wants a time, and that of the build would make another document each time.
            "created": f"{Lock.read().day}T00:00:00Z",
            "creators": [f"Tool: espalier-{distribution.version()}"],
        },
        "packages": [subject, *libraries, *packages],
        "relationships": [
            _related("SPDXRef-DOCUMENT", "DESCRIBES", subject["SPDXID"]),
            *(_related(subject["SPDXID"], "DEPENDS_ON", part["SPDXID"]) for part in (*libraries, *packages)),
        ],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return dump({**content, "documentNamespace": f"urn:uuid:{number}"})


def provenance(parts: Parts, digest: str) -> bytes:
    """How the image with a digest was built, and of what."""
    inputs = [
        _input(_own_purl(), parts.program.removeprefix("sha256:")),
        *(_input(_library_purl(library), library.sha256) for library in parts.libraries),
        *(_input(_debian_purl(package), package.sha256) for package in parts.packages),
    ]
    return dump(
        {
            "_type": STATEMENT,
            "subject": [{"name": parts.tag, "digest": {"sha256": digest.removeprefix("sha256:")}}],
            "predicateType": PROVENANCE,
            "predicate": {
                "buildDefinition": {
                    "buildType": BUILD,
                    "externalParameters": {"tag": parts.tag, "platform": f"linux/{parts.architecture}"},
                    "resolvedDependencies": inputs,
                },
                "runDetails": {"builder": {"id": BUILD, "version": {distribution.NAME: distribution.version()}}},
            },
        }
    )


def _input(purl: str, sha256: str) -> dict[str, Any]:
    return {"uri": purl, "digest": {"sha256": sha256}}


def _library(library: Library) -> dict[str, Any]:
    purl = _library_purl(library)
    package = _package(f"pypi-{_pypi(library.name)}", library.name, library.version, purl, library.sha256)
    words = {"licenseComments": library.license_words} if library.license_words else {}
    return package | ({"licenseDeclared": library.license} if library.license else {}) | words


def _debian(package: Package) -> dict[str, Any]:
    return _package(f"deb-{package.name}", package.name, package.version, _debian_purl(package), package.sha256)


def _package(identifier: str, name: str, version: str, purl: str, sha256: str) -> dict[str, Any]:
    package = {
        "SPDXID": f"SPDXRef-{re.sub(r'[^A-Za-z0-9.-]', '-', identifier)}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": UNKNOWN,
        "copyrightText": UNKNOWN,
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}],
    }
    return package | ({"checksums": [{"algorithm": "SHA256", "checksumValue": sha256}]} if sha256 else {})


def _related(element: str, how: str, other: str) -> Mapping[str, str]:
    return {"spdxElementId": element, "relationshipType": how, "relatedSpdxElement": other}


def _own_purl() -> str:
    return f"pkg:pypi/{distribution.NAME}@{distribution.version()}"


def _library_purl(library: Library) -> str:
    return f"pkg:pypi/{_pypi(library.name)}@{quote(library.version)}"


def _debian_purl(package: Package) -> str:
    version = quote(package.version, safe="")
    return f"pkg:deb/debian/{quote(package.name)}@{version}?arch={package.architecture}&distro={DISTRIBUTION}"


def _pypi(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
