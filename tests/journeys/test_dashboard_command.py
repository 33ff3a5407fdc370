"""`espalier dashboard` as a command: what it prints, how it ends, and what others on the machine see of it."""

from __future__ import annotations

import asyncio
import html
import os
import re
import signal
import socket
import stat
import subprocess
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aiohttp
import pytest

from espalier.cli.clusters import dashboard as command
from espalier.cli.clusters.plans.dashboard_plans import WIDTH
from espalier.dashboard.guard import COOKIE
from tests.support.environments.environment import PROGRAM, SECONDS, LocalEnvironment
from tests.support.waiting import eventually

pytestmark = pytest.mark.embedded

PROMPT = 10.0
"""Seconds for a command to end that nothing holds up; a request waits longer for its answer."""

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()


@contextmanager
def started(env: LocalEnvironment, *flags: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and the address that it printed."""
    process = subprocess.Popen(
        [*PROGRAM, "dashboard", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env.environment | variables,
        cwd=env.home,
    )
    assert process.stdout is not None
    try:
        match = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S{40,}", process.stdout.readline())
        assert match is not None
        yield process, match[0]
    finally:
        process.kill()
        process.communicate()


async def status(address: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(address) as response:
        await response.read()
        return response.status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_dashboard_serves_until_it_is_interrupted(env: LocalEnvironment, number: signal.Signals) -> None:
    with started(env, "--no-open") as (process, address):
        assert await status(address) == 200
        assert await status(address.partition("token")[0]) == 403
        process.send_signal(number)
        _, err = await asyncio.to_thread(process.communicate, timeout=SECONDS)
        assert (process.returncode, "Traceback" in err) == (0, False)
        with pytest.raises(aiohttp.ClientConnectionError):
            await status(address)


async def test_page_of_a_cluster_has_the_plan_of_the_command(env: LocalEnvironment) -> None:
    await asyncio.to_thread(env.send, EXAMPLE.split("---")[0])
    with started(env, "--no-open") as (_, address):
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            async with session.get(address) as response:
                root = re.search(r"url=(/[^\"]+/)\"", await response.text())
                assert root is not None
            origin = address.partition("/?")[0]

            async def page() -> str:
                async with session.get(f"{origin}{root[1]}clusters/default/garden") as response:
                    return await response.text()

            text = await eventually(page, lambda text: "nothing is done: MissingDependentObjects" in text)
            shown = re.search(r"<pre[^>]*>(.*)</pre>", text, re.DOTALL)
            assert shown is not None
    planned = env.espalier("plan", "--manager", COLUMNS=str(WIDTH)).out
    assert planned.startswith("Cluster default/garden\n")
    body = planned.partition("\n")[2].partition("\n\n")[0]
    assert html.unescape(re.sub(r"<[^>]+>", "", shown[1])).rstrip() == body


def test_used_port_is_named(env: LocalEnvironment) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        told = env.espalier("dashboard", "--no-open", "--port", port)
    assert told.code == 1
    assert f"--port: found {port}, but another program uses it" in told.err


def test_server_that_is_away_is_reported(env: LocalEnvironment, tmp_path: Path) -> None:
    kubeconfig = (env.home / "kubeconfig").read_text()
    away = tmp_path / "kubeconfig"
    away.write_text(re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:9", kubeconfig))
    told = env.espalier("dashboard", "--no-open", "--kubeconfig", str(away))
    assert told.code == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_a_wait_for_a_mute_server(env: LocalEnvironment, tmp_path: Path, number: signal.Signals) -> None:
    """One that accepts connections and answers none: nothing is served yet."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        mute.settimeout(SECONDS)
        kubeconfig = tmp_path / "kubeconfig"
        address = f"https://127.0.0.1:{mute.getsockname()[1]}"
        kubeconfig.write_text(re.sub(r"https://127\.0\.0\.1:\d+", address, (env.home / "kubeconfig").read_text()))
        command = [*PROGRAM, "dashboard", "--no-open", "--kubeconfig", str(kubeconfig)]
        process = subprocess.Popen(command, env=env.environment, stderr=subprocess.PIPE, text=True)
        try:
            connection, _ = mute.accept()
            with connection:
                process.send_signal(number)
                _, err = process.communicate(timeout=PROMPT)
        finally:
            process.kill()
            process.communicate()
    assert (process.returncode, "Traceback" in err) == (130, False)


class _Shown:
    """A dashboard of which only the address counts."""

    address = "http://127.0.0.1:1/?token=secret"

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def wait_opened(self) -> None:
        await self.opened.wait()


async def test_browser_is_opened_by_a_private_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command line is public: it has no token."""
    urls: list[str] = []
    monkeypatch.setattr(webbrowser, "open", urls.append)
    monkeypatch.setenv("DISPLAY", ":0")
    shown = _Shown()
    async with command._opened(shown, opens=True):  # type: ignore[arg-type]
        await eventually(lambda: urls)
        assert "secret" not in urls[0]
        file = Path(unquote(urlsplit(urls[0]).path))
        assert shown.address in file.read_text()
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        shown.opened.set()
        await eventually(lambda: not file.exists())
    assert not file.parent.exists()


@pytest.mark.parametrize(("opens", "display"), [(False, ":0"), (True, "")])
async def test_no_browser_is_opened_without_a_display(
    monkeypatch: pytest.MonkeyPatch, opens: bool, display: str
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _url: pytest.fail("it was opened"))
    for name in command.DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    if display:
        monkeypatch.setenv("DISPLAY", display)
    async with command._opened(_Shown(), opens=opens):  # type: ignore[arg-type]
        await asyncio.sleep(0)


async def test_command_line_of_a_dashboard_has_no_token(env: LocalEnvironment) -> None:
    with started(env, "--no-open") as (process, address):
        token = address.partition("token=")[2]
        assert token not in Path(f"/proc/{process.pid}/cmdline").read_text()
        assert token not in Path(f"/proc/{process.pid}/environ").read_text()
        assert COOKIE not in os.environ
