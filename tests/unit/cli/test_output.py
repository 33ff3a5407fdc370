from __future__ import annotations

import io
import json
import sys

import pytest
import yaml
from rich.console import Console

from espalier.cli.kit.failures import Usage
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import Table
from espalier.cli.kit.printing.progress import Progress

CLUSTER = {
    "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
    "kind": "Cluster",
    "metadata": {"name": "garden", "managedFields": [{"manager": "kubectl"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "WorkersReady", "status": "False"}]},
}


def test_named_object_is_printed_alone_several_as_list(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_objects([CLUSTER], "json", single=True)
    assert json.loads(capsys.readouterr().out)["metadata"] == {"name": "garden"}
    output.write_objects([CLUSTER], "yaml", single=False)
    assert yaml.safe_load(capsys.readouterr().out)["items"][0]["kind"] == "Cluster"


def test_names_are_those_of_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_objects(
        [CLUSTER, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}], "name", single=False
    )
    assert capsys.readouterr().out == "cluster.anywhere.eks.amazonaws.com/garden\nnode/a\n"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.metadata.name}", "garden"),
        ('ready={.status.conditions[?(@.type=="Ready")].status}{"\\n"}', "ready=True\n"),
        ("{.status.conditions[*].type}", "Ready WorkersReady"),
        ("{.status.nothing}", ""),
        ("{.metadata}", '{"name":"garden"}'),
        ("{['kind', 'apiVersion']}", "Cluster anywhere.eks.amazonaws.com/v1alpha1"),
        ("{.status.conditions[0,1].type}", "Ready WorkersReady"),
        ("{.status.conditions[0:2:2].type}", "Ready"),
        ("{.status.conditions[?(@.status != 'True')].type}", "WorkersReady"),
        ("{kind}", "Cluster"),
    ],
)
def test_jsonpath_templates(template: str, expected: str) -> None:
    tree = {**CLUSTER, "metadata": {"name": "garden"}}
    assert output.json_path(tree, template) == expected


def test_an_unreadable_template_is_a_usage_error() -> None:
    with pytest.raises(Usage, match="can't read"):
        output.json_path(CLUSTER, "{.metadata[}")


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("{.items[*", "{.items[*:"),
        ("names: {.metadata.name} {.kind", "{.kind:"),
        ('{"}', '{"}:'),
        ("{range .items[*]}{.kind}", "{range .items[*]}: found no {end}"),
        ("{.kind}{end}", "{end}: found no {range}"),
        ('{"\\q"}', '{"\\q"}: found no text'),
    ],
)
def test_unfinished_jsonpath_is_refused_and_named(template: str, named: str) -> None:
    with pytest.raises(Usage) as refused:
        output.json_path({"items": []}, template)
    assert f"-o jsonpath: can't read {named}" in str(refused.value)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{range .items[*]}{.name}:{range .n[*]}{@}{','}{end}\\n{end}.", "a:1,2,\nb:3,\n."),
        ("{range .none[*]}{.name}{end}.", "."),
        ("{'\\n'}{\"}\"}", "\n}"),
        ("x}", "x}"),
    ],
)
def test_jsonpath_goes_through_lists_as_kubectl_does(template: str, expected: str) -> None:
    tree = {"items": [{"name": "a", "n": [1, 2]}, {"name": "b", "n": [3]}]}
    assert output.json_path(tree, template) == expected


