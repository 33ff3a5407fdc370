"""Commands whose API server takes connections and says nothing: they tell, and end in the time of one attempt."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from espalier.cli.kit.connecting import announcing
from espalier.cli.main import run
from espalier.kube.transports import channel, threaded
from espalier.kube.transports.retry import Retry

COMMANDS = (["top"], ["get", "clusters"], ["plan", "--manager", "-A"], ["upgrades", "list"], ["dashboard", "--no-open"])


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server whose connections nobody accepts, as those of a stopped process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def kubeconfig(silent: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its kubeconfig."""
    for module in (channel, threaded):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr("espalier.kube.transports.http.CONNECT_SECONDS", 0.5)
    monkeypatch.setattr("espalier.cli.kit.connecting.connection.RETRY", Retry(within=0.25))
    monkeypatch.setattr(announcing, "AFTER", 0.1)
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": f"https://127.0.0.1:{silent.getsockname()[1]}"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(tree))
    return file


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_silence_is_told_and_ends_the_command(
    command: list[str], kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--kubeconfig", str(kubeconfig)]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" https")[0] for line in lines] == [
        "waiting for the API server at",
        "error: cannot reach the API server at",
    ]
    assert lines[0].endswith(": no answer for 0.1 seconds")
    assert lines[1].endswith(": no connection within 0.5 seconds")


def test_silent_server_is_connected_to_once(silent: socket.socket, kubeconfig: Path) -> None:
    assert run(["top", "--kubeconfig", str(kubeconfig)]) == 3
    silent.setblocking(False)
    silent.accept()[0].close()
    with pytest.raises(BlockingIOError):
        silent.accept()
