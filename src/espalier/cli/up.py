"""`espalier up | down | status`: the laptop world as a process."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from cyclopts import App, Parameter

from espalier.api.eksa.cluster import Cluster
from espalier.cli import connection, flags, lock, output, tables
from espalier.cli.failures import Away, Failure, Overdue
from espalier.cli.home import Home
from espalier.cli.progress import Progress
from espalier.cli.tables import Selection
from espalier.kube.errors import KubeError
from espalier.releases import Releases
from espalier.runtime import logs

STOP_SECONDS = 40.0
START_SECONDS = 60.0
Port = Annotated[int, Parameter(help="Port of the management API server; 0 keeps the one it had, or takes a free one.")]


def register(app: App) -> None:
    """Add the commands to the program."""
    for command in (up, down, status):
        app.command(command)


async def up(
    *,
    detach: Annotated[
        bool, Parameter(name=["--detach", "-d"], negative="", help="Go to the background once it serves.")
    ] = False,
    port: Port = 0,
    boot_seconds: Annotated[float, Parameter(help="How long a simulated machine takes to boot.")] = 0.2,
    log_level: Annotated[str, Parameter(help="debug, info, warning or error.")] = "warning",
    releases: flags.Releases = None,
    ready_descriptor: Annotated[int, Parameter(show=False)] = -1,
) -> None:
    """Run the laptop world: a management cluster with all controllers, and simulated machines.

    It is for trying and testing, never for production. Example: `espalier up --detach`
    """
    logs.setup(level=log_level)
    offered = Releases.load(releases)  # a folder that can't be used is said before anything starts
    home = Home.locate()
    home.create()
    if detach:
        arguments = ["--port", str(port), "--boot-seconds", str(boot_seconds), "--log-level", log_level]
        await _detach(home, [*arguments, *(["--releases", str(releases)] if releases else [])])
        return
    from espalier.cli.world import World  # noqa: PLC0415  the other commands need not load a whole world

    with lock.hold(home.lock) as held, Progress() as progress:
        progress.wait("starting the API server and the controllers")
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with World.run(home, port=port, boot_seconds=boot_seconds, releases=offered) as world:
            held.announce(world.url)
            if ready_descriptor >= 0:
                os.write(ready_descriptor, b"ready\n")
                os.close(ready_descriptor)
            progress.say(f"the management cluster serves at {world.url}")
            _how_to_go_on(progress, home)
            await world.until_failed_or(stop)
            progress.wait("stopping")
        progress.say("stopped; `espalier up` goes on where it was")


def _how_to_go_on(progress: Progress, home: Home) -> None:
    progress.out.print(f"\n  export KUBECONFIG={home.kubeconfig}", soft_wrap=True)
    progress.out.print(
        "  kubectl apply -f examples/docker.yaml\n  kubectl get clusters.anywhere.eks.amazonaws.com -w\n",
        soft_wrap=True,
    )


async def _detach(home: Home, arguments: Sequence[str]) -> None:
    read, write = os.pipe()
    command = [sys.executable, "-m", "espalier.cli", "up", *arguments]
    with home.log.open("ab") as log:
        process = subprocess.Popen(  # noqa: ASYNC220  it outlives this loop
            [*command, "--ready-descriptor", str(write)],
            pass_fds=[write],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    os.close(write)
    with Progress() as progress:
        progress.wait("starting the laptop world")
        reader, protocol = asyncio.StreamReader(), None
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(read, "rb"))
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await reader.readline()
        except TimeoutError:
            process.kill()
            raise Overdue(f"the world did not serve within {START_SECONDS:g} s; see {home.log}") from None
        if not line:
            tail = home.log.read_text(errors="replace").splitlines()[-5:]
            raise Failure("the world did not start:\n" + "\n".join(tail) + f"\n(all of it: {home.log})")
        running = lock.holder(home.lock)
        progress.say(
            f"the laptop world runs in the background (process {process.pid})"
            + (f", serving at {running.url}" if running else "")
        )
        _how_to_go_on(progress, home)


async def down(
    *,
    delete_data: Annotated[
        bool, Parameter(negative="", help="Also delete all its state: clusters, certificates, kubeconfig.")
    ] = False,
) -> None:
    """Stop the laptop world. Its state stays, and `espalier up` goes on with it, unless --delete-data is given.

    Example: `espalier down --delete-data`
    """
    home = Home.locate()
    running = lock.holder(home.lock)
    with Progress() as progress:
        if running and running.pid:
            progress.wait(f"stopping the world (process {running.pid})")
            with suppress(ProcessLookupError):
                os.kill(running.pid, signal.SIGTERM)
            if not await lock.released(home.lock, STOP_SECONDS):
                raise Overdue(
                    f"the world (process {running.pid}) is still stopping after {STOP_SECONDS:g} s; see {home.log}"
                )
            progress.say("the world has stopped")
        else:
            progress.say("no world was running", mark="-")
        if delete_data and home.root.exists():
            for path in (home.clusters, home.authority):
                shutil.rmtree(path, ignore_errors=True)
            for path in (home.kubeconfig, home.log, home.lock, *home.root.glob(f"{home.database.name}*")):
                path.unlink(missing_ok=True)
            progress.say(f"its state in {home.root} is deleted")


async def status(
    *,
    output_format: Annotated[
        str, Parameter(name=["--output", "-o"], help="json, yaml or jsonpath=TEMPLATE.", show_default=False)
    ] = "",
) -> None:
    """Say whether the laptop world runs, and what is in it. Exit code 3 when it does not run.

    Example: `espalier status -o jsonpath={.kubeconfig}`
    """
    output.check_format(output_format)
    home = Home.locate()
    running = lock.holder(home.lock)
    if running is None:
        raise Away(f"no world runs in {home.root}; start it with `espalier up`")
    facts = {"pid": running.pid, "url": running.url, "home": str(home.root), "kubeconfig": str(home.kubeconfig)}
    if output_format:
        output.write_facts(facts, output_format)
        return
    output.write_table(("world", ""), list(facts.items()))
    sys.stdout.write("\n")
    try:
        async with connection.connect(flags.Connection(kubeconfig=home.kubeconfig)) as connected:
            await tables.write(connected.client, Selection(Cluster.resource, None))
    except KubeError as error:
        raise Away(f"the world's process runs, but its API server does not answer: {error}") from error
