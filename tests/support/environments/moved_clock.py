"""`espalier` as a process whose wall clock is off by as many seconds as a file says, at each moment.

python -m tests.support.environments.moved_clock FILE etcd-agent run ...
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from espalier.cli.main import main
from espalier.runtime.clock import SystemClock


def moved_by(file: Path) -> None:
    """Every clock of this process is off from now on."""

    def now(self: SystemClock) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=float(file.read_text()))

    SystemClock.now = now  # type: ignore[method-assign]


if __name__ == "__main__":
    moved_by(Path(sys.argv.pop(1)))
    main()
