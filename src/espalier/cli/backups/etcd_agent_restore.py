"""The work of `espalier etcd-agent restore`, apart from its flags."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from espalier.api.text.listing import counted
from espalier.cli.backups.etcd_agent_work import explained, opened
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Damaged, Failure, Usage
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.transfer import Transfer
from espalier.etcdbackup.restore.errors import Incomplete, RestoreError
from espalier.etcdbackup.restore.members import Membership, membership
from espalier.etcdbackup.restore.restorer import Options, Restored
from espalier.etcdbackup.restore.restorer import restore as restore_store
from espalier.etcdbackup.snapshots.sets import SnapshotSet


@dataclass(frozen=True, slots=True)
class RestoreFlags:
    """Source, target and cluster of a restore; as texts of the command line."""

    store: str
    endpoint: str
    data_dir: str
    name: str
    initial_cluster: str
    token: str
    advertise_peer_urls: str
    replace: bool
    partial: bool
    bump: int | None
    lease_ttl: str


async def restore(given: RestoreFlags, output_format: str) -> None:
    """Restore a data directory, and print its contents."""
    seconds = int(flags.seconds(given.lease_ttl, "--lease-ttl"))
    if seconds < 1:
        raise Usage(f"--lease-ttl: found {given.lease_ttl!r}, allowed is 1s or more")
    options = Options(_members(given), given.replace, given.partial, given.bump, seconds)
    folder = Path(given.data_dir)
    with explained(f"stopped; {folder} is unchanged"), _refused(folder), Transfer("restoring") as transfer:
        done = await restore_store(opened(given.store, given.endpoint), folder, options, transfer.moved)
    for reason in done.passed_over:
        output.say(f"not used: {reason}", stderr=True)
    for finding in SnapshotSet(done.full, done.deltas).forks:
        output.say(f"{finding.reason}: {finding.message}", stderr=True)
    if output_format:
        output.write_facts(_facts(given, done), output_format)
    else:
        output.say(_summary(given, done))


def _members(given: RestoreFlags) -> Membership:
    try:
        return membership(given.name, given.initial_cluster, given.token, given.advertise_peer_urls)
    except ValueError as error:
        raise Usage(str(error)) from None


@contextmanager
def _refused(folder: Path) -> Iterator[None]:
    try:
        yield
    except Incomplete as error:
        raise Damaged(f"{error}; {folder} is unchanged") from None
    except (RestoreError, ValueError) as error:
        raise Failure(f"{error}; {folder} is unchanged") from None


def _summary(given: RestoreFlags, done: Restored) -> str:
    contents = done.contents
    lines = [
        f"restored revision {contents.revision} into {given.data_dir}, from {done.full.name} "
        f"and {counted(len(done.deltas), 'delta')} with {counted(contents.events, 'event')}"
    ]
    if not done.is_complete:
        lines.append("the store lists later revisions, which could not be restored")
    if contents.served != contents.revision:
        lines.append(f"etcd starts at revision {contents.served}, so that clients relist: writes may be lost")
    if contents.leases:
        lines.append(
            f"granted for {given.lease_ttl}: {counted(len(contents.leases), 'lease')} not contained in any snapshot"
        )
    lines.append(
        f"etcd {' or '.join(done.etcd)} can start with it"
        if done.etcd
        else "the snapshot does not say from which etcd it is: start the version that was backed up"
    )
    if done.replaced is not None:
        lines.append(f"the previous data are in {done.replaced}")
    return "\n".join(lines)


def _facts(given: RestoreFlags, done: Restored) -> dict[str, object]:
    return {
        "dataDir": given.data_dir,
        "full": done.full.name,
        "deltas": [stored.name for stored in done.deltas],
        "revision": done.contents.revision,
        "servedRevision": done.contents.served,
        "events": done.contents.events,
        "isComplete": done.is_complete,
        "etcd": list(done.etcd),
        "grantedLeases": [f"{lease:x}" for lease in done.contents.leases],
        "replaced": str(done.replaced) if done.replaced is not None else None,
        "notUsed": list(done.passed_over),
    }
