"""One run of one container: a process, a folder that stands for its `/`, its log and its termination message."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from espalier.api.meta import Tree
from espalier.runtime import confined
from espalier.simulator.pods.runtimes.program import ROOT, Program
from espalier.simulator.pods.runtimes.runtime import TERMINATED

ROOTS, LOGS = "roots", "logs"
"""Subfolders of a pod's folder."""
MESSAGE = "dev/termination-log"
LONGEST_MESSAGE = 4096
LAST_LINES = 80
"""The maximum lines of a log that serves as termination message (and `LONGEST_FALLBACK` bytes)."""
LONGEST_FALLBACK = 2048
NO_SUCH_PROGRAM = 127
LOCALHOST = "127.0.0.1"
ROUNDS, ROUND_SECONDS = 100, 0.1
"""Attempts to kill leftover processes of a pod, and the longest wait after each in seconds, before a warning."""


@dataclass
class ProcessRun:
    """The program of a container, and its folders."""

    program: Program
    container: Tree
    folder: Path
    """The pod's folder; `folder_of` and `LOGS` are below it."""
    mounts: Mapping[str, Path]
    environment: Mapping[str, str]
    _process: asyncio.subprocess.Process | None = None
    _stopping: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.container["name"])

    @property
    def root(self) -> Path:
        """The folder that stands for its `/`."""
        return confined.child(self.folder / ROOTS, self.name)

    async def run_to_completion(self) -> int:
        """Run the process; return its exit code. On cancellation it is killed. Raises `OSError`."""
        command = self._arguments()
        confined.write(self.folder, log_path(self.name), "")
        if not command:
            error = f"exec: {self._command()[:1]}: not found in the image's program\n"
            confined.write(self.folder, log_path(self.name), error)
            return NO_SUCH_PROGRAM
        if self._stopping is not None:  # stopped before the process was started
            return TERMINATED
        log = confined.open_file(self.folder, log_path(self.name), os.O_WRONLY)
        try:
            process = self._process = await self._start(command, log)
        finally:
            os.close(log)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _end(process, 0)
            raise
        return code if code >= 0 else 128 - code

    async def stop(self, grace: float) -> None:
        """End the process and its children: SIGTERM, and SIGKILL after `grace` seconds."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._end(grace), name=f"end of {self.name}")
        await asyncio.shield(self._stopping)

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def probe(self, action: Tree) -> bool:
        """True if a probe passes. Ports are those of this machine; commands are those of the image's program.

        Raises `OSError`, and `ValueError` for a port that the program does not listen on.
        """
        if (request := action.get("httpGet")) is not None:
            return await answers(self._port(request["port"]), str(request.get("path") or "/"))
        if (socket := action.get("tcpSocket")) is not None:
            _, writer = await asyncio.open_connection(LOCALHOST, self._port(socket["port"]))
            writer.close()
            return True
        command = self._command_line((action.get("exec") or {}).get("command") or ())
        if not command:
            return False
        process = await self._start(command, asyncio.subprocess.DEVNULL)
        try:
            return await process.wait() == 0
        finally:
            if process.returncode is None:
                await _end(process, 0)

    async def _end(self, grace: float) -> None:
        if self._process is not None:
            await _end(self._process, grace)

    async def _start(self, command: Sequence[str], output: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env={**self.environment, ROOT: str(self.root)},
            cwd=self.root,
            start_new_session=True,
        )

    def _port(self, port: int | str) -> int:
        number = port_number(self.container, port)
        if number not in self.program.ports:
            raise ValueError(f"the program of {self.name} does not listen on port {number}")
        return number

    def message(self, code: int) -> str:
        """The termination message: the program's file, or the end of its log if the pod's policy says so."""
        message = _read(self.root, MESSAGE, limit=LONGEST_MESSAGE)
        if message or not code or self.container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return message
        lines = _read(self.folder, log_path(self.name), start=-LONGEST_FALLBACK).splitlines()
        return "\n".join(lines[-LAST_LINES:])

    def write_files(self) -> None:
        """Create the folder that stands for `/`, without files of an earlier run.

        Raises `OSError`, and `ValueError` for a mount inside of another one, or of the image's files.
        """
        root = self.root
        confined.remove(self.folder / ROOTS, self.name)
        confined.write(root, MESSAGE, "")
        for path, target in [*self.program.content.items(), *self.mounts.items()]:
            parts = confined.relative(path)
            parents = [root.joinpath(*parts[:count]) for count in range(1, len(parts))]
            place = root.joinpath(*parts)
            # A link in the path is a mount: files below it would be written to its target.
            if not parts or os.path.lexists(place) or any(map(_is_link_or_file, parents)):
                raise ValueError(
                    f"volumeMounts of {self.name}: mountPath {path!r} overlaps another mount or a file of the "
                    "image, which is not simulated; choose another path"
                )
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)

    def _command(self) -> list[str]:
        return [*(self.container.get("command") or ()), *(self.container.get("args") or ())]

    def _arguments(self) -> Sequence[str]:
        return self._command_line(self._command())

    def _command_line(self, command: Sequence[str]) -> Sequence[str]:
        start = self.program.commands.get(command[0]) if command else None
        return [*start, *command[1:]] if start else ()


def port_number(container: Tree, port: int | str) -> int:
    """A port of a container, which a probe may call by its name. Raises `ValueError`."""
    if isinstance(port, int):
        return port
    for named in container.get("ports") or ():
        if named.get("name") == port:
            return int(named["containerPort"])
    raise ValueError(f"the container {container['name']} has no port named {port!r}; name one of its ports")


async def answers(port: int, path: str) -> bool:
    """True if a GET over HTTP is answered with a status from 200 to 399."""
    reader, writer = await asyncio.open_connection(LOCALHOST, port)
    try:
        if not path.isprintable() or " " in path:
            raise ValueError(f"the path {path!r} of a probe has characters that no request may have")
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {LOCALHOST}:{port}\r\nConnection: close\r\n\r\n".encode())
        _, status, *_ = (await reader.readline()).split(maxsplit=2)
        return 200 <= int(status) < 400
    finally:
        writer.close()


def log_path(container: str) -> str:
    """The path of a container's log, in the folder of its pod. Raises `ValueError`."""
    return str(confined.child(Path(LOGS), container)) + ".log"


