"""`espalier plan` for one cluster: the whole process, from its start to its exit code."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import PROGRAM, arguments, log_of, report, size, spread, start_environment

EXAMPLE = Path(__file__).parents[1] / "examples" / "docker.yaml"
RUNS, PATIENCE = size(7, 1), 60.0


def espalier(home: Path, *arguments: str, expect: int = 0) -> tuple[float, float]:
    """Wall seconds and CPU seconds of a command that ends with this code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    environment = {**os.environ, "ESPALIER_HOME": str(home)}
    done = subprocess.run([*PROGRAM, *arguments], env=environment, cwd=home.parent, capture_output=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode != expect:
        raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def until_served(home: Path) -> None:
    """Wait until the environment answers."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            espalier(home, "get", "clusters", "-o", "name")
        except RuntimeError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(log_of(home).read_text())


def main() -> None:
    arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        process = start_environment(home)
        try:
            until_served(home)
            espalier(home, "create", "cluster", "-f", str(EXAMPLE))
            changed = Path(folder) / "changed.yaml"
            changed.write_text(EXAMPLE.read_text().replace('"1.35"', '"1.36"').replace("count: 2", "count: 3"))
            unchanged = [espalier(home, "plan", "-f", str(EXAMPLE)) for _ in range(RUNS)]
            upgrades = [espalier(home, "plan", "-f", str(changed), expect=1) for _ in range(RUNS)]
        finally:
            process.terminate()
            process.wait()
    versions = [_bare("-c", "pass") for _ in range(5)]
    for what, runs in (("nothing changes", unchanged), ("an upgrade", upgrades)):
        report(
            f"espalier plan of one cluster, {what}: the whole process",
            f"{spread([seconds for seconds, _ in runs])}, of it CPU {spread([cpu for _, cpu in runs])}",
            f"(python that does nothing: {spread(versions)})",
            "aim: <= 0.3 s",
        )


def _bare(*arguments: str) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True)
    return time.monotonic() - began


if __name__ == "__main__":
    main()
