"""`espalier` as a process of its own, forked from one that has imported all: imports are most of a short command.

One fork server for each process that runs tests, started with its first command and gone with it. A forked command has
its own arguments, environment, folder and standard streams, and ends as it does in `espalier`.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, NoReturn


def run(
    arguments: Sequence[str],
    *,
    stdin: IO[bytes],
    stdout: IO[bytes],
    stderr: IO[bytes],
    environment: Mapping[str, str],
    folder: Path,
    seconds: float,
) -> int:
    """Run one command to its end and return its exit code, negative for a signal. It is killed after so many seconds.

    Raises `subprocess.TimeoutExpired`.
    """
    task = json.dumps({"arguments": list(arguments), "environment": dict(environment), "folder": str(folder)}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(_address())
        socket.send_fds(connection, [len(task).to_bytes(8, "big")], [item.fileno() for item in (stdin, stdout, stderr)])
        connection.sendall(task)
        pid = _number(connection)
        connection.settimeout(seconds)
        try:
            return _number(connection)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["espalier", *arguments], seconds) from None


@cache
def _address() -> str:
    """Where the fork server of this process listens. It ends with its standard input, however this process ends."""
    address = str(Path(tempfile.mkdtemp(prefix="espalier-fork-")) / "socket")
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.environments.fork_server", address],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    atexit.register(_end, server)
    return address


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.close()
    server.stdout.close()
    server.wait()


def _number(connection: socket.socket) -> int:
    result = connection.recv(8, socket.MSG_WAITALL)
    assert len(result) == 8, "the fork server is gone"
    return int.from_bytes(result, "big", signed=True)


def serve(address: str) -> None:
    """Fork a command for each connection, until standard input ends."""
    import gc
    import selectors

    from espalier.cli import main
    from espalier.cli.kit.command_index import COMMANDS

    for module in {listed.module for listed in COMMANDS.values()}:
        import_module(f"{main.__package__}.{module}")
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait for commands
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(address)
        listener.listen(64)
        selector.register(listener, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        print("ready", flush=True)
        try:
            while all(key.fileobj is listener for key, _ in selector.select()):
                connection, _ = listener.accept()
                with connection:
                    if os.fork() == 0:
                        try:
                            selector.close()
                            listener.close()
                            _serve_one(connection)
                        finally:
                            os._exit(1)
        finally:
            Path(address).unlink()
            Path(address).parent.rmdir()


def _serve_one(connection: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, streams, _, _ = socket.recv_fds(connection, 8, 3)
    task = json.loads(connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL))
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(task["arguments"], task["environment"], task["folder"], streams)
    connection.sendall(pid.to_bytes(8, "big", signed=True))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    connection.sendall(code.to_bytes(8, "big", signed=True))


def _become(arguments: list[str], environment: dict[str, str], folder: str, streams: list[int]) -> NoReturn:
    from espalier.cli.main import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["espalier", *arguments]
    try:
        main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(1)


if __name__ == "__main__":
    serve(sys.argv[1])
