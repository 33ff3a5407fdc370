"""`espalier up | down | status`: the local environment as a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol, Self
from urllib.parse import unquote

import click
import msgspec

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.version_matrix import DEFAULT_ROW, KUBERNETES, ROW_VARIABLE, ROWS
from espalier.cli.kit import flags, interrupts, process_tuning, shown_commands
from espalier.cli.kit.commands import Command
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.home import Home, naming, private
from espalier.cli.kit.failures import Exit, Failure, NotReachable, Overdue, Usage, explain
from espalier.cli.kit.printing import output, tables
from espalier.cli.kit.printing.layout import Table
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.kit.printing.tables import Selection
from espalier.cli.local import lock
from espalier.cli.local.nodes import state_of
from espalier.kube.errors import KubeError
from espalier.releases import Releases
from espalier.runtime import logs

ENVIRONMENT = Table(("Local Environment", ""))
PROGRAMS = Table(("Program", "State", "Restarts", "Pid", "Log"))

_READY = "ready"
STOP_SECONDS = 40.0
START_SECONDS = 60.0
REAL_START_SECONDS = 240.0
"""A real management cluster is ready in about fifteen seconds on an idle machine."""


class Nodes(StrEnum):
    """Kind of machines."""

    SIMULATED = "simulated"
    REAL = "real"


class ApiServer(StrEnum):
    """API server of the management cluster."""

    EMBEDDED = "embedded"
    REAL = "real"


class RealNodes(NamedTuple):
    """Options of real nodes."""

    addresses: str
    in_place: FrontEnd


class SimulatedNodes(NamedTuple):
    """Options of simulated nodes."""

    boot_seconds: float
    kubernetes: str
    """The minor version of Kubernetes that the embedded API server reports."""


@click.command(cls=Command)
@click.option("--detach", "-d", is_flag=True, help="Run in the background.")
@click.option(
    "--port",
    type=flags.Number(0, 65535),
    default=0,
    metavar="PORT",
    help="Port of the management API server; 0 keeps the previous one, or picks a free one.",
)
@flags.boot_seconds(0.2)
@flags.choice(
    "--nodes",
    Nodes.SIMULATED,
    help="simulated, or real: kubelets in systemd-nspawn containers, on Linux, as root.",
)
@click.option(
    "--node-addresses",
    default="",
    metavar="RANGE",
    show_default="that of its nodes, else a free one from 10.77.0.0/24 on",
    help="IPv4 range of real nodes and their control planes, on a dedicated bridge.",
)
@click.option(
    "--api-server", type=flags.OneOf(ApiServer), help="embedded (for simulated nodes) or real (for real ones)."
)
@click.option(
    "--kubernetes",
    type=click.Choice(list(KUBERNETES)),
    help=f"Kubernetes version of the embedded API server. Default: {DEFAULT_ROW}.",
)
@flags.choice(
    "--in-place",
    FrontEnd.ANNOTATIONS,
    help="How machines are upgraded in place, as for `espalier manager`; hooks on real nodes.",
)
@flags.log_level(default="warning")
@flags.releases
@click.option("--ready-descriptor", type=int, default=-1, hidden=True)
async def up(
    *,
    detach: bool,
    port: int,
    boot_seconds: float,
    nodes: Nodes,
    node_addresses: str,
    api_server: ApiServer | None,
    kubernetes: str | None,
    in_place: FrontEnd,
    log_level: str,
    releases: Path | None,
    ready_descriptor: int,
) -> None:
    """Run the local environment: a management cluster with all controllers, and simulated machines or real nodes.

    It is for trials and tests only, not for production.

    \b
    Examples:
      espalier up --detach
      espalier up --nodes real
      espalier up --kubernetes 1.37
    """
    process_tuning.tune()
    logs.setup(level=log_level)
    fit(nodes, api_server, in_place, kubernetes)
    offered = Releases.load(releases)  # report an unusable folder before anything starts
    home = Home.locate()
    if nodes is Nodes.SIMULATED:
        os.umask(0o077)  # other users' programs read files of real nodes
    if detach:
        with home.explained():
            home.create()
        arguments = ["--port", str(port), "--boot-seconds", str(boot_seconds), "--log-level", log_level]
        arguments += ["--nodes", nodes, "--node-addresses", node_addresses, "--in-place", in_place]
        arguments += ["--kubernetes", kubernetes] if kubernetes else []
        arguments += ["--releases", str(releases)] if releases else []
        await _detach(home, arguments, REAL_START_SECONDS if nodes is Nodes.REAL else START_SECONDS)
        return
    # The output of a background process goes to its log.
    printed = naming(home.log) if ready_descriptor >= 0 else contextlib.nullcontext()
    with _Starter(ready_descriptor) as starter, home.explained(), printed:
        simulated = SimulatedNodes(boot_seconds, kubernetes or DEFAULT_ROW)
        await _run(home, RealNodes(node_addresses, in_place), nodes, port, simulated, offered, starter)


class _Starter:
    """The waiting command: it learns whether the local environment serves, or why it does not start.

    Not by the log, which may lie on a disk that is full.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        if descriptor >= 0:
            # It reads to the end, which programs that are started from here would put off for as long as they run.
            os.set_inheritable(descriptor, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        explained = explain(error) if error is not None else None
        if explained is not None:
            self.report(f"{explained[0]:d} {explained[1]}")

    def report(self, text: str) -> None:
        """Report once; nobody may be waiting."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.write(descriptor, text.encode())
            os.close(descriptor)


async def _run(
    home: Home,
    real: RealNodes,
    nodes: Nodes,
    port: int,
    simulated: SimulatedNodes,
    offered: Releases,
    starter: _Starter,
) -> None:
    home.create()
    with lock.hold(home.lock) as held, Progress() as progress:
        progress.wait("starting the API server and the controllers")
        stop = asyncio.Event()
        for number in interrupts.ending():
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with _environment(home, nodes, real, port, simulated, offered) as environment:
            held.announce(environment.url)
            starter.report(_READY)
            progress.say(f"the management cluster serves at {environment.url}")
            _how_to_go_on(progress, home)
            await environment.until_failed_or(stop)
            progress.wait("stopping")
        progress.say("stopped; `espalier up` resumes it")
        left = state_of(home).nodes()
        if left:
            progress.say(f"{len(left)} real nodes keep running; `espalier down --delete-data` removes them")


class RunningEnvironment(Protocol):
    """Either kind of local environment."""

    url: str

    async def until_failed_or(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set; raise the error if something fails first."""


def _environment(
    home: Home, nodes: Nodes, real: RealNodes, port: int, simulated: SimulatedNodes, releases: Releases
) -> AbstractAsyncContextManager[RunningEnvironment]:
    # Imported here: other commands need not load the local environment.
    if nodes is Nodes.REAL:
        from espalier.cli.local.environment.real import (  # noqa: PLC0415
            BuiltBases,
            RealEnvironment,
            RealSettings,
            real_self_managed,
        )

        settings = RealSettings(real.addresses, in_place=real.in_place)
        run = real_self_managed if home.bootstrap.exists() else RealEnvironment.run
        return run(home, settings, port=port, releases=releases, bases=BuiltBases())
    from espalier.cli.local.environment.simulated import SimulatedEnvironment  # noqa: PLC0415
    from espalier.cli.local.environment.simulated_self_managed import simulated_self_managed  # noqa: PLC0415

    left = state_of(home).nodes()
    if left:
        names = ", ".join(record.name for record in left)
        raise Failure(
            f"the local environment in {home.root} has real nodes ({names}): resume it with "
            "`espalier up --nodes real`, or remove it with `espalier down --delete-data`"
        )
    if home.bootstrap.exists():
        if home.components.exists():
            raise Failure(
                f"the management cluster in {home.root} has real nodes: resume it with `espalier up --nodes real`, or "
                "remove it with `espalier down --delete-data`"
            )
        return simulated_self_managed(home, port=port, boot_seconds=simulated.boot_seconds, releases=releases)
    home.components.unlink(missing_ok=True)  # of real nodes before: what reads them takes these machines for such
    version = f"v{KUBERNETES[simulated.kubernetes].patch}"
    boot_seconds = simulated.boot_seconds
    return SimulatedEnvironment.run(home, port=port, boot_seconds=boot_seconds, releases=releases, version=version)


def fit(
    nodes: Nodes,
    api_server: ApiServer | None,
    in_place: FrontEnd = FrontEnd.ANNOTATIONS,
    kubernetes: str | None = None,
) -> None:
    """Raise `Usage` if the API server or the upgrades do not support this kind of nodes."""
    if nodes is Nodes.REAL and kubernetes is not None:
        raise Usage(
            f"--kubernetes: found {kubernetes}, allowed with --nodes simulated alone: with real nodes, "
            f"{ROW_VARIABLE} selects the programs ({', '.join(ROWS)})"
        )
    if nodes is Nodes.SIMULATED and in_place is FrontEnd.HOOKS:
        raise Usage(
            "--in-place: found hooks, allowed with --nodes simulated is annotations: "
            "the simulated Cluster API calls no hooks"
        )
    if nodes is Nodes.REAL and api_server is ApiServer.EMBEDDED:
        raise Usage(
            "--api-server: found embedded, allowed with --nodes real is real: the embedded API server does not "
            "support Cluster API's own controllers yet (they convert objects by webhooks)"
        )
    if nodes is Nodes.SIMULATED and api_server is ApiServer.REAL:
        raise Usage("--api-server: found real, allowed with --nodes simulated is embedded")


def _how_to_go_on(progress: Progress, home: Home) -> None:
    if home.bootstrap.exists():
        name = unquote(home.root.name)
        machines = "real nodes" if home.components.exists() else "simulated machines"
        if home.has_bootstrap():
            progress.say(
                f"this is the bootstrap of management cluster {name}: give the command again that uses it, "
                "`espalier create cluster` or `espalier delete cluster`"
            )
        else:
            progress.say(
                f"these are the {machines} of management cluster {name}. Management cluster {name} has its own "
                f"kubeconfig: {name}/{name}-eks-a-cluster.kubeconfig in the folder of its creation"
            )
        return
    progress.show(
        "",
        f"export KUBECONFIG={shlex.quote(str(home.kubeconfig))}",
        f"kubectl apply -f {shown_commands.example()}",
        "kubectl get clusters.anywhere.eks.amazonaws.com -w",
        "",
    )


async def _detach(home: Home, arguments: Sequence[str], seconds: float) -> None:
    read, write = os.pipe()
    command = [sys.executable, "-m", "espalier.cli", "up", *arguments]
    with home.explained(), open(home.log, "ab", opener=private) as log:  # noqa: ASYNC230  another process writes it
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
        progress.wait("starting the local environment")
        try:
            async with asyncio.timeout(seconds):
                answer = await _answer(read)
        except TimeoutError:
            process.kill()
            raise Overdue(f"the local environment did not serve within {seconds:g} s; see {home.log}") from None
        except asyncio.CancelledError:
            process.terminate()  # its session is its own: no Ctrl-C reaches it, and `down` does not know it yet
            await asyncio.to_thread(process.wait)
            raise
        code, _, text = answer.partition(" ")
        if code.isdecimal():
            failure = Failure(text)
            failure.exit = Exit(int(code))
            raise failure
        if answer != _READY:
            tail = home.log.read_text(errors="replace").splitlines()[-5:]
            raise Failure("the local environment did not start:\n" + "\n".join(tail) + f"\n(full log: {home.log})")
        running = lock.holder(home.lock)
        progress.say(
            f"the local environment runs in the background (process {process.pid})"
            + (f", serving at {running.url}" if running else "")
        )
        _how_to_go_on(progress, home)


async def _answer(descriptor: int) -> str:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(descriptor, "rb"))
    return (await reader.read()).decode(errors="replace")


