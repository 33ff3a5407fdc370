"""The work of `espalier etcd-agent copy --epoch`: the destination's part of a migration."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

from espalier.cli.backups import etcd_election
from espalier.cli.backups.etcd_agent_run import retries_within, server_files
from espalier.cli.backups.etcd_agent_work import opened
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output
from espalier.etcdbackup.election import copier
from espalier.etcdbackup.running.copier import CopyParts
from espalier.etcdbackup.running.process import Address, run_copier
from espalier.kube.transports.wire import in_url
from espalier.runtime.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Stores:
    """Source and target, as texts of the command line."""

    source: str
    source_endpoint: str
    target: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class HttpFlags:
    """The HTTP address and certificate: texts and paths of the command line."""

    listen: str = ""
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None

    def address(self) -> Address:
        """Raises `Usage`."""
        host, port = flags.address(self.listen or "127.0.0.1:8080", "--listen")
        return Address(host, port, server_files(self.certificate, self.key, self.client_authority))


async def copy(
    stores: Stores, epoch: int, source_epoch: int | None, cluster: str, timing: Path | None, http_flags: HttpFlags
) -> None:
    """Take over, until SIGTERM or SIGINT."""
    election = etcd_election.election(epoch, cluster, timing)
    if source_epoch is None:
        raise Usage("--source-epoch must be given with --epoch: the epoch that owned the data last")
    try:
        settings = copier.Settings(epoch, source_epoch, cluster, election.timing)
    except ValueError as error:
        raise Usage(f"--epoch: {error}") from None
    retries = retries_within(election.timing)
    source = opened(stores.source, stores.source_endpoint, source=True, retries=retries)
    target = opened(stores.target, stores.endpoint, retries=retries)
    address = http_flags.address()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def listening(port: int) -> None:
        scheme = "http" if address.server is None else "https"
        output.say(f"takes over {source.where} for epoch {epoch}; listens on {scheme}://{in_url(address.host)}:{port}")

    try:
        await run_copier(settings, CopyParts(source, target), address, SystemClock(), stop, listening)
    except (OSError, ValueError) as error:
        raise Failure(str(error)) from None
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
