"""Commands print through `cli/kit/printing/output.py`, which sees to it that nobody else's text steers a terminal."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from espalier import cli

FOLDER = Path(cli.__file__).parent
STREAMS = ("stdout", "stderr")


def direct(source: str) -> Iterator[int]:
    """The lines that write to a stream of the process themselves."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name("print") | ast.Attribute(ast.Name("click"), "echo" | "secho"):
                yield node.lineno
            case ast.Attribute(ast.Attribute(ast.Name("sys"), stream), "write") if stream in STREAMS:
                yield node.lineno


def test_no_command_writes_to_a_stream_by_itself() -> None:
    files = [file for file in sorted(FOLDER.glob("*.py")) if file.name != "output.py"]
    assert [f"{file.name}:{line}" for file in files for line in direct(file.read_text())] == []


@pytest.mark.parametrize("call", ["print(x)", "sys.stderr.write(x)", "click.echo(x)"])
def test_each_way_to_do_so_is_seen(call: str) -> None:
    assert list(direct(call)) == [1]
