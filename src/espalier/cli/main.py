"""`espalier`: parses the command line, runs one command, ends with its exit code."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import uvloop
from cyclopts import App, CycloptsError

from espalier.cli.failures import Exit, explain

EPILOGUE = """
Exit codes: 0 done · 1 refused or failed (the reason is on standard error) · 2 wrong command line ·
3 no API server answered · 4 time is over · 130 interrupted.

State of the laptop world lies under `$ESPALIER_HOME` (default: `espalier` in the XDG data folder);
`$ESPALIER_HOME/kubeconfig` is for kubectl.
"""

ROOMS: Mapping[str, Sequence[str]] = {
    "up": ("up", "down", "status"),
    "demo": ("demo",),
    "lifecycle": ("create", "upgrade", "delete"),
    "plan": ("plan",),
    "generate": ("generate",),
    "get": ("get",),
    "describe": ("describe",),
    "kubeconfig": ("kubeconfig",),
    "releases": ("releases",),
    "upgrades": ("upgrades",),
    "manager": ("manager",),
    "manifests": ("manifests",),
    "assets": ("assets",),
    "image": ("image",),
    "nodes": ("nodes",),
    "version": ("version",),
    "completion": ("completion",),
}
"""Modules of this package, and the commands that each adds to the program."""


def program(tokens: Sequence[str] = ()) -> App:
    """The program, with the commands that a command line can mean: to import all of them takes longer than most run."""
    app = App(
        name="espalier",
        help="Creates, scales, upgrades and deletes Kubernetes clusters from declarative objects.",
        help_format="markdown",
        help_epilogue=EPILOGUE,
        version=_version,
    )
    named = [room for room, commands in ROOMS.items() if tokens and tokens[0] in commands and room != "completion"]
    for room in named or ROOMS:
        import_module(f"espalier.cli.{room}").register(app)
    return app


def _version() -> str:
    from importlib import metadata  # noqa: PLC0415  to load it takes longer than to parse a command line

    return metadata.version("espalier")


async def _finish(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def run(tokens: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        command, bound, _ = program(tokens).parse_args(tokens, exit_on_error=False, print_error=True)
    except CycloptsError:
        return Exit.USAGE
    try:
        result = command(*bound.args, **bound.kwargs)
        if inspect.isawaitable(result):
            result = uvloop.run(_finish(result))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader left (`| head`): not an error, but Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except (Exception, KeyboardInterrupt, asyncio.CancelledError) as error:
        explained = explain(error)
        if explained is None:
            raise
        code, text = explained
        print(f"error: {text}" if not text.startswith("Error") else text, file=sys.stderr)
        return code
    return result if isinstance(result, int) else Exit.OK


def main() -> NoReturn:
    """The console script."""
    code = run(sys.argv[1:])
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the reader left
            stream.flush()
    os._exit(code)  # what was opened is closed: to take the interpreter apart takes a tenth of a short command's time