@click.command(cls=Command)
@click.option("--delete-data", is_flag=True, help="Also delete its state: clusters, certificates, kubeconfig.")
async def down(*, delete_data: bool) -> None:
    """Stop the local environment. Its state is kept for the next `espalier up`, unless --delete-data is given.

    \b
    Example:
      espalier down --delete-data
    """
    home = Home.locate()
    running = lock.holder(home.lock)
    with Progress() as progress:
        if running and running.pid:
            progress.wait(f"stopping the local environment (process {running.pid})")
            lock.stop(home.lock, running)
            if not await lock.released(home.lock, STOP_SECONDS):
                raise Overdue(
                    f"the local environment (process {running.pid}) is still stopping after {STOP_SECONDS:g} s; "
                    f"see {home.log}"
                )
            progress.say("the local environment has stopped")
        else:
            progress.say("no local environment was running", sign="-")
        if delete_data and home.root.exists():
            from espalier.realnodes.nspawn.setup import remove_everything  # noqa: PLC0415

            left = state_of(home).nodes()
            if left or state_of(home).network() is not None:
                progress.wait(f"removing {len(left)} real nodes")
                await remove_everything(state_of(home))
                progress.say(f"{len(left)} real nodes are gone")
            for path in (home.clusters, home.authority, home.management, home.managers, home.simulated):
                shutil.rmtree(path, ignore_errors=True)
            files = (home.kubeconfig, home.components, home.log, home.lock, home.bootstrap)
            for path in (*files, *home.root.glob(f"{home.database.name}*")):
                path.unlink(missing_ok=True)
            progress.say(f"its state in {home.root} is deleted")


