"""The etcd for tests as a process: `python -m espalier.simulator.etcd --data-dir DIR --listen URL`.

It prints one line as soon as it serves, and ends with SIGTERM or SIGINT. Exit codes: 0 stopped by a signal, 1 the data
can't be read or written, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from espalier.etcd.bbolt.reading import Damaged, Database
from espalier.etcd.database.hashing import check_snapshot
from espalier.runtime.clock import SystemClock
from espalier.simulator.etcd.member import Member
from espalier.simulator.etcd.server import NotListening, ServerTls, serving
from espalier.simulator.etcd.state.core import DEFAULT_QUOTA
from espalier.simulator.etcd.storage import FILE_NAME, SqliteStorage, Unusable, restore

DATABASE = Path("member/snap/db")
"""The database of the real etcd, in its data directory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the etcd; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m espalier.simulator.etcd",
        description="A single-member etcd for tests, never for production.",
    )
    parser.add_argument("--data-dir", type=Path, required=True, help="data directory; created if missing")
    parser.add_argument("--listen", default="http://127.0.0.1:2379", metavar="URL", help="default: %(default)s")
    parser.add_argument("--cert-file", type=Path, help="server certificate for https:// (PEM)")
    parser.add_argument("--key-file", type=Path, help="its key (PEM)")
    parser.add_argument("--trusted-ca-file", type=Path, help="CA of client certificates, which are then required (PEM)")
    parser.add_argument("--restore", type=Path, metavar="FILE", help="restore a snapshot into an empty data directory")
    parser.add_argument("--quota-backend-bytes", type=int, default=DEFAULT_QUOTA, metavar="N")
    options = parser.parse_args(arguments)
    if (options.cert_file is None) is not (options.key_file is None):
        parser.error("--cert-file and --key-file must be used together")
    if options.trusted_ca_file is not None and options.cert_file is None:
        parser.error("--trusted-ca-file requires --cert-file and --key-file")
    try:
        return asyncio.run(_run(options))
    except (Unusable, Damaged, NotListening, OSError, ValueError) as error:
        print(f"etcd can't start: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1


async def _run(options: argparse.Namespace) -> int:
    tls = ServerTls(options.cert_file, options.key_file, options.trusted_ca_file) if options.cert_file else None
    options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    storage, rng = SqliteStorage(options.data_dir), random.SystemRandom()
    if options.restore is not None:
        await asyncio.to_thread(_restore, storage, options.restore, rng)
    elif not (options.data_dir / FILE_NAME).exists() and (options.data_dir / DATABASE).exists():
        await asyncio.to_thread(_import_data_directory, storage, options.data_dir / DATABASE, rng)
    member = Member(storage, SystemClock(), rng, quota=options.quota_backend_bytes)
    stop_requested = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_ in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_, stop_requested.set)
    await member.start()
    try:
        async with serving(member, options.listen, tls) as url:
            print(f"serving on {url}", flush=True)
            reasons = [asyncio.ensure_future(event.wait()) for event in (stop_requested, member.failed)]
            await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
            for reason in reasons:
                reason.cancel()
            await member.close()  # before the server, so that watches end with an error of etcd
    finally:
        await member.close()
    return 1 if member.failed.is_set() else 0


def _import_data_directory(storage: SqliteStorage, database: Path, rng: random.Random) -> None:
    """Import the database of a data directory that a snapshot was restored to for the real etcd."""
    with Database.open(database) as opened:
        restore(storage, opened, rng)


def _restore(storage: SqliteStorage, snapshot: Path, rng: random.Random) -> None:
    with snapshot.open("rb") as file:
        check_snapshot(file, str(snapshot))
    with Database.open(snapshot) as database:
        restore(storage, database, rng)


if __name__ == "__main__":
    sys.exit(main())
