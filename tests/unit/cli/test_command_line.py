"""The command line: what is understood, what is refused and how, what help shows, what shells complete."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from espalier.api.eksa.upgrades import FrontEnd
from espalier.cli.kit.commands import OF_EKSCTL
from espalier.cli.kit.shown_commands import EXAMPLE
from espalier.cli.local.up import Nodes
from espalier.cli.main import program, run
from espalier.clusters import Isolation
from tests.support.command_line import shown, understood

UNDERSTOOD: list[tuple[str, dict[str, Any]]] = [
    ("plan -f -", {"filename": ("-",), "manager": False, "isolation": Isolation.LAYERS, "output_format": ""}),
    ("plan --filename=a.yaml -f b.yaml -fc.yaml", {"filename": ("a.yaml", "b.yaml", "c.yaml")}),
    ("plan -A --isolation gate --manager", {"all_namespaces": True, "isolation": Isolation.GATE, "manager": True}),
    ("plan --isolation Off --eksa-version=", {"isolation": Isolation.OFF, "eksa_version": ""}),
    ("plan --kubeconfig k --context c -n team", {"kubeconfig": Path("k"), "context": "c", "namespace": "team"}),
    ("get clusters", {"name": None, "all_namespaces": False, "watch": False, "selector": ""}),
    ("get cluster garden -n=team", {"name": "garden", "namespace": "team"}),
    ("get clusters -Awo wide", {"all_namespaces": True, "watch": True, "output_format": "wide"}),
    ("get clusters --watch=false", {"watch": False}),
    ("version -o=json", {"output_format": "json"}),
    ("version -ojsonpath={.a=b}", {"output_format": "jsonpath={.a=b}"}),
    ("create cluster -f a.yaml", {"wait": True, "timeout": "1h", "dry_run": "none"}),
    ("create cluster -f a.yaml --no-wait --dry-run=server", {"wait": False, "dry_run": "server"}),
    ("create cluster --dry-run -f a.yaml", {"filename": ("a.yaml",), "dry_run": "server"}),
    ("renew certificates garden --dry-run", {"name": "garden", "dry_run": "server"}),
    ("renew certificates garden --dry-run none", {"name": "garden", "dry_run": "none"}),
    ("delete cluster garden --timeout -5m", {"name": "garden", "filename": (), "timeout": "-5m"}),
    ("up", {"port": 0, "nodes": Nodes.SIMULATED, "api_server": None, "boot_seconds": 0.2, "releases": None}),
    ("up -d --port 8443 --nodes real --ready-descriptor 3", {"detach": True, "port": 8443, "nodes": Nodes.REAL}),
    ("demo --boot-seconds 1", {"filename": EXAMPLE.resolve(), "boot_seconds": 1.0}),
    ("manager", {"leader_elect": True, "in_place": FrontEnd.ANNOTATIONS, "controllers": "*", "namespace": ()}),
    ("manager --leader-elect=false --copy-kubeconfig=true", {"leader_elect": False, "copy_kubeconfig": True}),
    ("manager --no-leader-elect --in-place hooks", {"leader_elect": False, "in_place": FrontEnd.HOOKS}),
    ("manager -n a,b --namespace c --controllers -node", {"namespace": ("a,b", "c"), "controllers": "-node"}),
    ("assets build etcd nodes --dry-run", {"what": ("etcd", "nodes"), "dry_run": True}),
    ("nodes shell garden", {"name": "garden", "command": ()}),
    ("nodes shell garden ls -lh", {"command": ("ls", "-lh")}),
    ("nodes shell garden -- ls --help -o=json", {"command": ("ls", "--help", "-o=json")}),
    ("kubeconfig -- -odd", {"name": "-odd"}),
]


@pytest.mark.parametrize(("line", "expected"), UNDERSTOOD, ids=[line for line, _ in UNDERSTOOD])
def test_a_command_line_is_understood(line: str, expected: dict[str, Any]) -> None:
    flags = understood(shlex.split(line))
    assert {name: flags[name] for name in expected} == expected


REFUSED = [
    ("describe bed", "unknown command 'bed'; allowed: cluster; see `espalier describe --help`"),
    ("plann", "unknown command 'plann'; did you mean plan? see `espalier --help`"),
    ("get shoots -A", "unknown command 'shoots'; did you mean `espalier shoots list`? see `espalier get --help`"),
    ("get seed", "unknown command 'seed'; did you mean `espalier seeds list`? see `espalier get --help`"),
    (
        "describe shoot a",
        "unknown command 'shoot'; did you mean `espalier shoots describe`? see `espalier describe --help`",
    ),
    ("get clutsers", "unknown command 'clutsers'; did you mean clusters? see `espalier get --help`"),
    ("--quiet", "unknown flag --quiet; see `espalier --help`"),
    ("plan --nmaespace a", "unknown flag --nmaespace; did you mean --namespace? see `espalier plan --help`"),
    ("plan --no-manager", "unknown flag --no-manager; did you mean --manager? see `espalier plan --help`"),
    ("plan -x", "unknown flag -x; see `espalier plan --help`"),
    (
        "create cluster -f a --hardware-csv b",
        "unknown flag --hardware-csv: `espalier generate hardware -z FILE | kubectl apply -f -` before it does that; "
        "see `espalier create cluster --help`",
    ),
    (
        "upgrade cluster -f a -v9",
        "unknown flag -v: `espalier describe cluster NAME --watch` shows what is done; see `espalier upgrade cluster "
        "--help`",
    ),
    (
        "move garden",
        "got unexpected extra argument (garden); allowed is `espalier move [OPTIONS]`, with --cluster for a name; see "
        "`espalier move --help`",
    ),
    (
        "version -o",
        "-o: found no value, allowed is FORMAT: table, wide, json, yaml, jsonpath=TEMPLATE or "
        "custom-columns=TITLE:PATH; see `espalier version --help`",
    ),
    (
        "plan --manager=maybe",
        "--manager: found a value, allowed is --manager without one; see `espalier plan --help`",
    ),
    (
        "manager --no-leader-elect=true",
        "--no-leader-elect: found a value, allowed is --leader-elect or --no-leader-elect without one; "
        "see `espalier manager --help`",
    ),
    (
        "create cluster",
        "--filename must be given: Manifest file, or a folder of them; - for standard input. Repeatable; "
        "see `espalier create cluster --help`",
    ),
    ("kubeconfig", "NAME must be given: the name of a cluster, or --shoot NAME; see `espalier kubeconfig --help`"),
    (
        "plan --isolation none",
        "--isolation: found 'none', allowed are layers, gate, off; see `espalier plan --help`",
    ),
    (
        "image build lower",
        "NAME: found 'lower', allowed are manager, seed, upgrader; see `espalier image build --help`",
    ),
    (
        "up --port 70000",
        "--port: found '70000', allowed is a whole number from 0 to 65535; see `espalier up --help`",
    ),
    (
        "up --port 1.5",
        "--port: found '1.5', allowed is a whole number from 0 to 65535; see `espalier up --help`",
    ),
    (
        "demo --boot-seconds nan",
        "--boot-seconds: found 'nan', allowed is a number from 0 to 86400; see `espalier demo --help`",
    ),
    (
        "get clusters a b",
        "got unexpected extra argument (b); allowed is `espalier get clusters [OPTIONS] [NAME]`; "
        "see `espalier get clusters --help`",
    ),
    (
        "get --",
        "missing command; allowed is `espalier get [OPTIONS] COMMAND [ARGS]...`; see `espalier get --help`",
    ),
    ("create cluster -f a --timeout soon", "--timeout: found 'soon', allowed is a duration such as 90s, 5m or 1h30m"),
]


@pytest.mark.parametrize(("line", "sentence"), REFUSED, ids=[line for line, _ in REFUSED])
def test_a_wrong_command_line_is_reported_in_one_line(
    line: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split(line)) == 2
    result = capsys.readouterr()
    assert (result.out, result.err) == ("", f"error: {sentence}\n")


@pytest.mark.parametrize(
    "line", ["", "create", "-h", "--help", "get -h", "get clusters --help", "nodes shell a --help"]
)
def test_help_is_shown_on_request_or_without_arguments(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(line)) == 0
    result = capsys.readouterr()
    assert result.out.startswith(f"Usage: espalier {line.rpartition('-h')[0].rstrip(' -').removesuffix(' a')}".rstrip())
    assert "Exit codes: 0 " in result.out
    assert result.err == ""


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", capsys.readouterr().out)


def pages() -> list[tuple[click.Context, str]]:
    return [(context, context.get_help()) for context in shown()]


def test_help_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for context, page in pages():
        assert max(map(len, page.splitlines())) <= 80, context.command_path
        assert page.startswith(f"Usage: {context.command_path} ")


def test_every_command_has_example_that_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands = [(context, page) for context, page in pages() if not isinstance(context.command, click.Group)]
    assert len(commands) > 20
    for context, page in commands:
        (examples,) = re.findall(r"^  Examples?:\n((?:    .*\n)+)", page, flags=re.MULTILINE)
        for line in examples.splitlines():
            match = re.search(r"(espalier [^|>)]*)", line)
            assert match is not None, line
            assert match[1].startswith(context.command_path)
            understood(shlex.split(match[1])[1:])


def test_every_flag_and_argument_says_what_it_is_for() -> None:
    for context in shown():
        for parameter in context.command.params:
            hidden = isinstance(parameter, click.Option) and parameter.hidden
            assert hidden or parameter.help, (context.command_path, parameter.name)


@pytest.mark.soak
def test_a_reader_that_left_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    for line in (["--help"], ["version"], ["manifests", "--image", "a"]):
        done = subprocess.run(
            [sys.executable, "-m", "espalier.cli", *line], stdout=write, stderr=subprocess.PIPE, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
    os.close(write)


@pytest.mark.parametrize(("shell", "word"), [("bash", "2"), ("zsh", "2"), ("fish", "sh")])
def test_completion_knows_the_commands_of_the_program(
    shell: str, word: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["completion", shell]) == 0
    assert f"_ESPALIER_COMPLETE={shell}_complete" in capsys.readouterr().out
    monkeypatch.setenv("_ESPALIER_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "espalier nodes sh")
    monkeypatch.setenv("COMP_CWORD", word)
    assert run([]) == 0
    result = capsys.readouterr().out
    assert "shell" in result
    assert "crash" not in result


COMPLETED = [
    ("espalier pl", "plan"),
    ("espalier up", "up upgrade upgrades"),
    ("espalier releases ''", "import list show"),
    ("espalier plan --isolation ''", "layers gate off"),
    ("espalier plan --eksa", "--eksa-version"),
    ("espalier nodes shell a --", "--help"),
]


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_flags_and_values(tmp_path: Path) -> None:
    program = tmp_path / "espalier"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m espalier.cli "$@"\n')
    program.chmod(0o755)
    script = "source <(espalier completion bash)\ncomplete -p espalier\n" + "".join(
        f"COMP_WORDS=({line}) COMPREPLY=(); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_espalier_completion espalier; echo "${COMPREPLY[*]}"\n'
        for line, _ in COMPLETED
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    completed = subprocess.run(["bash", "-euc", script], env=environment, capture_output=True, text=True, check=True)
    assert completed.stdout.splitlines() == [
        "complete -o nosort -F _espalier_completion espalier",
        *(completed for _, completed in COMPLETED),
    ]


CONTINUES = "; operations that were started continue in the background"


@pytest.mark.parametrize(
    ("line", "then"),
    [
        ("create cluster -f a.yaml", CONTINUES),
        ("upgrade cluster -f a.yaml", CONTINUES),
        ("delete cluster garden", CONTINUES),
        ("shoots migrate apple --to west", CONTINUES),
        ("seeds evacuate east", CONTINUES),
        ("download images -o a", "; the folder keeps what is there: give the same command again, and it goes on"),
        ("import images -i a", "; the registry keeps what is there: give the same command again, and it goes on"),
        (
            "move garden --to-kubeconfig a",
            "; give the same command again, and it goes on; `espalier move --help` says what else can be done",
        ),
        ("demo", ""),
        ("demo migration", ""),
        ("get clusters -w", ""),
        ("shoots list", ""),
        ("validate -f a.yaml", ""),
    ],
)
def test_an_interrupt_names_what_continues(
    line: str, then: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_context: click.Context) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "invoke", interrupted)
    assert run(line.split()) == 130
    assert capsys.readouterr().err == f"error: interrupted{then}\n"


def test_flags_of_eksctl_are_on_their_page() -> None:
    page = (
        (Path(__file__).parents[3] / "docs/eks-anywhere.md").read_text().partition("## Flags")[2].partition("\n## ")[0]
    )
    assert set(re.findall(r"`(-[-a-z]+)`", page)) == set(OF_EKSCTL)
    root: Any = program
    for verb in ("create", "upgrade", "delete"):
        group = root.get_command(click.Context(root), verb)
        assert isinstance(group, click.Group)
        ours = {spelling for option in group.commands["cluster"].params for spelling in option.opts}
        assert not ours & OF_EKSCTL.keys(), verb
