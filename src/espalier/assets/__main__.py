"""`python3 -m espalier.assets [--row ROW] [WHAT...]`: what `make real-assets` runs, before anything is installed.

Exit codes: 0 everything is there, 1 a build failed, 2 this machine lacks something that building needs.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - nothing is installed yet when this runs
    sys.exit(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")

import argparse
import signal
from collections.abc import Sequence

from espalier.api.version_matrix import ROWS
from espalier.assets.build import MissingRequirements, provide
from espalier.assets.cache import assets_folder
from espalier.assets.processes import BuildFailed
from espalier.assets.recipes import GROUPS, ROW, chosen


def main(arguments: Sequence[str]) -> int:
    """Build the requested components that are missing. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="espalier.assets", description="Build real Kubernetes programs into a cache outside the tree."
    )
    parser.add_argument("what", nargs="*", default=["tests"], help=f"{', '.join(GROUPS)}, or a component")
    parser.add_argument("--row", choices=ROWS, default=ROW.name, help="the row of versions, by its Kubernetes")
    chosen_arguments = parser.parse_args(arguments)
    try:
        components = chosen(chosen_arguments.what, row=ROWS[chosen_arguments.row])
    except ValueError as error:
        parser.error(str(error))
    try:
        provide(components, assets_folder(), say)
    except BuildFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    except MissingRequirements as lacking:
        print(lacking, file=sys.stderr)
        return 2
    return 0


def say(line: str) -> None:
    """Print a line of progress."""
    print(line, flush=True)


def stop(signal_number: int, _frame: object) -> None:
    """Handle SIGTERM and SIGHUP like an interrupt, so that incomplete builds are removed and compilers stopped."""
    raise SystemExit(128 + signal_number)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    sys.exit(main(sys.argv[1:]))
