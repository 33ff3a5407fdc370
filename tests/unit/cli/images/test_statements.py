"""Statements on images: bills of materials and provenance."""

from __future__ import annotations

import json

from espalier.cli.local.images.bases.base_packages import Package
from espalier.cli.local.images.statements import Parts, bill, provenance
from espalier.cli.local.images.wheels import Library

LIBRARIES = [
    Library("Some.Thing", "1.2+local", "MIT", "", "ab" * 32),
    Library("another", "1", "", "BSD, more or less", "cd" * 32),
]
PACKAGES = [Package("arm64", "libstdc++6", "1:2.36-9+deb12u10", "ef" * 32, 1, "pool/libc6.deb")]
DIGEST = f"sha256:{'12' * 32}"


def parts(libraries: list[Library] = LIBRARIES) -> Parts:
    return Parts("registry.example/espalier:v1", "arm64", f"sha256:{'34' * 32}", PACKAGES, libraries)


def test_bill_names_each_part_with_hash_and_license() -> None:
    tree = json.loads(bill(parts()))
    assert tree["spdxVersion"] == "SPDX-2.3"
    own, *listed = tree["packages"]
    assert own["primaryPackagePurpose"] == "APPLICATION"
    assert [package["externalRefs"][0]["referenceLocator"] for package in listed] == [
        "pkg:pypi/another@1",
        "pkg:pypi/some-thing@1.2%2Blocal",
        "pkg:deb/debian/libstdc%2B%2B6@1%3A2.36-9%2Bdeb12u10?arch=arm64&distro=debian-13",
    ]
    assert [package["licenseDeclared"] for package in listed] == ["NOASSERTION", "MIT", "NOASSERTION"]
    assert listed[0]["licenseComments"] == "BSD, more or less"
    assert [package["checksums"][0]["checksumValue"][:2] for package in listed] == ["cd", "ab", "ef"]
    identifiers = [package["SPDXID"] for package in tree["packages"]]
    assert len(set(identifiers)) == len(identifiers)
    related = {
        (relationship["spdxElementId"], relationship["relatedSpdxElement"]) for relationship in tree["relationships"]
    }
    assert related == {("SPDXRef-DOCUMENT", own["SPDXID"]), *((own["SPDXID"], name) for name in identifiers[1:])}


def test_bill_is_the_same_for_the_same_parts() -> None:
    assert bill(parts()) == bill(parts(LIBRARIES[::-1]))
    assert bill(parts()) != bill(parts(LIBRARIES[:1]))


def test_provenance_names_the_image_and_its_inputs() -> None:
    tree = json.loads(provenance(parts(), DIGEST))
    assert tree["subject"] == [{"name": "registry.example/espalier:v1", "digest": {"sha256": "12" * 32}}]
    definition = tree["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["platform"] == "linux/arm64"
    assert [dependency["digest"]["sha256"][:2] for dependency in definition["resolvedDependencies"]] == [
        "34",
        "ab",
        "cd",
        "ef",
    ]
