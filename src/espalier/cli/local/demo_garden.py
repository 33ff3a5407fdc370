"""`espalier demo garden`: a garden with seeds and a shoot that keeps running, for kubectl, `espalier shoots` and
drills."""

from __future__ import annotations

import asyncio
import os
import random
import shlex
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.apiserver.http import HttpShell
from espalier.cli.kit import interrupts, process_tuning, shown_commands
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.local.demo_folder import demo_folder
from espalier.cli.local.environment.garden.gardens import Garden, SimulatedSeed
from espalier.cli.local.environment.garden.migration_scenario import (
    GARDEN_NAMESPACE,
    NAME,
    PROJECT,
    TECHNICAL_ID,
    MigrationScenario,
    quick_settings,
)
from espalier.cli.local.environment.seed_programs.assembly import reach_shoot
from espalier.cli.shoots.shoot_kubeconfig import persisted_data
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.errors import ServerFailure, Status, Unreachable
from espalier.kube.transports.inprocess import failure
from espalier.kube.transports.wire import Endpoint, Request, Response, Stream, User
from espalier.runtime import logs
from espalier.runtime.clock import SystemClock
from espalier.shoots.secrets.names import CA, KUBE_APISERVER
from espalier.shoots.secrets.persisted import authority_of
from espalier.simulator.connections import Reach, Reached, ReachingTransport

SEEDS = ("east", "west", "north")
GARDEN = "garden"
HOST = "127.0.0.1"
COMMANDS = ("off", "on")


@dataclass(frozen=True)
class ReachedEndpoint:
    """The API server of a seed while the seed has power, or of a shoot wherever it is."""

    reach: Reach

    async def serve(self, request: Request, user: User) -> Response:
        """See `Endpoint`."""
        try:
            return await ReachingTransport(self.reach, user).request(request)
        except Unreachable as error:
            return _unavailable(error)

    async def watch(self, request: Request, user: User) -> Stream | Response:
        """See `Endpoint`."""
        try:
            return await ReachingTransport(self.reach, user).stream(request)
        except Unreachable as error:
            return _unavailable(error)


def _unavailable(error: Unreachable) -> Response:
    return failure(ServerFailure(Status(message=str(error), reason="ServiceUnavailable", code=503)))


def _endpoint(seed: SimulatedSeed) -> Endpoint:
    cluster = seed.cluster
    return ReachedEndpoint(lambda: Reached(cluster.workload.server, [cluster.life]))


def shoot_endpoint(garden: Garden, technical_id: str) -> Endpoint:
    """The API server of a shoot, in the seed to which DNS leads."""

    def reach() -> Reached:
        seed, namespace = garden.place_of(garden.address_of(technical_id))
        if not isinstance(seed, SimulatedSeed):
            raise Unreachable(f"seed {seed.name} is not simulated", sent=False)
        try:
            return reach_shoot(seed.cluster, namespace, seed.links.shoot)
        except ConnectionError as error:
            raise Unreachable(str(error), sent=False) from error

    return ReachedEndpoint(reach)


@asynccontextmanager
async def served_shoot(garden: Garden, name: str, technical_id: str) -> AsyncIterator[str]:
    """Serve the API server of a shoot within the block, with the shoot's own certificate. Gives its URL: no DNS of
    this machine has its name, but the certificate is also valid for this one."""
    state = (await garden.client.get(ShootState.resource, name, GARDEN_NAMESPACE)).decode(ShootState)
    secrets = {secret.name: persisted_data(secret) for secret in state.gardenlet.secrets}
    pair, authority = secrets[KUBE_APISERVER], authority_of(secrets[CA])
    serving = KeyPair(pair[f"{KUBE_APISERVER}.crt"], pair[f"{KUBE_APISERVER}.key"])
    shell = HttpShell(shoot_endpoint(garden, technical_id), host=HOST, serving=serving, client_ca=authority.certificate)
    await shell.start()
    try:
        yield f"https://localhost:{shell.port}"
    finally:
        await shell.stop()


