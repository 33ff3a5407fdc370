"""Libraries of an image: unpacked from their wheels for import."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from espalier.assets.interpreter import Interpreter
from espalier.assets.processes import BuildFailed
from espalier.cli.local.images.architectures import own
from espalier.cli.local.images.wheels import Library, download, unpack

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


PIP = """\
import sys
print("Looking in links: /opt")
print("Ignoring other: markers 'python_version < \\"3\\"' don't match your environment")
print("Collecting some-thing==1.2 (from -r lock (line 1))")
print("  Downloading some_thing-1.2-py3-none-any.whl")
print("Collecting more==1")
if CODE:
    print("ERROR: no such version", file=sys.stderr)
    print("  of more", file=sys.stderr)
raise SystemExit(CODE)
"""


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """This machine's Python, behind a loader that takes the words of Debian's, with a pip of ours."""
    loader = tmp_path / "loader"
    loader.write_text(f'#!/bin/sh\nunset PYTHONHOME\nshift 3\nexec {sys.executable} "$@"\n')
    loader.chmod(0o755)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    (tmp_path / "lock").write_text(
        "some-thing==1.2 \\\n    --hash=sha256:0\nmore==1\nother==1 ; python_version < '3'\n"
    )
    (tmp_path / "site" / "pip").mkdir(parents=True)
    (tmp_path / "site" / "pip" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "pip", raising=False)
    return Interpreter(tmp_path, "loader", "lib", "usr/bin/python3.13", "the image's base")


def with_pip(folder: Path, code: int) -> None:
    (folder / "site" / "pip" / "__main__.py").write_text(f"CODE = {code}\n{PIP}")


def test_libraries_are_counted(interpreter: Interpreter, tmp_path: Path) -> None:
    with_pip(tmp_path, 0)
    shown: list[str] = []
    machine = own()
    assert download(interpreter, machine, tmp_path / "lock", tmp_path / "wheels", show=shown.append) == []
    name = machine.name
    assert shown == [f"download some-thing for {name} (1 of 2)", f"download more for {name} (2 of 2)"]


def test_reason_of_pip_is_told_without_its_progress(interpreter: Interpreter, tmp_path: Path) -> None:
    with_pip(tmp_path, 1)
    with pytest.raises(BuildFailed) as failure:
        download(interpreter, own(), tmp_path / "lock", tmp_path / "wheels", show=lambda _text: None)
    assert str(failure.value).endswith(": pip download failed (exit code 1):\n  ERROR: no such version\n    of more")
