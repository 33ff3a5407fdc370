import json
import shutil
import signal
import socket
from pathlib import Path

import pytest

from espalier.realnodes.nspawn.system import processes
from espalier.realnodes.nspawn.system.helper_processes import BalancerProcess, ControlPlaneEndpoint
from espalier.realnodes.nspawn.system.state import NetworkRecord, State


def endpoint() -> ControlPlaneEndpoint:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return {"address": "127.0.0.1", "port": probe.getsockname()[1], "backends": []}


def env(folder: Path) -> State:
    state = State(folder / "nodes")
    state.write_network(NetworkRecord("esp0", "10.77.0.0/24"))
    return state


async def test_balancer_is_taken_over_by_whoever_comes_next(tmp_path: Path) -> None:
    state, wanted = env(tmp_path), endpoint()
    await BalancerProcess(state).serve([wanted])
    running = BalancerProcess(state).process
    assert running is not None
    try:
        await BalancerProcess(state).serve([wanted])
        await BalancerProcess(state).serve([wanted, endpoint()])
        assert BalancerProcess(state).process == running
        assert len(json.loads((state.root / "balancer.conf").read_text())) == 2
    finally:
        await BalancerProcess(state).end()
    assert not running.alive


async def test_one_that_died_is_started_again(tmp_path: Path) -> None:
    state, wanted = env(tmp_path), endpoint()
    await BalancerProcess(state).serve([wanted])
    first = BalancerProcess(state).process
    assert first is not None
    processes.stop(first, signal.SIGKILL)
    await processes.ended(first)
    await BalancerProcess(state).serve([wanted])
    second = BalancerProcess(state).process
    assert second not in (None, first)
    await BalancerProcess(state).serve([])
    assert BalancerProcess(state).process is None


async def test_process_that_reused_a_number_is_left_alone(tmp_path: Path) -> None:
    state = env(tmp_path)
    (state.root / "balancer.pid").write_text("1")
    await BalancerProcess(state).end()
    assert BalancerProcess(state).process is None
    shutil.rmtree(state.root)


async def test_address_where_somebody_else_listens_is_named(tmp_path: Path) -> None:
    state, wanted = env(tmp_path), endpoint()
    taken = (wanted["address"], wanted["port"])
    named = f"another program listens at {taken[0]}:{taken[1]}"
    with socket.create_server(taken), pytest.raises(OSError, match=named):
        await BalancerProcess(state).serve([wanted])
    assert BalancerProcess(state).process is None
