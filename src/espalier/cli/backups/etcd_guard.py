"""`espalier etcd-guard`: the parent of an etcd, and the proxy through which clients reach it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import click

from espalier.cli.kit import flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.failures import Usage

_LONGEST_PATH = 107
"""The longest path of a unix socket on Linux."""


EXIT_CODES = """
\b
Exit codes: 0 ended by SIGTERM or SIGINT · 1 a path or an address can't be
used (the reason is on standard error) · 2 wrong command line
"""


@click.command(cls=Command, epilog=EXIT_CODES)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, help="etcd and its flags, after --.")
@click.option(
    "--listen", default="127.0.0.1:2379", metavar="HOST:PORT", show_default=True,
    help="Listen address for clients; port 0 picks a free one.",
)  # fmt: skip
@click.option("--etcd-socket", required=True, metavar="PATH", help="Unix socket on which etcd listens for clients.")
@click.option(
    "--plain-socket", default="", metavar="PATH",
    help="Unix socket to which clients without TLS are passed. Default: that of --etcd-socket.",
)  # fmt: skip
@click.option("--control", required=True, metavar="PATH", help="Unix socket for the agent. Only its owner can open it.")
@click.option("--liveness", default="", metavar="HOST:PORT", help="Listen address for liveness probes. Default: none.")
@click.option(
    "--stop-timeout", default="30s", metavar="DURATION", show_default=True, help="How long to wait for etcd to stop."
)
def etcd_guard(
    *,
    command: tuple[str, ...],
    listen: str,
    etcd_socket: str,
    plain_socket: str,
    control: str,
    liveness: str,
    stop_timeout: str,
) -> None:
    """Run etcd under the control of its backup agent, and admit clients until the agent's deadline.

    etcd must listen for clients on unix sockets only; the guard forwards bytes unchanged, including TLS. If the guard
    dies, etcd dies with it. On SIGTERM, it stops etcd, then itself.

    \b
    Example:
      espalier etcd-guard --etcd-socket /run/e --control /run/g -- etcd
    """
    program = shutil.which(command[0])
    if program is None:
        raise Usage(f"COMMAND: found {command[0]!r}, which is not a program on PATH; give its path")
    host, port = flags.address(listen, "--listen")
    etcd_at, control_at = Path(etcd_socket).absolute(), Path(control).absolute()
    plain_at = Path(plain_socket).absolute() if plain_socket else None
    paths = {"--etcd-socket": etcd_at, "--control": control_at, **({"--plain-socket": plain_at} if plain_at else {})}
    for flag, path in paths.items():
        if flag != "--control" and os.path.normpath(path) == os.path.normpath(control_at):
            raise Usage(f"--control: found {control}, which is {flag}; each needs a path of its own")
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise Usage(f"{flag}: found {path}, allowed are up to {_LONGEST_PATH} bytes; the kernel takes no more")
    given = {
        "command": [program, *command[1:]],
        "etcd": str(etcd_at),
        "plain": str(plain_at) if plain_at else None,
        "control": str(control_at),
        "host": host,
        "port": port,
        "liveness": list(flags.address(liveness, "--liveness")) if liveness else None,
        "patience": flags.seconds(stop_timeout, "--stop-timeout"),
    }
    # What this command has loaded is not needed while etcd runs.
    os.execv(  # noqa: S606 - no shell
        sys.executable, [sys.executable, "-m", "espalier.etcdbackup.guard", json.dumps(given)]
    )
