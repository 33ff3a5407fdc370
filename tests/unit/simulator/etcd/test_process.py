"""The etcd as a process: killed at any moment it loses nothing, and it says what it is and what is wrong."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from espalier.etcd.client import Client, connect
from espalier.etcd.errors import Unavailable
from espalier.simulator.etcd.__main__ import main
from tests.support.child_process import ChildProcess
from tests.support.etcd.etcd_histories import EVERYTHING


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="etcd") as name:  # a socket's path has at most 107 bytes
        yield Path(name)


def _started(folder: Path, *arguments: str) -> ChildProcess:
    flags = ["--data-dir", str(folder / "data"), "--listen", f"unix://{folder}/socket", *arguments]
    return ChildProcess([sys.executable, "-m", "espalier.simulator.etcd", *flags], folder=folder)


async def _served(client: Client) -> None:
    """Return when it answers."""
    await client.status(timeout=60.0)


async def _write(client: Client, name: str, acknowledged: dict[bytes, int], process: ChildProcess) -> None:
    """Write until the process is gone; the one who has written 40 times kills it, while others wait for answers."""
    with suppress(Unavailable):
        for number in itertools.count():
            key = f"{name}-{number}".encode()
            acknowledged[key] = await client.put(key, b"x" * 1000)
            if number == 40:
                os.kill(process.pid, signal.SIGKILL)


@pytest.mark.soak
async def test_kill_during_writes_loses_nothing(folder: Path) -> None:
    acknowledged: dict[bytes, int] = {}
    async with connect(f"unix://{folder}/socket") as client:
        for kill in range(2):
            process = _started(folder)
            await _served(client)
            revisions = {item.key: item.mod_revision for item in (await client.do(EVERYTHING)).items}
            assert {key: revisions.get(key) for key in acknowledged} == acknowledged
            await asyncio.gather(*(_write(client, f"{kill}-{writer}", acknowledged, process) for writer in range(4)))
            await process.stop()
    assert len(acknowledged) >= 2 * 41


@pytest.mark.soak
async def test_it_says_what_it_is_and_ends_when_asked(folder: Path) -> None:
    process = _started(folder)
    async with connect(f"unix://{folder}/socket") as client:
        await _served(client)
        output = process.output.read_text()
        assert "serving an etcd for tests, never for production" in output
        assert f"serving on unix://{folder}/socket\n" in output
        await process.stop()
        assert process._process.returncode == 0


def test_wrong_arguments_and_data_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "etcd.sqlite").write_bytes(b"something else" * 100)
    assert main(["--data-dir", str(folder)]) == 1
    assert "is not a database of this program" in capsys.readouterr().err
    assert main(["--data-dir", str(folder / "new"), "--listen", "ftp://somewhere"]) == 2
    assert "can't listen on ftp://somewhere" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--data-dir", str(folder), "--trusted-ca-file", "ca.pem"])
    assert "--trusted-ca-file requires --cert-file and --key-file" in capsys.readouterr().err


@pytest.mark.soak
async def test_it_begins_with_snapshot_if_there_are_no_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = _started(folder)
    async with connect(f"unix://{folder}/socket") as client:
        await _served(client)
        await client.put(b"a", b"1")
        expected = (await client.do(EVERYTHING)).items
        async with aclosing(client.snapshot()) as chunks:
            (folder / "snapshot").write_bytes(b"".join([chunk.data async for chunk in chunks]))
        await process.stop()
        (folder / "data").rename(folder / "before")
        process = _started(folder, "--restore", str(folder / "snapshot"))
        await _served(client)
        assert (await client.do(EVERYTHING)).items == expected
        await process.stop()
    assert (
        await asyncio.to_thread(main, ["--data-dir", str(folder / "data"), "--restore", str(folder / "snapshot")]) == 1
    )
    assert "the data directory already has data" in capsys.readouterr().err
