"""`espalier up --detach` waits until the local environment serves, and no longer."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.version_matrix import DEFAULT_ROW
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.local import up
from espalier.releases import Releases


def test_programs_do_not_hold_pipe_of_waiting_command() -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)  # as it is handed to the process in the background
    starter = up._Starter(write)
    program = subprocess.Popen(
        [sys.executable, "-c", "print('runs', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    )
    try:
        # Popen returns before the kernel has closed what must not be inherited; a program that runs has it behind it.
        assert program.stdout is not None
        assert program.stdout.readline() == b"runs\n"
        starter.report("ready")
        os.set_blocking(read, False)
        assert os.read(read, 100) == b"ready"
        assert os.read(read, 100) == b"", "the end: no program has the other side"
    finally:
        program.communicate(b"\n")
        os.close(read)


async def test_interrupted_command_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, program = tmp_path / "started", tmp_path / "program"
    os.mkfifo(started)
    program.write_text(f"#!/bin/sh\necho $$ > {started}\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    command = asyncio.create_task(up._detach(Home(tmp_path), [], 600.0))
    process = int(await asyncio.to_thread(started.read_text))
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    assert not Path(f"/proc/{process}").exists()


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (True, "the bootstrap of management cluster gito: give the command again that uses it"),
        (False, "Management cluster gito has its own kubeconfig: gito/gito-eks-a-cluster.kubeconfig"),
    ],
    ids=["bootstrap", "machines"],
)
def test_machines_of_a_management_cluster_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wanted: bool, told: str
) -> None:
    """The example is not for them, and a bootstrap is for its command alone."""
    home = Home(tmp_path).of_management_cluster("gito")
    home.root.mkdir(parents=True)
    home.want_bootstrap(wanted=wanted)
    with Progress() as progress:
        up._how_to_go_on(progress, home)
    shown = " ".join("".join(capsys.readouterr()).split())
    assert told in shown
    assert "export KUBECONFIG" not in shown
    assert "kubectl apply" not in shown


def test_a_local_environment_shows_its_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        up._how_to_go_on(progress, Home(tmp_path))
    shown = "".join(capsys.readouterr())
    assert f"export KUBECONFIG={tmp_path}/kubeconfig\n" in shown
    assert "kubectl apply -f " in shown


def started(home: Home) -> None:
    """The choice of an environment with simulated machines, which is not entered."""
    simulated = up.SimulatedNodes(0.1, DEFAULT_ROW)
    up._environment(home, up.Nodes.SIMULATED, up.RealNodes("", FrontEnd.ANNOTATIONS), 0, simulated, Releases.load())


def test_simulated_machines_get_no_real_components(tmp_path: Path) -> None:
    """The environment had real nodes before: commands tell by this file whether it has them."""
    home = Home(tmp_path)
    home.components.write_text("{}")
    started(home)
    assert not home.components.exists()


def test_bootstrap_of_real_nodes_is_not_simulated(tmp_path: Path) -> None:
    """Also before it has its first node."""
    home = Home(tmp_path)
    home.components.write_text("{}")
    home.want_bootstrap(wanted=True)
    with pytest.raises(Failure, match="up --nodes real"):
        started(home)
    assert home.components.exists()
