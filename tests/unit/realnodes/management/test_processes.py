"""Programs under supervision: awaited, started again, told of, and ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from espalier.realnodes.management.processes import (
    Backoff,
    Program,
    ProgramFailed,
    ProgramReport,
    State,
    Supervisor,
    read_states,
    supervised,
)
from espalier.runtime.clock import SystemClock

ROOT = Path(__file__).resolve().parents[4]
AT_ONCE = Backoff(first=0.01, most=0.01)


def shell(name: str, script: str, folder: Path, is_ready: Callable[[], Awaitable[bool]] | None = None) -> Program:
    return Program(name, ["/bin/sh", "-c", script], folder, is_ready)


def waits(name: str, folder: Path) -> Program:
    """A program that runs until it is ended, and is ready once it has said so."""
    ready = folder / f"{name}.ready"

    async def is_ready() -> bool:
        return ready.exists()

    return shell(name, f"touch {ready}; exec sleep 1000", folder, is_ready)


class Watched:
    """A supervisor's reports as they come."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._reports: asyncio.Queue[ProgramReport] = asyncio.Queue()
        supervisor.subscribe(self._reports.put_nowait)

    async def until(self, is_so: Callable[[ProgramReport], bool]) -> ProgramReport:
        async with asyncio.timeout(30):
            while not is_so(report := await self._reports.get()):
                pass
        return report


async def gone(number: int) -> None:
    """Return when no such process."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    try:
        descriptor = os.pidfd_open(number)
    except ProcessLookupError:
        return
    loop.add_reader(descriptor, over.set)
    try:
        async with asyncio.timeout(30):
            await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def test_programs_are_ready_after_the_start(tmp_path: Path) -> None:
    async with supervised(tmp_path, SystemClock()) as supervisor:
        await supervisor.start(waits("first", tmp_path), waits("second", tmp_path))
        reports = supervisor.reports
        assert [(report.name, report.state, report.restarts) for report in reports] == [
            ("first", State.RUNNING, 0),
            ("second", State.RUNNING, 0),
        ]
        assert read_states(tmp_path) == reports
    for report in reports:
        with pytest.raises(ProcessLookupError):
            os.kill(report.pid or 0, 0)
    assert {report.state for report in read_states(tmp_path)} == {State.STOPPED}


async def test_a_program_that_is_killed_is_started_again(tmp_path: Path) -> None:
    async with supervised(tmp_path, SystemClock(), backoff=AT_ONCE) as supervisor:
        await supervisor.start(waits("server", tmp_path))
        (before,), watched = supervisor.reports, Watched(supervisor)
        os.kill(before.pid or 0, signal.SIGKILL)
        after = await watched.until(lambda report: report.state is State.RUNNING and report.restarts == 1)
        assert after.pid != before.pid
        assert after.last_exit == -signal.SIGKILL


async def test_program_that_dies_repeatedly_waits_longer(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    script = f"[ -e {broken} ] && exit 3; touch {broken}; exec sleep 1000"

    async def is_ready() -> bool:
        return broken.exists()

    async with supervised(tmp_path, SystemClock(), backoff=Backoff(first=0.01, most=1000.0)) as supervisor:
        await supervisor.start(shell("server", script, tmp_path, is_ready))
        watched = Watched(supervisor)
        os.kill(supervisor.reports[0].pid or 0, signal.SIGKILL)
        waiting = await watched.until(lambda report: report.state is State.WAITING and report.restarts >= 3)
        assert waiting.last_exit == 3
        assert waiting.pid is None


def test_pauses_double_up_to_a_limit() -> None:
    backoff = Backoff(first=0.5, most=30.0)
    assert [backoff.delay(failures) for failures in (1, 2, 3, 7, 1000)] == [0.5, 1.0, 2.0, 30.0, 30.0]


async def test_unstarted_program_shows_its_last_output(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    broken = shell("broken", "echo no such volume >&2; exit 7", tmp_path, never)
    async with supervised(tmp_path, SystemClock()) as supervisor:
        with pytest.raises(ProgramFailed, match=r"broken ended with exit code 7.*\n.*no such volume"):
            await supervisor.start(waits("sound", tmp_path), broken)
        assert supervisor.reports == []
        assert read_states(tmp_path) == []


async def test_a_program_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    async with supervised(tmp_path, SystemClock()) as supervisor:
        with pytest.raises(ProgramFailed, match=r"deaf is not ready after 0\.2 s"):
            await supervisor.start(shell("deaf", "exec sleep 1000", tmp_path, never), patience=0.2)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
async def test_nothing_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    story = (
        "import asyncio, sys; from pathlib import Path\n"
        "from espalier.realnodes.management.processes import Program, supervised\n"
        "from espalier.runtime.clock import SystemClock\n"
        "async def main():\n"
        "    async with supervised(Path(sys.argv[1]), SystemClock()) as supervisor:\n"
        "        await supervisor.start(Program('sleep', ['/bin/sleep', '1000'], Path(sys.argv[1])))\n"
        "        print(supervisor.reports[0].pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", story, tmp_path, stdout=subprocess.PIPE, env=environment
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    parent.kill()
    await gone(child)
    await parent.wait()
    (report,) = read_states(tmp_path)
    assert report.pid == child, "what it said last stays, and is of no process that lives"