def _is_link_or_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _read(root: Path, path: str, *, start: int = 0, limit: int = confined.LONGEST_READ) -> str:
    try:
        return confined.read(root, path, start=start, limit=limit).decode(errors="replace")
    except OSError:  # the container deleted or replaced it
        return ""


def kill_leftover_processes(folder: Path) -> bool:
    """Kill the processes of a pod that outlived the program which started them; True if none is left.

    They are found by the environment variable `ROOT`, which every process of a container inherits; without /proc none
    is found. False if some can't be killed, or start others faster than they are killed.
    """
    root_variable = os.fsencode(f"{ROOT}={folder / ROOTS}/")
    return any(not _kill_processes(root_variable) for _ in range(ROUNDS))


def _kill_processes(variable: bytes) -> bool:
    """Kill the processes whose environment has the variable; True if there were any.

    Waits until one of them has ended, for `ROUND_SECONDS` at most.
    """
    with ExitStack() as opened:
        ends = select.poll()
        any_killed = False
        for process_id in filter(partial(_has_variable, variable), _process_ids()):
            with suppress(ProcessLookupError):
                descriptor = os.pidfd_open(process_id)
                opened.callback(os.close, descriptor)
                if _has_variable(variable, process_id):  # the PID may have been reused before it was opened
                    any_killed = True
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    ends.register(descriptor, select.POLLIN)
        if any_killed:
            ends.poll(ROUND_SECONDS * 1000)
        return any_killed


def _process_ids() -> Iterator[int]:
    return (int(place.name) for place in Path("/proc").glob("[0-9]*"))


def _has_variable(variable: bytes, process_id: int) -> bool:
    try:
        environment = Path("/proc", str(process_id), "environ").read_bytes()
    except OSError:  # the process has ended, or belongs to another user
        return False
    return any(assignment.startswith(variable) for assignment in environment.split(b"\0"))


async def _end(process: asyncio.subprocess.Process, grace: float) -> None:
    """Stop a process and its children: SIGTERM, and SIGKILL after `grace` seconds."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        # Not asyncio.timeout: in a cancelled task, Python before 3.11.3 takes the timeout for the cancellation.
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), grace)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # kills the process if it ignores SIGTERM, and its children
    await process.wait()
