"""`espalier demo migration`: a shoot's control plane moves between seeds, with output and measurements."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from espalier.cli.kit import process_tuning, shown_commands
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import Table
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.local.demo_folder import demo_folder
from espalier.cli.local.environment import programs
from espalier.cli.local.environment.garden.garden_objects import PODS
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.cli.local.environment.garden.migration_scenario import (
    DELTA_PERIOD,
    NODES,
    QUICK,
    TECHNICAL_ID,
    VERSION,
    WEB,
    MigrationScenario,
    Move,
    quick_settings,
)
from espalier.realnodes.nspawn.system.state import State
from espalier.runtime import logs
from espalier.runtime.clock import SystemClock
from espalier.shoots.secrets.names import PERSISTED

if TYPE_CHECKING:
    from espalier.cli.local.environment.real_machines.machines import RealMachines
    from espalier.cli.local.environment.seed_processes.assembly import RealControlPlanes

FIRST, SECOND = "east", "west"
MOVES = Table(("",), lists=(0,))


async def show(*, real: bool = False, real_nodes: bool = False) -> None:
    """Run the scenario on the real clock; with `real` the shoot's control plane consists of real programs, with
    `real_nodes` so do its nodes.

    Raises `Failure` if something that this needs is missing.
    """
    process_tuning.tune()
    logs.setup(level="critical")
    began = time.monotonic()
    settings = quick_settings()
    async with AsyncExitStack() as stack:
        planes = await stack.enter_async_context(_real_control_planes()) if real else None
        machines = await stack.enter_async_context(_real_machines(planes.version)) if planes and real_nodes else None
        if machines is not None:
            settings = machines.settings(settings)
        progress = stack.enter_context(Progress(output.console()))
        progress.wait(f"starting a garden and the seeds {FIRST} and {SECOND}, in this process")
        async with Garden.run_with(
            SystemClock(),
            random.SystemRandom(),
            [FIRST, SECOND],
            settings,
            control_planes=planes,
            new_machines=machines.of if machines is not None else None,
        ) as garden:
            progress.say(f"a garden with the seeds {FIRST} and {SECOND}", aside=f"{time.monotonic() - began:.1f} s")
            version = planes.version if planes is not None else VERSION
            if planes is not None:
                progress.say(f"control planes are real: etcd, and Kubernetes {version}, as processes")
            containers = machines.containers if machines is not None else WEB
            scenario = MigrationScenario(garden, progress.wait, version=version, containers=containers)
            moves = await _moves(scenario, progress, settings.garden.give_up_after)
            if machines is not None:
                silent = max(machines.silences().values())
                progress.say(f"pods on the nodes wrote every second, and were silent for {silent:.1f} s at most")
            progress.wait("stopping everything")
        progress.settle()
        output.say()
        titles = ("", *(f"{move.source} to {move.destination}" for move in moves))
        output.write_table(MOVES.named(*titles), table(moves))
        explain(settings.garden.give_up_after)
        progress.say(f"the demonstration took {time.monotonic() - began:.0f} s and left nothing behind")
        output.say(
            "\nWhat happens in each step, and what to do when it does not: docs/migration.md\n"
            "For a garden that stays, with commands to move its shoot:\n"
            f"  {shown_commands.program()} demo garden\n"
        )


def _real_control_planes() -> AbstractAsyncContextManager[RealControlPlanes]:
    from espalier.cli.local.environment.seed_processes import assembly  # noqa: PLC0415  not for simulated ones

    path = programs.find_control_plane()
    if path is None:
        wanted = ", ".join(programs.CONTROL_PLANE_PROGRAMS)
        raise Failure(
            f"--control-plane real needs {wanted}, which are not built yet: run `espalier assets build tests`, which "
            "needs Go, or name a folder that has them in KUBEBUILDER_ASSETS"
        )
    return assembly.RealControlPlanes.with_programs(path)


@asynccontextmanager
async def _real_machines(version: str) -> AsyncIterator[RealMachines]:
    from espalier.cli.local.environment import real  # noqa: PLC0415  not for simulated ones
    from espalier.cli.local.environment.real_machines import machines  # noqa: PLC0415

    base = machines.newest_base(real.BuiltBases().all(), version)
    if base is None:
        raise Failure("--nodes real needs a base of nodes, which is not built yet: run `espalier assets build nodes`")
    with demo_folder() as home:
        place = home / "nodes"
        await real.check(real.RealSettings(machines.ADDRESSES, machines.BRIDGE), State(place))
        async with machines.RealMachines.on_this_machine(place, base, PODS) as made:
            yield made


async def _moves(scenario: MigrationScenario, progress: Progress, give_up_after: float) -> list[Move]:
    began = time.monotonic()
    async with scenario.begun(FIRST):
        seconds = time.monotonic() - began
        progress.say(f"shoot {TECHNICAL_ID} runs on seed {FIRST}, with {NODES} nodes", aside=f"{seconds:.1f} s")
        progress.say("a user writes through its API continuously, and counts acknowledged writes")
        _title(progress, f"Good case: the source works. spec.seedName: {SECOND}")
        good = _told(progress, await scenario.move(SECOND, "good case"))
        await asyncio.sleep(DELTA_PERIOD)
        _title(progress, f"Bad case: seed {SECOND} is destroyed, and the shoot is moved to {FIRST}")
        progress.say(
            f"the garden gives up on a seed after {give_up_after:g} s without a renewed Lease", sign="[dim]·[/]"
        )
        bad = _told(progress, await scenario.move(FIRST, "bad case", destroy_source=True))
        _title(progress, f"Back: seed {SECOND} returns, and the shoot is moved there again")
        calls = await scenario.returned(SECOND)
        progress.say(f"seed {SECOND} has cleaned up its part of the shoot, with {calls} calls to the infrastructure")
        back = _told(progress, await scenario.move(SECOND, "back"))
    return [good, bad, back]


def _told(progress: Progress, move: Move) -> Move:
    progress.say(f"the shoot runs on seed {move.destination}", aside=f"{move.seconds:.1f} s, API gap {move.gap:.1f} s")
    return move


def _title(progress: Progress, title: str) -> None:
    progress.settle()
    progress.out.print(f"\n[bold]{title}[/]")


def table(moves: Sequence[Move]) -> list[list[str]]:
    """Print a line for each measurement, with a column for each move."""
    measures: list[tuple[str, Callable[[Move], str]]] = [
        ("case", lambda move: move.what),
        ("API gap", lambda move: f"{move.gap:.1f} s"),
        ("whole move", lambda move: f"{move.seconds:.1f} s"),
        ("writes acknowledged so far", lambda move: f"{move.acknowledged}"),
        ("acknowledged writes lost", lambda move: f"{move.lost}"),
        ("nodes kept (same UID)", lambda move: f"{move.nodes_kept} of {NODES}"),
        ("pods kept (same UID)", lambda move: f"{move.pods_kept} of {NODES}"),
        ("persisted secrets unchanged", lambda move: f"{move.secrets_kept} of {len(PERSISTED)}"),
        ("creates in the infrastructure", lambda move: f"{move.creates}"),
        ("deletes in the infrastructure", lambda move: f"{move.deletes}"),
        ("left on the source", lambda move: "(destroyed)" if move.left is None else f"{len(move.left)} objects"),
    ]
    return [[name, *(cell(move) for move in moves)] for name, cell in measures]


def explain(give_up_after: float) -> None:
    """Print what the measurements mean."""
    output.say(
        f"""
A destroyed seed can't store the writes since its last delta snapshot: up to
{DELTA_PERIOD:g} s of writes are lost in the bad case, and none otherwise. Its API gap
includes waits: {give_up_after:g} s for a renewed Lease, {QUICK.progress_timeout:g} s for a final snapshot, and
{QUICK.lease_wait:g} s until no extension of the source can act. If the source works, there
are no waits: its API server stops before its etcd is handed over."""
    )
