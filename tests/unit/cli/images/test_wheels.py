"""Libraries of an image: unpacked from their wheels for import."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from espalier.assets.processes import BuildFailed
from espalier.cli.local.images.wheels import Library, unpack

METADATA = "Metadata-Version: 2.4\nName: Some.Thing\nVersion: 1.2+local\nLicense-Expression: MIT\n"


def wheel(folder: Path, files: dict[str, str]) -> Path:
    place = folder / "some_thing-1.2-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return place


def test_wheel_is_unpacked_without_its_programs(tmp_path: Path) -> None:
    made = wheel(
        tmp_path,
        {
            "some_thing/__init__.py": "",
            "some_thing/native.so": "",
            "some_thing/native.pyx": "",
            "some_thing/tests/test_it.py": "",
            "botocore/data/ec2/service-2.json.gz": "",
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
    assert library == Library("Some.Thing", "1.2+local", "MIT", "", hashlib.sha256(made.read_bytes()).hexdigest())


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