@click.command(cls=Command)
@flags.output()
async def status(*, output_format: str) -> None:
    """Show the status of the local environment. Exits with 3 if it is not running.

    With -o json or yaml: `pid`, `url`, `home`, `kubeconfig`, and `programs` with real nodes.

    \b
    Example:
      espalier status -o jsonpath={.kubeconfig}
    """
    home = Home.locate()
    running = lock.holder(home.lock)
    if running is None:
        raise NotReachable(f"no local environment runs in {home.root}; start it with `espalier up`")
    facts = {"pid": running.pid, "url": running.url, "home": str(home.root), "kubeconfig": str(home.kubeconfig)}
    from espalier.realnodes.management.processes import read_states  # noqa: PLC0415

    programs = read_states(home.management)
    if output_format:
        more = {"programs": msgspec.to_builtins(programs)} if programs else {}
        output.write_facts({**facts, **more}, output_format)
        return
    output.write_table(ENVIRONMENT, list(facts.items()))
    output.say()
    if programs:
        rows = [
            (report.name, report.state, str(report.restarts), str(report.pid or ""), report.log) for report in programs
        ]
        output.write_table(PROGRAMS, rows)
        output.say()
    if home.bootstrap.exists() and not home.has_bootstrap():
        return  # its management cluster has a kubeconfig of its own
    try:
        async with connection.connect(flags.Connection(kubeconfig=home.kubeconfig)) as connected:
            await tables.write(connected.client, Selection(Cluster.resource, None))
    except KubeError as error:
        raise NotReachable(
            f"the process of the local environment runs, but its API server does not answer: {error}"
        ) from error
