"""The facts that the commands on real nodes read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from espalier.cli.main import run
from espalier.realnodes.nspawn.inside import LOG
from espalier.realnodes.nspawn.system.state import NodeRecord, State


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the bootstrap data of a node have written what they said."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("ESPALIER_HOME", str(home))
    state = State(home / "nodes")
    state.write_node(NodeRecord("esp-0", "node-1", "eksa-system", "0", "garden", "10.77.0.2", "1.36.3"))
    file = state.folder("esp-0").root / LOG
    file.parent.mkdir(parents=True)
    return file


def test_the_log_of_the_bootstrap_data_is_shown(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("all is well\n")
    assert run(["nodes", "logs", "node-1", "--bootstrap"]) == 0
    assert capsys.readouterr().out == "all is well\n"


@pytest.mark.parametrize("kind", ["link", "fifo", "nothing"])
def test_missing_log_is_not_followed_nor_awaited(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    (tmp_path / "secret").write_text("only for the host")
    if kind == "link":
        log.symlink_to(tmp_path / "secret")
    elif kind == "fifo":
        os.mkfifo(log)
    assert run(["nodes", "logs", "node-1", "--bootstrap"]) == 1
    result = capsys.readouterr()
    assert result.out == ""
    assert "node node-1 has not run its bootstrap data yet" in result.err


def test_no_nodes_are_a_sentence_and_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESPALIER_HOME", str(tmp_path / "home"))
    assert run(["nodes", "list"]) == 0
    result = capsys.readouterr()
    assert result.out == ""
    assert result.err.startswith("No real nodes on this machine; `espalier up --nodes real` makes them")
    assert run(["nodes", "list", "-o", "name"]) == 0
    assert capsys.readouterr().out == ""
