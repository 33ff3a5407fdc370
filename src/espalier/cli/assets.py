"""`espalier assets build|list|prune`: real programs, images and node file systems, built on this machine."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import Annotated

from cyclopts import App, Parameter

from espalier.cli import output
from espalier.cli.failures import Exit, Failure, Usage
from espalier.local.assets import base, recipes, stock
from espalier.local.assets import build as building
from espalier.local.assets.cache import assets_folder, is_intact
from espalier.local.assets.component import MIB
from espalier.local.assets.processes import BuildFailed


class Interrupted(Failure):
    """Somebody stopped a build; nothing of it runs on."""

    exit = Exit.INTERRUPTED


def register(app: App) -> None:
    """Add the commands to the program."""
    group = App(
        name="assets",
        help="Build what real clusters are made of, from sources, into $ESPALIER_CACHE (~/.cache/espalier).",
    )
    group.command(build)
    group.command(list_, name="list")
    group.command(prune)
    app.command(group)


def build(
    *what: Annotated[str, Parameter(help="tests, nodes, a component, or one version: node-base-1.35.4.")],
    image_repository: Annotated[
        str, Parameter(help="Where the names of the nodes' images say that they come from.")
    ] = base.DEFAULT_REPOSITORY,
    dry_run: Annotated[bool, Parameter(negative="", help="Only say what would be built, and what is lacking.")] = False,
) -> None:
    """Build what is not there yet; without a name all of it. What is finished stays when it is stopped.

    Sizes and times are said beforehand. `tests` is what a management cluster runs and needs Go; `nodes` is all that
    `espalier up --nodes real` needs, and needs root and debootstrap as well.

    Example: `espalier assets build node-base-1.35.4`
    """
    try:
        components = recipes.chosen(what or ["nodes"], image_repository)
    except ValueError as error:
        raise Usage(str(error)) from None
    assets = assets_folder()
    try:
        if dry_run:
            wanted = [component for component in components if not is_intact(component.home(assets))]
            building.announce(wanted, assets, _say)
            if missing := building.lacking(wanted, assets) if wanted else []:
                raise building.Lacking(missing)
            return
        with _stopped_by_signals():
            building.provide(components, assets, _say)
    except (BuildFailed, building.Lacking) as failure:
        raise Failure(str(failure)) from None
    except KeyboardInterrupt:
        raise Interrupted("stopped; what was finished stays, the same command builds the rest") from None


def list_(
    *,
    output_format: Annotated[
        str, Parameter(name=["--output", "-o"], help="json, yaml or jsonpath=TEMPLATE.", show_default=False)
    ] = "",
) -> None:
    """List what is built, what can be built and what it costs, and what is outdated.

    Example: `espalier assets list -o yaml`
    """
    output.check_format(output_format)
    assets = assets_folder()
    items = stock.stock(assets)
    if output_format:
        rows = [
            {
                "name": item.name,
                "version": item.version,
                "state": item.state.value,
                "bytes": item.size,
                "minutes": item.minutes,
                "folder": str(item.folder),
            }
            for item in items
        ]
        output.write_facts({"folder": str(assets), "assets": rows}, output_format)
        return
    output.write_table(
        ("Name", "Version", "State", "Size", "To Build", "Folder"),
        [
            (
                item.name,
                item.version,
                item.state,
                f"{'about ' if item.state is stock.State.MISSING else ''}{item.size / MIB:.0f} MiB",
                f"about {item.minutes:g} min" if item.state is stock.State.MISSING else "",
                item.folder.name if item.state is not stock.State.MISSING else "",
            )
            for item in items
        ],
    )


def prune(
    *,
    dry_run: Annotated[bool, Parameter(negative="", help="Only say what would be removed.")] = False,
) -> None:
    """Remove what no present recipe makes, after saying what. What nodes are mounted from stays.

    Example: `espalier assets prune --dry-run`
    """
    assets = assets_folder()
    items = stock.prune(assets, _say, dry_run=dry_run)
    removed = [item for item in items if item.state is stock.State.OUTDATED]
    size = sum(item.size for item in removed) / MIB
    verb = "would be removed" if dry_run else "removed"
    _say(f"{len(removed)} {verb} in {assets}, {size:.0f} MiB" if items else f"nothing is outdated in {assets}")


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does, so that no compiler runs on."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
