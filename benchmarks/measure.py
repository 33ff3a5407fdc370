"""What all benchmarks share: the machine, processes and their cost, and figures printed with their spread."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

Number = TypeVar("Number", int, float)

PROGRAM = [sys.executable, "-m", "espalier.cli"]
_SMALLEST = "--smallest"


def size(usual: Number, smallest: Number) -> Number:
    """How much a benchmark does: as usual, or as little as possible with `--smallest`, which shows that it runs."""
    return smallest if _SMALLEST in sys.argv[1:] else usual


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The parser of a benchmark's command line. Sizes that are asked for win over `--smallest`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(_SMALLEST, action="store_true", help="as little as possible: figures mean nothing")
    return parser


def machine() -> str:
    """One line about where the figures were taken."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"


def peak_memory(pid: int) -> int:
    """Highest resident memory of a process so far, in MiB."""
    return round(_memory(pid, "VmHWM"))


def memory(pid: int) -> float:
    """Resident memory of a process now, in MiB."""
    return _memory(pid, "VmRSS")


def private_memory(pid: int) -> float:
    """Memory of a process that no other one shares, in MiB."""
    return sum(_memory(pid, field, "smaps_rollup") for field in ("Private_Clean", "Private_Dirty"))


def _memory(pid: int, field: str, file: str = "status") -> float:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} tells nothing of its memory")


def cpu_seconds(pid: int, *, waited_for: bool = False) -> float:
    """User and system time of a process so far, also of the programs that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if waited_for else 13])) / os.sysconf("SC_CLK_TCK")


def spread(values: Sequence[float], unit: str = "s") -> str:
    """Median, and the range around it."""
    return f"{statistics.median(values):.2f} {unit} (of {len(values)}: {min(values):.2f} to {max(values):.2f})"


def report(title: str, *lines: str) -> None:
    """Print one benchmark's figures."""
    print(f"{title}   [{machine()}]")
    for line in lines:
        print(f"  {line}")
    print()


def start_environment(home: Path, *flags: str) -> subprocess.Popen[bytes]:
    """`espalier up` as its own process, with its own state."""
    with log_of(home).open("ab") as log:
        return subprocess.Popen(
            [*PROGRAM, "up", *flags], env={**os.environ, "ESPALIER_HOME": str(home)}, stdout=log, stderr=log
        )


def log_of(home: Path) -> Path:
    """Output of the environment: beside its home, which holds nothing but its own files."""
    return home.with_name(f"{home.name}.log")
