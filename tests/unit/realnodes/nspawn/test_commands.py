import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from espalier.realnodes.nspawn.system import processes
from espalier.realnodes.nspawn.system.commands import CommandFailed, run, start_detached
from tests.support.waiting import eventually


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_detached_process_keeps_nothing_of_ours(
    new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    async def story() -> None:
        async with asyncio.timeout(60):
            await start_detached(["sleep", "1000"], pid=tmp_path / "pid", log=tmp_path / "log")
            started = processes.identify(int((tmp_path / "pid").read_text()))
            assert started is not None
            descriptors = Path(f"/proc/{started.pid}/fd")  # its loader reads libraries first: nothing tells of its end
            await eventually(lambda: sorted(os.listdir(descriptors)), lambda names: names == ["0", "1", "2"])
            assert os.getsid(started.pid) != os.getsid(0)
            assert started.pid not in processes.children(os.getpid())
            processes.stop(started)
            await processes.ended(started)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())


async def test_a_process_that_can_not_be_detached_says_why(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="nowhere"):
        await start_detached(["sleep", "1"], pid=tmp_path / "pid", log=tmp_path / "log", groups=[Path("/nowhere")])


async def test_failed_command_is_reported_with_its_output() -> None:
    with pytest.raises(CommandFailed, match=r"^sh -c echo dry >&2; exit 3: exit code 3: dry$"):
        await run("sh", "-c", "echo dry >&2; exit 3")


async def test_a_command_that_takes_too_long_is_ended() -> None:
    with pytest.raises(CommandFailed, match=r"timed out after 0\.1 s"):
        await run("sleep", "1000", seconds=0.1)
