"""Every command that a page, a help text or a message tells people to type exists as it is written there."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from espalier.cli.main import program
from tests.support.command_line import shown, understood

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "proposals.md"),
]
LEFT_OUT = ("…", "...", "|", "[")
"""In command lines that leave something out, or show alternatives: only their names are checked."""
PROGRAMS = ("espalier", "pip", "make", "python", "python3")
INLINE = re.compile(rf"`((?:{'|'.join(PROGRAMS)}) [^`\n]+)`")
FENCE = re.compile(r"^```(?:sh|console|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.MULTILINE)
HOLE = "HOLE"
"""A value that a message fills in."""


class Shown(NamedTuple):
    """A command, where it is shown, and if it is a whole line to be typed."""

    place: str
    command: str
    is_line: bool


def lines(place: str, block: str) -> Iterator[Shown]:
    """The command lines of a block of text."""
    for line in block.replace("\\\n", " ").splitlines():
        command = re.split(r"\s+#|\s+\|\s+kubectl|\s+>\s|\s+&&\s|\s+;\s", line.strip().removeprefix("$ "))[0]
        command = re.sub(r'^(sudo )?("\$\(command -v espalier\)"|\S*/bin/espalier)', "espalier", command)
        command = command.removeprefix("sudo ")
        if command.split(" ")[0] in PROGRAMS:
            yield Shown(place, command, not any(sign in command for sign in LEFT_OUT))


def of_pages() -> Iterator[Shown]:
    for page in PAGES:
        text, place = page.read_text(), str(page.relative_to(ROOT))
        for block in [*FENCE.findall(text), *INDENTED.findall(FENCE.sub("", text))]:
            yield from lines(place, block)
        for command in INLINE.findall(FENCE.sub("", text).replace("\\|", "|")):
            yield Shown(place, command, False)


def of_help() -> Iterator[Shown]:
    for context in shown():
        text = context.command.help or ""
        place = f"{context.command_path} --help"
        yield from lines(place, "\n".join(re.findall(r"^ +(espalier .*)$", text, re.MULTILINE)))
        for words in (text, *(getattr(param, "help", None) or "" for param in context.command.params)):
            for command in INLINE.findall(" ".join(words.split())):
                yield Shown(place, command, False)


def of_messages() -> Iterator[Shown]:
    for path in sorted((ROOT / "src/espalier").rglob("*.py")):
        content = path.read_text()
        if not any(f"`{name} " in content for name in PROGRAMS):
            continue
        for node in ast.walk(ast.parse(content)):
            for command in INLINE.findall(text_of(node)):
                yield Shown(str(path.relative_to(ROOT)), command, False)


def text_of(node: ast.AST) -> str:
    """The text of a literal, with a word for each value that is filled in."""
    match node:
        case ast.JoinedStr():
            return "".join(text_of(part) or HOLE for part in node.values)
        case ast.Constant(value=str() as text):
            return text
    return ""


COMMANDS = sorted({*of_pages(), *of_help(), *of_messages()})


def check(command: str, *, is_line: bool) -> None:
    """Fails if the command can't be typed as it is written."""
    name, *words = shlex.split(command)
    match name:
        case "espalier":
            understood(words) if is_line else named(words)
        case "make":
            targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert words[0] in targets
        case "python" | "python3" if words[0] == "-m" and words[1] != "venv":
            assert importlib.util.find_spec(words[1])
        case "pip":
            installed_from_here(words)


def named(words: list[str]) -> None:
    """The commands and flags exist; values are not checked."""
    commands: list[click.Command] = [program]
    context = click.Context(program, info_name="espalier")
    for word in words:
        if word in ("--", "|"):
            return
        groups = [command for command in commands if isinstance(command, click.Group)]
        if word.startswith("-"):
            known = {flag for command in commands for param in command.get_params(context) for flag in flags_of(param)}
            assert word.partition("=")[0] in known or HOLE in word, word
        elif groups and word != HOLE:
            results = [group.get_command(context, name) for group in groups for name in word.split("|")]
            commands = [item for item in results if item is not None]
            assert len(results) == len(commands), word


def flags_of(param: click.Parameter) -> list[str]:
    return [*param.opts, *param.secondary_opts]


def installed_from_here(words: list[str]) -> None:
    """From a folder, a file of ours, or a list of locked packages: an index may have our names from a stranger."""
    if words[0] != "install":
        return
    known = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    targets = [word for word in words[1:] if not word.startswith("-") and not word.endswith(".txt")]
    for target in targets:
        assert target.startswith((".", "dist/")) or re.split(r"[<>=\[]", target)[0] in known, target
        if target.startswith("dist/"):
            assert target.startswith(f"dist/{PROJECT['name'].replace('-', '_')}-")


@pytest.mark.parametrize("place", sorted({command.place for command in COMMANDS}))
def test_commands_shown_here_exist_as_they_are_written(place: str) -> None:
    wrong = []
    for item in COMMANDS:
        if item.place == place:
            try:
                check(item.command, is_line=item.is_line)
            except (AssertionError, click.UsageError, ValueError) as error:
                wrong.append(f"{item.command}: {error}".splitlines()[0])
    assert wrong == []


def test_commands_are_found_wherever_they_are_shown() -> None:
    assert len([command for command in COMMANDS if command.is_line]) > 60
    assert len([command for command in COMMANDS if command.place.startswith("src/")]) > 80


@pytest.mark.parametrize(
    ("command", "is_line"),
    [
        ("espalier clusters", False),
        ("espalier get clusters --nothing", False),
        ("espalier etcd-agent list|burn", False),
        ("espalier etcd-agent list", True),
        ("espalier kubeconfig garden --to file", True),
        ("pip install 'espalier[local]'", True),
        ("make nothing", False),
    ],
)
def test_commands_that_do_not_exist_are_noticed(command: str, *, is_line: bool) -> None:
    with pytest.raises((AssertionError, click.UsageError)):
        check(command, is_line=is_line)
