"""The guard without the rest of `espalier`: its only argument has the options as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from espalier.etcdbackup.guard.process import Options, run


def main() -> int:
    """Run the guard; return the exit code."""
    arguments = json.loads(sys.argv[1])
    liveness = arguments["liveness"]
    options = Options(
        arguments["command"],
        Path(arguments["etcd"]),
        Path(arguments["control"]),
        arguments["host"],
        arguments["port"],
        (liveness[0], liveness[1]) if liveness else None,
        arguments["patience"],
        Path(arguments["plain"]) if arguments["plain"] else None,
    )
    host = f"[{options.host}]" if ":" in options.host else options.host
    try:
        asyncio.run(
            run(options, lambda port: print(f"guarding {options.etcd}; clients connect to {host}:{port}", flush=True))
        )
    except OSError as error:
        print(f"espalier: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
