import asyncio
import os
import signal
import subprocess
import sys

from msgspec.structs import replace

from espalier.realnodes.nspawn.system import processes

WAITING = [sys.executable, "-S", "-c", "import signal; signal.pause()"]


async def test_a_process_is_known_until_it_ends() -> None:
    with subprocess.Popen(WAITING) as child:  # noqa: ASYNC220  no child of the loop
        process = processes.identify(child.pid)
        assert process is not None
        assert process.alive
        assert child.pid in processes.children(os.getpid())
        waiting = asyncio.create_task(processes.ended(process))
        processes.stop(process)
        await asyncio.wait_for(waiting, 30)
        assert not process.alive
        child.wait()
    assert processes.identify(child.pid) is None


async def test_other_process_of_the_same_number_is_different() -> None:
    with subprocess.Popen(WAITING) as child:  # noqa: ASYNC220  no child of the loop
        process = processes.identify(child.pid)
        assert process is not None
        former = replace(process, started=process.started - 1)
        before_the_machine_started_again = replace(process, boot="another")
        for other in (former, before_the_machine_started_again):
            assert not other.alive
            processes.stop(other)
            await asyncio.wait_for(processes.ended(other), 30)
        assert child.poll() is None
        child.send_signal(signal.SIGKILL)
