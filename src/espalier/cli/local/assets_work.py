"""The work of `espalier assets`, apart from its flags: other commands need not load the build code."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence

from espalier.api.version_matrix import ROWS
from espalier.assets import build as building
from espalier.assets import inventory, recipes
from espalier.assets.base import DEFAULT_REPOSITORY
from espalier.assets.cache import assets_folder, is_intact
from espalier.assets.component import MIB
from espalier.assets.processes import BuildFailed
from espalier.cli.kit.failures import Exit, Failure, Usage
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import Table

ASSETS = Table(("Name", "Version", "State", "Size", "To Build", "Folder"))


class Interrupted(Failure):
    """A build was interrupted; none of its processes is left."""

    exit = Exit.INTERRUPTED


def build(what: Sequence[str], image_repository: str | None, row: str | None, *, dry_run: bool) -> None:
    """Build what is requested and missing, or only print what that would be."""
    try:
        components = recipes.chosen(
            what or ["nodes"], image_repository or DEFAULT_REPOSITORY, ROWS[row] if row else recipes.ROW
        )
    except ValueError as error:
        raise Usage(str(error)) from None
    assets = assets_folder()
    try:
        if not dry_run:
            with _stopped_by_signals():
                building.provide(components, assets, say)
            return
        wanted = [component for component in components if not is_intact(component.home(assets))]
        building.announce(wanted, assets, say)
        if missing := building.missing_requirements(wanted, assets) if wanted else []:
            raise building.MissingRequirements(missing)
    except (BuildFailed, building.MissingRequirements) as failure:
        raise Failure(str(failure)) from None
    except KeyboardInterrupt:
        raise Interrupted("stopped; what was finished stays, the same command builds the rest") from None


def list_(output_format: str) -> None:
    """Print what is built, what can be built, and what is outdated."""
    assets = assets_folder()
    items = inventory.inventory(assets)
    if output_format in ("", "wide"):
        output.write_table(ASSETS if output_format else ASSETS.without("Folder"), [_cells(item) for item in items])
        return
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
    output.write_facts({"folder": str(assets), "assets": rows}, output_format, rows="assets", kind="asset")


def _cells(item: inventory.Item) -> tuple[str, ...]:
    size = f"{item.size / MIB:.0f} MiB"
    if item.state is inventory.State.MISSING:
        return item.name, item.version, item.state, f"~{size}", f"~{item.minutes:g} min", ""
    return item.name, item.version, item.state, size, "", item.folder.name


def prune(*, dry_run: bool) -> None:
    """Remove what is outdated, or only print what that would be."""
    assets = assets_folder()
    items = inventory.prune(assets, say, dry_run=dry_run)
    removed = [item for item in items if item.state is inventory.State.OUTDATED]
    size = sum(item.size for item in removed) / MIB
    verb = "would be removed" if dry_run else "removed"
    say(f"{len(removed)} {verb} in {assets}, {size:.0f} MiB" if items else f"nothing is outdated in {assets}")


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM stop the build as Ctrl-C does, so that no compiler keeps running."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def say(line: str) -> None:
    """Print a line of progress immediately."""
    output.say(line)
