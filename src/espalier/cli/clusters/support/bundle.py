"""`espalier generate support-bundle`."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

from espalier.api.resource import Key
from espalier.api.text.listing import counted
from espalier.api.text.quantities import amount
from espalier.cli.clusters.support import archive
from espalier.cli.clusters.support.reading import LOG_LINES, Findings, Log, Reader
from espalier.cli.kit import distribution, flags
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing.progress import Progress
from espalier.kube.connection.kubeconfig import Kubeconfig

LEAST_SIZE, DEFAULT_SIZE = 64 * 1024, "100Mi"
FLAG = "--without-secret-values"
_LOCAL_LOG_BYTES = 16 * 1024**2


async def generate(
    name: str | None, connect: flags.Connection, output_to: Path | None, limit: int, *, without_values: bool
) -> None:
    """Write a bundle of one cluster, or of all. Raises `Failure` for a cluster or a file that can't be, and after a
    bundle without logs and messages: values of Secrets that these may quote could not be read."""
    now = datetime.now(UTC)
    path = output_to or Path(f"support-bundle-{now:%Y-%m-%dT%H_%M_%S}.tar.gz")
    if path.exists():
        raise Failure(f"-o: found {path}, which exists; allowed is a new file: remove it, or name another")
    if not path.parent.is_dir():
        raise Failure(f"-o: found {path}, but there is no folder {path.parent}: create it, or name another file")
    with Progress() as progress:
        async with connection.connect(connect) as connected:
            cluster = None if name is None else Key(connected.namespace, name)
            progress.wait("read the management cluster")
            wait = progress.wait if progress.is_live else lambda _text: None  # a pipe would get fifty lines
            findings = await Reader(connected.client, cluster, wait).read()
        findings.logs += local_logs(connect)
        progress.wait("mask and pack what was read")
        about = {
            "of": f"cluster {cluster}" if cluster else "all clusters",
            "madeAt": now.isoformat(timespec="seconds"),
            "espalier": distribution.version(),
        }
        size = archive.write(path, archive.entries(findings, about, limit, without_values=without_values), now)
        _tell(
            progress, path, size, findings, 0 if archive.lacks_texts(findings, without_values) else len(findings.logs)
        )
        _tell_of_values(progress, findings, without_values)


def _tell(progress: Progress, path: Path, size: int, findings: Findings, logs: int) -> None:
    objects = sum(map(len, findings.objects.values()))
    read = f"{counted(objects, 'object')} and {counted(logs, 'log')}"
    progress.say(f"{path}: {size / 1024:.0f} KiB with {read}; look through it before you send it")
    if findings.unread:
        failed = f"{len(findings.unread)} of {counted(findings.reads, 'read')} failed"
        first = findings.unread[0]
        progress.say(f"{failed}, first {first.what}: {first.error}; README.txt in it lists all", "[yellow]![/]")


def _tell_of_values(progress: Progress, findings: Findings, without_values: bool) -> None:
    if beyond := archive.beyond_bounds(findings):
        progress.say(f"values {beyond}", "[yellow]![/]")
    sentence = archive.unmasked(findings, without_values)
    if sentence and without_values:
        progress.say(f"values {sentence}", "[yellow]![/]")
    elif sentence:
        progress.settle()
        raise Failure(f"values {sentence}; {FLAG} includes them, masked by patterns alone")


def local_logs(connect: flags.Connection) -> list[Log]:
    """The log of the local environment, if it runs the API server in use: its programs have no pods."""
    home = Home.locate()
    with suppress(Exception):  # whatever is wrong with a log or a kubeconfig, the rest is worth having
        if not home.log.exists():
            return []
        local = Kubeconfig.load([home.kubeconfig]).context().server
        if connection.access_of(connect, home).server != local:
            return []
        with open(home.log, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOCAL_LOG_BYTES))
            lines = file.read().decode(errors="replace").splitlines()[-LOG_LINES:]
        return [Log(f"logs/local/{home.log.name}", "\n".join(lines) + "\n")]
    return []


def size_limit(text: str) -> int:
    """`--max-size` in bytes. Raises `Usage`."""
    try:
        size = amount(text)
    except InvalidOperation:
        size = Decimal(0)
    if not size.is_finite() or not LEAST_SIZE <= size <= 2**40:
        raise Usage(f"--max-size: found {text!r}, allowed is a size such as 20Mi or 1Gi, from 64Ki")
    return int(size)
