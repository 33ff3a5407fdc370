"""Progress of long reads and writes: amount, rate and time left, on a terminal only."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from espalier.cli.kit.printing.output import console


class Transfer:
    """A progress bar on standard error, removed at the end. Without a terminal, nothing is shown."""

    def __init__(self, title: str, total: int | None = None) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        shown = sys.stderr.isatty()
        self._progress = Progress(*columns, console=console(stderr=True), transient=True, disable=not shown)
        self._task = self._progress.add_task(title, total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def moved(self, size: int) -> None:
        """Add transferred bytes."""
        self._progress.advance(self._task, size)
