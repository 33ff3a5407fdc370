"""Printed commands can be copied: names of programs and files as a shell finds them, and no line is broken."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest
from rich.console import Console

import espalier
from espalier.cli.kit import shown_commands
from espalier.cli.kit.printing.progress import Progress


@pytest.fixture
def program(tmp_path: Path) -> Path:
    executable = tmp_path / "a folder" / "bin" / "espalier"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    return executable


def test_a_program_on_the_path_is_called_by_its_name(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(program.parent))
    assert shown_commands.program() == "espalier"


def test_another_program_of_name_on_path_is_not_called(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "espalier"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(other.parent))
    assert shlex.split(shown_commands.program()) == [str(program)]
    monkeypatch.chdir(tmp_path)
    assert shlex.split(shown_commands.program()) == ["a folder/bin/espalier"]


def test_a_module_is_called_by_its_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/somewhere/espalier/cli/__main__.py"])
    assert shlex.split(shown_commands.program()) == [sys.executable, "-m", "espalier.cli"]


def test_the_example_is_found_from_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (file,) = shlex.split(shown_commands.example())
    assert Path(file).read_text().startswith("# A cluster")


@pytest.mark.parametrize("width", [20, 80, 120])
def test_a_command_is_one_line_on_every_terminal(width: int) -> None:
    command = "kubectl --kubeconfig '/a [folder]/with a long name/garden.kubeconfig' get nodes --all-namespaces -o wide"
    sentence = f"the shoot moves to another seed; `{command}` shows its nodes, which takes a while"
    written = io.StringIO()
    progress = Progress(Console(file=written, force_terminal=True, width=width, color_system=None))
    progress.show("", command)
    progress.say(sentence)
    first, shown, *lines = written.getvalue().splitlines()
    assert (first, shown) == ("", f"  {command}")
    assert sum(command in line for line in lines) == 1
    assert " ".join(line.strip() for line in lines) == f"✓ {sentence}"
    assert [line for line in lines if len(line) > width and command not in line] == []


COMMAND = re.compile(r"(?<!`)\b(?:run|use|with|by|and|or) espalier [a-z]+ [a-z]+")


def test_commands_in_messages_have_backticks() -> None:
    """They begin and end somewhere for readers. In docstrings, examples have lines of their own."""
    sources = Path(espalier.__file__).parent.rglob("*.py")
    commands = [f"{source.name}: {text}" for source in sources for text in COMMAND.findall(source.read_text())]
    assert commands == []
