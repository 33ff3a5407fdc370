"""`espalier dashboard`: a page of clusters and shoots, served on loopback with the caller's own rights."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
import tempfile
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import click

from espalier.api.text.printable import in_one_line
from espalier.cli.kit import flags, interrupts
from espalier.cli.kit.commands import Command
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.announcing import Announcing
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.printing import output
from espalier.dashboard.html import page as frames
from espalier.dashboard.observation import Observation, ReadOnly
from espalier.dashboard.serving import Dashboard
from espalier.kube.client import Client
from espalier.kube.discovery import Discovery
from espalier.kube.transports.http import HttpTransport
from espalier.runtime import logs
from espalier.runtime.clock import SystemClock

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
"""Variables of a graphical session; without one, a browser would take over the terminal."""


@click.command(cls=Command)
@click.option(
    "--port",
    type=flags.Number(0, 65535),
    default=0,
    metavar="PORT",
    show_default=True,
    help="Port on 127.0.0.1; 0 takes a free one.",
)
@click.option("--open/--no-open", "opens", default=True, show_default=True, help="Open it in the browser.")
@click.option(
    "--kubeconfig",
    type=flags.FILE,
    metavar="FILE",
    help="Kubeconfig file. Default: $KUBECONFIG, the local environment's, ~/.kube/config.",
)
@click.option("--context", metavar="NAME", help="Context within the kubeconfig.")
@click.option("--namespace", "-n", metavar="NAME", help="Show this namespace alone. Default: all of them.")
async def dashboard(
    *, port: int, opens: bool, kubeconfig: Path | None, context: str | None, namespace: str | None
) -> None:
    """Show clusters and shoots in a browser, live, until Ctrl-C.

    Serves on 127.0.0.1, with the rights of your kubeconfig, and changes nothing. The printed address has a token that
    lets in whoever has it.

    \b
    Example:
      espalier dashboard
    """
    # Plans validate and render, with all that these need.
    from espalier.cli.clusters.plans.dashboard_plans import plan_of  # noqa: PLC0415

    logs.setup(level="error")
    access = connection.access_of(flags.Connection(kubeconfig, context, namespace))
    transport = HttpTransport(access)
    client = Client(
        ReadOnly(Announcing(transport, access)),
        user_agent="espalier-cli",
        retry=connection.RETRY,
        on_warning=lambda _text: None,
    )
    try:
        served = await Discovery(client).resources()
        stop = asyncio.Event()
        for number in interrupts.ending():  # not before: nothing waits for it until pages are served
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        observation = Observation(client, SystemClock(), (namespace,) if namespace else (), served)
        shown = Dashboard(observation, server=in_one_line(transport.host), planner=plan_of)
        try:
            async with shown.running(port):
                output.say(f"The dashboard is at {shown.address}")
                output.say("Whoever has this address sees what you may see. Ctrl-C ends it.", stderr=True)
                sys.stdout.flush()
                async with _opened(shown, opens=opens):
                    await stop.wait()
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            why = "another program uses it" if error.errno == errno.EADDRINUSE else "you may not listen on it"
            raise Failure(f"--port: found {port}, but {why}; give another one, or 0 for a free one") from error
    finally:
        await client.close()


@asynccontextmanager
async def _opened(shown: Dashboard, *, opens: bool) -> AsyncIterator[None]:
    """Open the address in the browser of a graphical session.

    By a file that only the caller can read: every user of the machine sees the command line of a browser.
    """
    if not opens or (sys.platform == "linux" and not any(map(os.environ.get, DISPLAYS))):
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="espalier-dashboard-"))  # for its owner alone
    task = asyncio.get_running_loop().create_task(_open(shown, folder))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        shutil.rmtree(folder, ignore_errors=True)


async def _open(shown: Dashboard, folder: Path) -> None:
    file = folder / "open.html"
    file.write_text(frames.plain("Espalier", "The dashboard opens.", to=shown.address))
    with suppress(webbrowser.Error, OSError):
        await asyncio.to_thread(webbrowser.open, file.as_uri())
    await shown.wait_opened()
    file.unlink(missing_ok=True)
