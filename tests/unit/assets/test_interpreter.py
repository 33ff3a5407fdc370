"""A Python that is started from where it lies."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from espalier.assets.interpreter import Interpreter
from espalier.assets.processes import BuildFailed


@pytest.fixture
def interpreter(tmp_path: Path) -> Interpreter:
    """This machine's Python, behind a loader that takes the words of Debian's."""
    loader = tmp_path / "loader"
    loader.write_text(f'#!/bin/sh\nunset PYTHONHOME\nshift 3\nexec {sys.executable} "$@"\n')
    loader.chmod(loader.stat().st_mode | stat.S_IXUSR)
    return Interpreter(tmp_path, "loader", "lib", "usr/bin/python3.13", "the image's base")


def test_failure_has_the_reason_and_not_the_program(interpreter: Interpreter) -> None:
    with pytest.raises(BuildFailed) as failure:
        interpreter.run("import sys; sys.exit('a reason')", "--platform=" * 1000)
    assert str(failure.value) == "Python of the image's base: python3.13: exit code 1:\n  a reason"


def test_failed_module_is_named(interpreter: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("import sys\nsys.exit('no network')\n")
    with pytest.raises(BuildFailed, match=r": tool download failed \(exit code 1\):\n  no network$"):
        interpreter.run_module("tool", ["download", "-r", "lock"], tmp_path, on_line=bool)


def test_modules_are_compiled_to_the_same_bytes(interpreter: Interpreter, tmp_path: Path) -> None:
    compiled = []
    for name in ("first", "second"):
        source = tmp_path / name / "module.py"
        source.parent.mkdir()
        source.write_text("def one(): return {'a', 'b', 'c'}\n")
        made = interpreter.compile({"usr/lib/module.pyc": source}, tmp_path / f"{name}-made")
        compiled.append(made["usr/lib/module.pyc"].read_bytes())
    assert compiled[0] == compiled[1]
    assert str(tmp_path).encode() not in compiled[0]
    assert interpreter.tag == "cpython-313"


def test_modules_beside_sources_name_their_place(interpreter: Interpreter, tmp_path: Path) -> None:
    source = tmp_path / "staged.py"
    source.write_text("x = 1\n")
    ((path, file),) = interpreter.compile_beside({"usr/lib/package/module.py": source}, tmp_path / "made").items()
    assert path == "usr/lib/package/__pycache__/module.cpython-313.pyc"
    assert b"/usr/lib/package/module.py" in file.read_bytes()
