"""Libraries of an image: unpacked from their wheels for import, and named in its bill of materials."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from espalier.assets.processes import BuildFailed
from espalier.assets.wheels import Library, bill, unpack

METADATA = "Metadata-Version: 2.4\nName: Some.Thing\nVersion: 1.2+local\nLicense-Expression: MIT\n"


def wheel(folder: Path, files: dict[str, str]) -> Path:
    place = folder / "some_thing-1.2-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return place


def test_a_wheel_is_unpacked_for_import_and_nothing_of_it_becomes_a_program(tmp_path: Path) -> None:
    made = wheel(
        tmp_path,
        {
            "some_thing/__init__.py": "",
            "some_thing/native.so": "",
            "some_thing/native.pyx": "",
            "some_thing-1.2.dist-info/METADATA": METADATA,
            "some_thing-1.2.dist-info/RECORD": "",
            "some_thing-1.2.data/purelib/more.py": "",
            "some_thing-1.2.data/scripts/thing": "#!python",
            "some_thing-1.2.data/data/etc/thing": "",
        },
    )
    library = unpack(made, tmp_path / "library")
    files = [path for path in (tmp_path / "library").rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(tmp_path / "library")) for path in files) == [
        "more.py",
        "some_thing-1.2.dist-info/METADATA",
        "some_thing/__init__.py",
        "some_thing/native.so",
    ]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}
    assert library == Library("Some.Thing", "1.2+local", "MIT", hashlib.sha256(made.read_bytes()).hexdigest())


@pytest.mark.parametrize("name", ["../outside.py", "some_thing/../../outside.py", "a.data/purelib/../../../outside.py"])
def test_a_wheel_that_would_write_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    made = wheel(tmp_path, {name: "", "some_thing-1.2.dist-info/METADATA": METADATA})
    with pytest.raises(BuildFailed, match="not a wheel that can be unpacked"):
        unpack(made, tmp_path / "library")
    assert not (tmp_path / "outside.py").exists()


def test_a_file_that_is_no_wheel_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"<html>")
    with pytest.raises(BuildFailed, match=r"a\.whl is not a wheel"):
        unpack(tmp_path / "a.whl", tmp_path / "library")


def test_bill_names_each_part_and_is_reproducible() -> None:
    libraries = [Library("Some.Thing", "1.2+local", "MIT", "ab" * 32), Library("another", "1", "", "cd" * 32)]
    packages = {"libc6": "Package: libc6\nVersion: 1:2.36-9+deb12u10\nArchitecture: amd64\n"}
    text = bill("espalier", "0.1.0", libraries, packages, "debian-12")
    assert text == bill("espalier", "0.1.0", libraries[::-1], packages, "debian-12")
    bill_ = json.loads(text)
    assert (bill_["bomFormat"], bill_["specVersion"]) == ("CycloneDX", "1.5")
    assert [component["purl"] for component in bill_["components"]] == [
        "pkg:pypi/another@1",
        "pkg:pypi/some-thing@1.2%2Blocal",
        "pkg:deb/debian/libc6@1%3A2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12",
    ]
    assert bill_["components"][1]["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert bill_["components"][1]["licenses"] == [{"license": {"name": "MIT"}}]
    assert bill_["dependencies"][0]["dependsOn"] == [component["bom-ref"] for component in bill_["components"]]
