"""`-o`: each command takes the same formats, or says which of them it can't print, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from espalier.cli.kit import flags
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.printing import formats, output
from tests.support.command_line import shown


def printing() -> Iterator[tuple[str, flags.OutputFormat]]:
    """The commands with `-o FORMAT`; that of others names the file to write."""
    for context in shown():
        for parameter in context.command.params:
            if "-o" not in parameter.opts or re.search("FILE|FOLDER", parameter.make_metavar(context)):
                continue
            assert isinstance(parameter.type, flags.OutputFormat), f"{context.command_path}: use flags.output"
            yield context.command_path, parameter.type


COMMANDS = dict(printing())

FORMATS = ["table", "wide", "name", "json", "yaml", "jsonpath={.metadata.name}", "custom-columns=NAME:.metadata.name"]


def test_many_commands_take_a_format() -> None:
    assert {"espalier get clusters", "espalier seeds list", "espalier status", "espalier plan"} <= set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_takes_every_format_or_says_why_not(path: str) -> None:
    taken = COMMANDS[path]
    for text in FORMATS:
        key = text.partition("=")[0] + ("=" if "=" in text else "")
        if key not in taken.refused:
            assert taken.convert(text, None, None) in (text, "")
            continue
        with pytest.raises(Usage) as refusal:
            taken.convert(text, None, None)
        assert f"found '{text}', but {taken.refused[key]}; allowed are " in str(refusal.value)
    assert {formats.JSON, formats.YAML, formats.JSON_PATH, formats.COLUMNS} & set(taken.refused) == set()


@pytest.mark.parametrize("path", COMMANDS)
def test_a_refusal_names_only_formats_that_are_taken(path: str) -> None:
    taken = COMMANDS[path]
    with pytest.raises(Usage) as refusal:
        taken.convert("foo", None, None)
    allowed = str(refusal.value).partition("allowed are ")[2].replace(" or ", ", ")
    for text in [*filter(None, allowed.replace("TITLE:PATH", "A:.b").split(", "))]:
        assert taken.convert(text.replace("TEMPLATE", "{.a}"), None, None) in (text.replace("TEMPLATE", "{.a}"), "")
    assert len(allowed) > 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jsonpath", "found 'jsonpath', but without TEMPLATE; allowed are table"),
        ("custom-columns", "found 'custom-columns', but without TITLE:PATH; allowed"),
        ("custom-columns=", "found '', allowed is TITLE:PATH"),
        ("custom-columns=NAME", "found 'NAME', allowed is TITLE:PATH such as NAME:.metadata.name"),
        ("custom-columns=A:.a,B:", "found 'B:', allowed is TITLE:PATH"),
        ("custom-columns=A:.a[", "allowed is TITLE:PATH"),
        ("custom-columns=A:.a b", "can't read .a b"),
        ("Name", "found 'Name'; allowed are table, wide, name"),
    ],
)
def test_what_is_wrong_with_a_format_is_said(text: str, message: str) -> None:
    with pytest.raises(Usage) as refusal:
        formats.checked(text, {})
    assert message in str(refusal.value)


TREES = [
    {"metadata": {"name": "garden", "labels": {"a.b/c": "x"}}, "spec": {"count": 3, "ports": [1, 2]}},
    {"metadata": {"name": "orchard"}, "spec": {"on": True}},
]


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        ("Name:.metadata.name,COUNT:.spec.count", ["Name COUNT", "garden 3", "orchard <none>"]),
        ("N:metadata.name,P:{.spec.ports[*]}", ["N P", "garden 1, 2", "orchard <none>"]),
        (r"L:.metadata.labels.a\.b/c,ON:.spec.on", ["L ON", "x <none>", "<none> true"]),
        ("P:.spec.ports[0,1],N:.metadata.name", ["P N", "1, 2 garden", "<none> orchard"]),
    ],
)
def test_custom_columns_are_those_of_kubectl(
    columns: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    output.write_objects([*TREES], f"custom-columns={columns}", single=False)
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == lines


def test_rows_are_printed_by_name_and_by_columns(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"nodes": [{"name": "a", "pid": 7}, {"name": "b", "pid": 8}]}
    output.write_facts(facts, "name", rows="nodes", kind="node")
    output.write_facts(facts, "custom-columns=PID:.pid", rows="nodes", kind="node")
    output.write_facts({"pid": 9}, "custom-columns=PID:.pid")
    assert capsys.readouterr().out.split() == ["node/a", "node/b", "PID", "7", "8", "PID", "9"]
