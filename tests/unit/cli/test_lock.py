from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from espalier.cli.kit.failures import Failure
from espalier.cli.local import lock
from espalier.cli.main import run


def test_holder_is_known_while_it_holds_and_not_after(tmp_path: Path) -> None:
    path = tmp_path / "world.lock"
    assert lock.holder(path) is None
    with lock.hold(path) as held:
        held.announce("https://127.0.0.1:6443")
        holder = lock.holder(path)
        assert holder is not None
        assert (holder.pid, holder.url) == (os.getpid(), "https://127.0.0.1:6443")
    assert lock.holder(path) is None


def test_second_environment_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "world.lock"
    with lock.hold(path), pytest.raises(Failure, match=r"process \d+.*espalier down"), lock.hold(path):
        pass


async def test_release_is_awaited(tmp_path: Path) -> None:
    path = tmp_path / "world.lock"
    with lock.hold(path):
        assert not await lock.released(path, 0)
    assert await lock.released(path, 5)


@contextmanager
def program(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has said that it is ready; it ends with the block."""
    started = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        yield started
    finally:
        started.kill()
        started.communicate()


ENVIRONMENT = """
import sys, time
from pathlib import Path
from espalier.cli.local import lock
with lock.hold(Path(sys.argv[1])) as held:
    held.announce("https://127.0.0.1:6443")
    print("ready", flush=True)
    time.sleep(600)
"""
BYSTANDER = "import time; print('ready', flush=True); time.sleep(600)"
READER = "import sys, time; file = open(sys.argv[1]); print('ready', flush=True); time.sleep(600)"


def test_process_that_holds_lock_is_asked_to_end(tmp_path: Path) -> None:
    path = tmp_path / "world.lock"
    with program(ENVIRONMENT, str(path)) as env:
        holder = lock.holder(path)
        assert holder is not None
        assert holder.pid == env.pid
        lock.stop(path, holder)
        assert env.wait(60) == -15


@pytest.mark.parametrize(
    ("code", "name", "why"),
    [
        (BYSTANDER, lock.Holder, "does not have the file open"),
        (READER, lambda pid: replace(lock.Holder(pid), started=1, boot="before"), "belongs to another process now"),
        (BYSTANDER, lambda pid: lock.Holder(2**22 - 1), "no such process"),
    ],
    ids=["a stranger", "a reused number", "nobody"],
)
def test_whoever_else_has_number_in_file_is_let_be(
    tmp_path: Path, code: str, name: Callable[[int], lock.Holder], why: str
) -> None:
    path = tmp_path / "world.lock"
    path.touch()
    with path.open("r+") as locked, program(code, str(path)) as other:
        fcntl.flock(locked, fcntl.LOCK_EX)
        path.write_text(json.dumps(asdict(name(other.pid))))
        holder = lock.holder(path)
        assert holder is not None
        with pytest.raises(Failure, match=f"{why}.*nothing was stopped.*fuser"):
            lock.stop(path, holder)
        assert other.poll() is None


def test_earlier_environment_is_known_by_its_open_file(tmp_path: Path) -> None:
    path = tmp_path / "world.lock"
    with program(ENVIRONMENT, str(path)) as env:
        path.write_text(json.dumps({"pid": env.pid, "url": ""}))
        holder = lock.holder(path)
        assert holder == lock.Holder(env.pid)
        lock.stop(path, holder)
        assert env.wait(60) == -15


def test_down_signals_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESPALIER_HOME", str(tmp_path))
    path = tmp_path / "world.lock"
    path.touch()
    with path.open("r+") as locked, program(BYSTANDER) as other:
        fcntl.flock(locked, fcntl.LOCK_EX)
        path.write_text(json.dumps({"pid": other.pid, "url": ""}))
        assert run(["down"]) == 1
        assert f"names process {other.pid} as that of the local environment, but" in capsys.readouterr().err
        assert other.poll() is None
