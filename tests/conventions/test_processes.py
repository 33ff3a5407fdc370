"""Which packages a process loads: the manager of production carries nothing of the local environment."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from espalier.cli.kit.command_index import COMMANDS
from espalier.cli.main import program

LOCAL = {"espalier.simulator", "espalier.realnodes", "espalier.assets", "espalier.apiserver"}
"""Packages of the local environment."""

MODULES = {listed.module for listed in COMMANDS.values()}


def loaded(module: str) -> set[str]:
    program = f"import sys, {module}; print(*sorted(name for name in sys.modules if name.startswith('espalier')))"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


def test_manager_loads_no_part_of_local_environments() -> None:
    packages = {".".join(name.split(".")[:2]) for name in loaded("espalier.cli.programs.manager")}
    assert "espalier.clusters" in packages
    assert not packages & LOCAL


LOCAL_COMMANDS = {"local.up", "local.demo", "local.assets", "local.images.image", "local.nodes"}
"""Rooms of commands that are about the local environment, or build with its recipes."""


def test_no_other_command_loads_the_local_environment() -> None:
    rooms = [f"espalier.cli.{module}" for module in MODULES if module not in LOCAL_COMMANDS]
    modules = loaded(", ".join(rooms))
    assert set(rooms) <= modules
    assert not {name for name in modules if name.startswith(tuple(LOCAL))}


def test_a_command_loads_no_other_commands() -> None:
    modules = loaded("espalier.cli.main; espalier.cli.main.run(['plan', '--help'])")
    assert {f"espalier.cli.{module}" for module in MODULES} & modules == {"espalier.cli.clusters.plans.plan"}


def test_to_complete_a_command_loads_no_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ESPALIER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "espalier get clusters --all")
    monkeypatch.setenv("COMP_CWORD", "3")
    modules = loaded("espalier.cli.main; espalier.cli.main.run([])")
    assert "plain,--all-namespaces" in modules
    assert {f"espalier.cli.{module}" for module in MODULES} & modules == {"espalier.cli.clusters.reports.get"}


def test_help_loads_no_commands() -> None:
    modules = loaded("espalier.cli.main; espalier.cli.main.run(['--help'])")
    assert not {f"espalier.cli.{module}" for module in MODULES} & modules


def test_to_complete_the_name_of_a_command_loads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ESPALIER_COMPLETE", "zsh_complete")
    monkeypatch.setenv("COMP_WORDS", "espalier upgr")
    monkeypatch.setenv("COMP_CWORD", "1")
    modules = loaded("espalier.cli.main; espalier.cli.main.run([])")
    assert {"upgrade", "upgrades", "Upgrade"} <= modules
    assert not {f"espalier.cli.{module}" for module in MODULES} & modules


def test_command_is_listed_by_name_and_first_sentence() -> None:
    context = click.Context(program)
    names = program.list_commands(context)
    assert names == sorted(COMMANDS)
    results = {name: command for name in names if (command := program.get_command(context, name))}
    assert {name: command.name for name, command in results.items()} == {name: name for name in names}
    summaries = {name: command.get_short_help_str() for name, command in results.items()}
    assert summaries == {name: listed.sentence for name, listed in COMMANDS.items()}