@asynccontextmanager
async def served(garden: Garden, kubeconfig: Path) -> AsyncIterator[None]:
    """Serve the garden and its simulated seeds within the block, with an administrator's context for each in a file."""
    now, shells = garden.clock.now(), []
    authority = Authority.create("demo", now=now)
    serving = authority.issue_server("kube-apiserver", names=[HOST], now=now)
    admin = authority.issue_client("admin", groups=["system:masters"], now=now)
    seeds = {name: _endpoint(seed) for name, seed in garden.seeds.items() if isinstance(seed, SimulatedSeed)}
    try:
        for name, endpoint in {GARDEN: garden.server, **seeds}.items():
            shell = HttpShell(endpoint, host=HOST, serving=serving, client_ca=authority.certificate)
            shells.append(shell)
            await shell.start()
            Kubeconfig.of_cluster(
                name,
                server=shell.url,
                certificate_authority=authority.certificate,
                user="admin",
                credentials=admin,
                namespace=GARDEN_NAMESPACE if name == GARDEN else "",
            ).merge_into(kubeconfig, switch=name == GARDEN)
        yield
    finally:
        for shell in shells:
            await shell.stop()


async def run_command(garden: Garden, line: str) -> str:
    """Run a typed command, `off SEED` or `on SEED`. Returns what was done, or what is allowed."""
    verb, _, name = " ".join(line.split()).partition(" ")
    seed = garden.seeds.get(name)
    if verb not in COMMANDS or seed is None:
        seeds = ", ".join(garden.seeds)
        return f"found {line.strip()[:40]!r}, allowed: {' or '.join(COMMANDS)}, and one of the seeds {seeds}"
    if verb == "on":
        await seed.power_on()
        return f"seed {name} has power"
    await seed.power_off()
    return f"seed {name} has no power: its API server, etcds, gardenlet and extensions have ended"


async def show() -> None:
    """Run a garden until interrupted."""
    process_tuning.tune()
    logs.setup(level="critical")
    os.umask(0o077)
    began = time.monotonic()
    stop = asyncio.Event()
    for number in interrupts.ending():
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with demo_folder("demo-") as folder, Progress(output.console()) as progress:
        kubeconfig = folder / "kubeconfig"
        progress.wait(f"starting a garden and the seeds {', '.join(SEEDS)}, in this process")
        run = Garden.run_with(SystemClock(), random.SystemRandom(), SEEDS, quick_settings(), projects=(PROJECT,))
        async with run as garden, served(garden, kubeconfig):
            scenario = MigrationScenario(garden, progress.wait)
            beginning = asyncio.create_task(_begin(scenario), name="shoot")
            stopping = asyncio.create_task(stop.wait(), name="stop")
            try:
                await asyncio.wait({beginning, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if beginning.done():
                    await beginning
                    progress.say(f"shoot {NAME} runs on seed {SEEDS[0]}", aside=f"{time.monotonic() - began:.1f} s")
                    progress.settle()
                    async with served_shoot(garden, NAME, TECHNICAL_ID) as url:
                        explain(kubeconfig, url)
                        await _run_typed_commands(stop, garden)
            finally:
                for task in (beginning, stopping):
                    task.cancel()
                await asyncio.gather(beginning, stopping, return_exceptions=True)
            progress.wait("stopping everything")
        progress.say("stopped, and left nothing behind")


async def _begin(scenario: MigrationScenario) -> None:
    async with scenario.begun(SEEDS[0]):
        pass


def explain(kubeconfig: Path, url: str) -> None:
    """Print what can be done in the garden, in the order in which it works."""
    program, first, second = shown_commands.program(), *SEEDS[:2]
    output.say(
        f"\n  export KUBECONFIG={shlex.quote(str(kubeconfig))}\n"
        f"  {program} shoots list\n"
        f"  kubectl --context admin@{first} get pods --all-namespaces\n"
        f"  {program} shoots plan {NAME} --to {second}\n"
        f"  {program} shoots migrate {NAME} --to {second}\n"
        f"  {program} kubeconfig --shoot {NAME} --server {url} > {NAME}.kubeconfig\n"
        f"  kubectl --kubeconfig {NAME}.kubeconfig get nodes\n\n"
        f"Type `off {first}` to cut the power of a seed, `on {first}` to give it back.\n"
        "Ctrl-C stops everything. Drills: docs/migration.md"
    )


async def _run_typed_commands(stop: asyncio.Event, garden: Garden) -> None:
    """Run typed commands. At the end of the input, the garden keeps running."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            if loop.is_closed():
                return
            loop.call_soon_threadsafe(lines.put_nowait, line)

    # Reading ends with the process: nothing else can interrupt it.
    threading.Thread(target=read, name="standard input", daemon=True).start()
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        while not stop.is_set():
            typed = asyncio.create_task(lines.get(), name="line")
            await asyncio.wait({typed, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if typed.done():
                output.say(await run_command(garden, typed.result()))
            typed.cancel()
    finally:
        stopping.cancel()