def test_piped_tables_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_table(Table(("Name", "Message"), sentences=(1,)), [("garden", "x" * 300), ("b", "")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "MESSAGE"]
    assert lines[1].endswith("x" * 300)
    assert lines[2].split() == ["b", "-"]
    assert all(line == line.rstrip() for line in lines)


def test_yaml_has_no_anchors() -> None:
    """Tools that edit one place of a manifest would change or lose the other."""
    shared = {"app": "web"}
    assert output.to_yaml({"a": shared, "b": [shared, shared]}) == "a:\n  app: web\nb:\n- app: web\n- app: web\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error of 60 columns. No fixture: pytest has another standard error while it makes these."""
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    return out


SENTENCE = (
    "spec.users[0].sshAuthorizedKeys: found no key, so nobody can log in to machines; set the line of a .pub file"
)


def test_an_error_is_wrapped_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    output.error(f"{SENTENCE}\nerror: {SENTENCE}")
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert len(lines) == 4
    assert " ".join(line.strip() for line in lines) == f"error: {SENTENCE} error: {SENTENCE}"
    assert [line[:2] == "  " for line in lines] == [False, True, False, True]


def test_a_command_to_copy_stays_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    output.error("there are no nodes for this cluster any more, so use `espalier delete cluster garden` instead")
    assert "`espalier delete cluster garden`" in terminal.getvalue()
    assert max(map(len, terminal.getvalue().splitlines())) <= 60


def test_an_indented_line_continues_below_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    output.say_wrapped(f"  not checked: {SENTENCE}", stderr=True)
    first, *rest = terminal.getvalue().splitlines()
    assert first.startswith("  not checked")
    assert rest
    assert all(line.startswith("    ") for line in rest)
    assert max(map(len, (first, *rest))) <= 60


def test_in_a_pipe_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.error(SENTENCE)
    assert capsys.readouterr().err == f"error: {SENTENCE}\n"


def test_progress_with_a_command_is_wrapped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    console = Console(file=terminal, width=60, force_terminal=True, color_system=None, highlight=False)
    told = (
        "the cluster is paused, and nothing is done until a person says so: `espalier upgrade cluster garden` ends it"
    )
    Progress(console).say(told)
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines) == f"✓ {told}"
    assert "`espalier upgrade cluster garden`" in terminal.getvalue()
    assert all(line.startswith("  ") for line in lines[1:])


def test_alternating_progress_is_printed_once() -> None:
    """Until something else is printed: conditions go there and back."""
    out = io.StringIO()
    progress = Progress(Console(file=out, soft_wrap=True))
    for text in ("replaced: 0 of 2", "1 of 2 is ready", "replaced: 0 of 2", "1 of 2 is ready", "replaced: 1 of 2"):
        progress.wait(text)
    progress.say("the first is done")
    progress.wait("replaced: 0 of 2")
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines == ["replaced: 0 of 2", "1 of 2 is ready", "replaced: 1 of 2", "✓ the first is done", lines[0]]


@pytest.mark.parametrize("template", ["{.items[0]}", "{range .items[*]}{.name}{end}", "{$.items}"])
def test_unknown_field_of_facts_is_named(template: str) -> None:
    with pytest.raises(Usage, match=r"-o jsonpath: found \.items, allowed are the fields \.images, \.release"):
        output.write_facts({"images": [], "release": "v1"}, f"jsonpath={template}", rows="images")


def test_empty_field_of_facts_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_facts({"images": []}, "jsonpath={.images[*].name}", rows="images")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("aside", ["", "3 minutes"])
def test_progress_continues_below_its_text(aside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    console = Console(file=terminal, width=60, force_terminal=True, color_system=None, highlight=False)
    told = "machine garden-md-0-a is ready, " * 4
    Progress(console).say(told.strip(), aside=aside)
    first, *rest = terminal.getvalue().splitlines()
    assert first.startswith("✓ machine")
    assert rest
    assert all(line.startswith("  ") and line[2] != " " for line in rest)
    assert max(map(len, (first, *rest))) <= 60


@pytest.mark.parametrize("aside", ["3 minutes", "2.4 s, API gap 1.1 s"])
def test_aside_of_progress_fits_its_terminal(aside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever room the last line of the text leaves."""
    for columns in (40, 60, 80):
        terminal = terminal_of(monkeypatch)
        console = Console(file=terminal, width=columns, force_terminal=True, color_system=None, highlight=False)
        for length in range(1, 2 * columns):
            Progress(console).say(("ready, " * columns)[:length].strip(), aside=aside)
        lines = terminal.getvalue().splitlines()
        assert sum(f"({aside})" in line for line in lines) == 2 * columns - 1
        assert max(map(len, lines)) <= columns
