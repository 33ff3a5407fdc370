"""`python -m espalier.apiserver`: an API server as a process of its own, with its objects in etcd.

Flags are those of kube-apiserver. It prints its address when it serves. Exit codes: 0 ended by SIGTERM or SIGINT,
1 it can't start, 2 the command line is wrong, 3 etcd was lost: watches were ended, and nothing was served since.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import structlog

from espalier.apiserver.access.webhook_calls import HttpWebhooks
from espalier.apiserver.builtin.builtin import KINDS
from espalier.apiserver.http import HttpShell
from espalier.apiserver.server import Server
from espalier.apiserver.storage.encryption import Encryption
from espalier.apiserver.storage.etcd_keys import PREFIX, Keys
from espalier.apiserver.storage.etcd_store import LOST_AFTER, EtcdStore, StoreLost
from espalier.etcd.client import connect
from espalier.etcd.credentials import TlsFiles
from espalier.kube.connection.pki import KeyPair

STOPPED, FAILED, LOST = 0, 1, 3

log = structlog.get_logger("espalier.apiserver")


def main(arguments: Sequence[str]) -> int:
    """Run an API server until a signal or the loss of etcd. Returns the exit code."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    flags = _parser().parse_args(arguments)
    try:
        return asyncio.run(_serve(flags))
    except (StoreLost, OSError, ValueError) as error:
        log.error("the API server can't start", reason=str(error))
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="espalier.apiserver", description="Serve the Kubernetes API from etcd.")
    etcd = parser.add_argument_group("etcd")
    etcd.add_argument("--etcd-servers", required=True, help="comma-separated endpoints; unix:///PATH is allowed")
    etcd.add_argument("--etcd-prefix", default=PREFIX, help="prefix of all keys (%(default)s)")
    etcd.add_argument("--etcd-cafile", type=Path, help="CA of etcd's certificates (PEM)")
    etcd.add_argument("--etcd-certfile", type=Path, help="client certificate (PEM)")
    etcd.add_argument("--etcd-keyfile", type=Path, help="client key (PEM)")
    etcd.add_argument(
        "--etcd-lost-after",
        type=float,
        default=LOST_AFTER,
        metavar="SECONDS",
        help="exit after this time without etcd (%(default)g)",
    )
    etcd.add_argument(
        "--encryption-provider-config", type=Path, metavar="FILE", help="EncryptionConfiguration for stored objects"
    )
    serving = parser.add_argument_group("serving")
    serving.add_argument("--bind-address", default="127.0.0.1", help="address to listen on (%(default)s)")
    serving.add_argument(
        "--secure-port", type=int, default=6443, help="port to listen on, 0 for a free one (%(default)s)"
    )
    serving.add_argument("--tls-cert-file", type=Path, required=True, help="certificate (PEM)")
    serving.add_argument("--tls-private-key-file", type=Path, required=True, help="its key (PEM)")
    serving.add_argument("--client-ca-file", type=Path, required=True, help="CA of client certificates (PEM)")
    return parser


async def _serve(flags: argparse.Namespace) -> int:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    tls = TlsFiles(flags.etcd_cafile, flags.etcd_certfile, flags.etcd_keyfile)
    client = connect(*flags.etcd_servers.split(","), tls=tls if tls.paths else None)
    encryption = Encryption.read(flags.encryption_provider_config) if flags.encryption_provider_config else None
    keys = Keys(KINDS, flags.etcd_prefix)
    store = EtcdStore(client, keys, lost_after=flags.etcd_lost_after, encryption=encryption)
    async with AsyncExitStack() as stack:
        webhooks = HttpWebhooks()
        stack.push_async_callback(webhooks.close)
        rng = random.SystemRandom()
        server = Server(store, now=lambda: datetime.now(UTC), random=rng, call_webhook=webhooks)
        stack.push_async_callback(server.close)
        await server.start()
        serving = KeyPair(flags.tls_cert_file.read_bytes(), flags.tls_private_key_file.read_bytes())
        clients = flags.client_ca_file.read_bytes()
        shell = HttpShell(server, host=flags.bind_address, port=flags.secure_port, serving=serving, client_ca=clients)
        await shell.start()
        stack.push_async_callback(shell.stop)
        print(shell.url, flush=True)
        lost, stopped = asyncio.ensure_future(server.lost()), asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((lost, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not lost.done():
                return STOPPED
            log.error("the API server exits, because it lost etcd", reason=lost.result())
            return LOST
        finally:
            lost.cancel()
            stopped.cancel()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
