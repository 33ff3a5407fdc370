import asyncio
import os
import signal
import subprocess
import sys

from msgspec.structs import replace

from espalier.realnodes.nspawn import processes

WAITING = [sys.executable, "-S", "-c", "import signal; signal.pause()"]


async def test_a_process_is_known_until_it_ends() -> None:
    with subprocess.Popen(WAITING) as child:  # noqa: ASYNC220  no child of the loop
        found = processes.identify(child.pid)
        assert found is not None
        assert found.alive
        assert child.pid in processes.children(os.getpid())
        waiting = asyncio.create_task(processes.ended(found))
        processes.stop(found)
        await asyncio.wait_for(waiting, 30)
        assert not found.alive
        child.wait()
    assert processes.identify(child.pid) is None


async def test_another_process_of_the_same_number_is_not_taken_for_it() -> None:
    with subprocess.Popen(WAITING) as child:  # noqa: ASYNC220  no child of the loop
        found = processes.identify(child.pid)
        assert found is not None
        former = replace(found, started=found.started - 1)
        before_the_machine_started_again = replace(found, boot="another")
        for other in (former, before_the_machine_started_again):
            assert not other.alive
            processes.stop(other)
            await asyncio.wait_for(processes.ended(other), 30)
        assert child.poll() is None
        child.send_signal(signal.SIGKILL)
