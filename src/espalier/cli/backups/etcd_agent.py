"""`espalier etcd-agent run|list|show|verify|copy|restore`: backups of etcd in object stores."""

from __future__ import annotations

from pathlib import Path

import click

from espalier.cli.backups import etcd_election
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.failures import Usage

EXIT_CODES = """
\b
Exit codes: 0 done · 1 refused or failed (the reason is on standard error) ·
2 wrong command line · 3 a store did not answer · 4 timed out ·
5 a backup is damaged, incomplete or too old · 130 interrupted
"""
STORE = "URL: s3://, gs:// or az:// with bucket and prefix, or file:///folder."
_endpoint = click.option(
    "--endpoint", default="", metavar="URL", help="Endpoint of the store. Default: that of its credentials or provider."
)
_format = flags.output()


def _server_files(command: etcd_election.Decorated) -> etcd_election.Decorated:
    """`--server-cert`, `--server-key` and `--client-ca`."""
    for option in (
        click.option(
            "--client-ca", type=flags.FILE, metavar="FILE",
            help="Require client certificates from this CA, except for /healthz.",
        ),
        click.option("--server-key", type=flags.FILE, metavar="FILE", help="Key of --server-cert (PEM)."),
        click.option("--server-cert", type=flags.FILE, metavar="FILE", help="Certificate for HTTPS (PEM)."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group(cls=Group, epilog=EXIT_CODES)
def etcd_agent() -> None:
    """Back up an etcd; list, verify, copy and restore its backups.

    Backups and credential files have the formats of etcd-backup-restore. AWS_APPLICATION_CREDENTIALS,
    GOOGLE_APPLICATION_CREDENTIALS and AZURE_APPLICATION_CREDENTIALS name the files.
    """


@etcd_agent.command("list", epilog=EXIT_CODES)
@click.argument("store", help=STORE)
@_endpoint
@flags.output(wide=True)
async def list_(*, store: str, endpoint: str, output_format: str) -> None:
    """List snapshot sets: a full snapshot and the deltas after it. Reads only object names.

    \b
    Example:
      espalier etcd-agent list s3://backups/garden/etcd-main
    """
    from espalier.cli.backups import etcd_agent_work  # noqa: PLC0415  help need not load it

    await etcd_agent_work.list_(store, endpoint, output_format)


@etcd_agent.command(epilog=EXIT_CODES)
@click.argument("store", help=STORE)
@click.argument("name", required=False, help="A snapshot of the set. Default: the latest set.")
@_endpoint
@_format
async def show(*, store: str, name: str | None, endpoint: str, output_format: str) -> None:
    """Show the snapshots of a set, and faults that their names reveal, such as gaps.

    \b
    Example:
      espalier etcd-agent show file:///var/backups/etcd-main -o yaml
    """
    from espalier.cli.backups import etcd_agent_work  # noqa: PLC0415  help need not load it

    await etcd_agent_work.show(store, name, endpoint, output_format)


@etcd_agent.command(epilog=EXIT_CODES)
@click.argument("store", help=STORE)
@click.option("--all", "every", is_flag=True, help="Verify all sets, not only the latest.")
@click.option("--max-age", default="", metavar="DURATION", help="Fail if the newest snapshot is older: 10m, 25h.")
@click.option("--revision", type=flags.Number(1, 2**63 - 1), metavar="N", help="Fail if revision N can't be restored.")
@_endpoint
@_format
async def verify(
    *, store: str, every: bool, max_age: str, revision: int | None, endpoint: str, output_format: str
) -> None:
    """Read every byte of the latest set and check all hashes, revisions and events. Needs no etcd.

    \b
    Example:
      espalier etcd-agent verify s3://backups/garden/etcd-main --max-age 10m
    """
    from espalier.cli.backups import etcd_agent_work  # noqa: PLC0415  help need not load it

    await etcd_agent_work.verify(store, endpoint, output_format, every=every, max_age=max_age, revision=revision)


@etcd_agent.command(epilog=EXIT_CODES)
@click.argument("source", help=STORE)
@click.argument("target", help=STORE)
@click.option(
    "--max-backups-to-copy",
    type=flags.NumberOrAll(10**6),
    default=-1,
    metavar="N",
    help="Copy only the newest N sets. Default: -1, all.",
)
@click.option(
    "--max-backup-age",
    type=flags.NumberOrAll(36500),
    default=-1,
    metavar="DAYS",
    help="Copy only younger sets, and always the latest. Default: -1, any age.",
)
@click.option(
    "--max-parallel-copy-operations", type=flags.Number(1, 100), default=4, metavar="N", show_default=True,
    help="Snapshots to copy concurrently.",
)  # fmt: skip
@click.option(
    "--wait-for-final-snapshot", is_flag=True,
    help="First wait for the final snapshot, after which etcd takes no writes.",
)  # fmt: skip
@click.option(
    "--wait-for-final-snapshot-timeout", default="0", metavar="DURATION",
    help="After this time, copy what exists and exit with 4. Default: wait forever.",
)  # fmt: skip
@click.option("--source-endpoint", default="", metavar="URL", help="Endpoint of the source.")
@etcd_election.epoch("Take over for epoch N, coordinated with the source through its sync objects.")
@click.option("--source-epoch", type=flags.Number(1, 2**53), metavar="M", help="Epoch that last owned the data.")
@click.option("--listen", default="", metavar="HOST:PORT", help="Listen address for HTTP, with --epoch.")
@_server_files
@_endpoint
@_format
async def copy(
    *,
    source: str,
    target: str,
    max_backups_to_copy: int | None,
    max_backup_age: int | None,
    max_parallel_copy_operations: int,
    wait_for_final_snapshot: bool,
    wait_for_final_snapshot_timeout: str,
    source_endpoint: str,
    epoch: int | None,
    cluster: str,
    timing: Path | None,
    source_epoch: int | None,
    listen: str,
    server_cert: Path | None,
    server_key: Path | None,
    client_ca: Path | None,
    endpoint: str,
    output_format: str,
) -> None:
    """Copy snapshots to another store. Skips intact copies: after an interruption, run it again.

    Variables with the source's credentials have the prefix SOURCE_. In the target, no snapshot is marked as final.

    With --epoch, it acts as the destination of a migration: it copies once the source has closed, and runs until
    SIGTERM; /healthz returns 200 once the copy is complete.

    \b
    Example:
      espalier etcd-agent copy s3://old/a gs://new/a --max-backups-to-copy 1
    """
    if epoch is not None:
        from espalier.cli.backups import etcd_agent_takeover  # noqa: PLC0415  help need not load it

        stores = etcd_agent_takeover.Stores(source, source_endpoint, target, endpoint)
        http_flags = etcd_agent_takeover.HttpFlags(listen, server_cert, server_key, client_ca)
        await etcd_agent_takeover.copy(stores, epoch, source_epoch, cluster, timing, http_flags)
        return
    if wait_for_final_snapshot_timeout != "0" and not wait_for_final_snapshot:
        raise Usage("--wait-for-final-snapshot-timeout needs --wait-for-final-snapshot")
    etcd_election.needs_epoch(
        cluster=cluster, timing=timing, source_epoch=source_epoch, listen=listen, server_cert=server_cert,
        server_key=server_key, client_ca=client_ca,
    )  # fmt: skip
    from espalier.cli.backups import etcd_agent_work  # noqa: PLC0415  help need not load it

    await etcd_agent_work.copy(
        etcd_agent_work.CopyOptions(
            source=source,
            target=target,
            source_endpoint=source_endpoint,
            endpoint=endpoint,
            most=max_backups_to_copy,
            days=max_backup_age,
            parallel=max_parallel_copy_operations,
            waits=wait_for_final_snapshot,
            timeout=wait_for_final_snapshot_timeout,
        ),
        output_format,
    )


@etcd_agent.command(epilog=EXIT_CODES)
@click.argument("store", help=STORE)
@click.option("--data-dir", required=True, metavar="DIR", help="Data directory to create, as for etcd.")
@etcd_election.membership
@click.option("--replace", is_flag=True, help="Keep existing data as DIR.replaced.")
@click.option("--partial", is_flag=True, help="If something is missing or damaged, restore as far as possible.")
@click.option(
    "--bump-revision", type=flags.Number(0, 2**62), metavar="N",
    help="Revisions to skip, marked as compacted. Default: 10^9, and 0 from a final snapshot.",
)  # fmt: skip
@click.option(
    "--lease-ttl", default="1h", metavar="DURATION", show_default=True, help="TTL of leases that are in no snapshot."
)
@_endpoint
@_format
async def restore(
    *,
    store: str,
    data_dir: str,
    name: str,
    initial_cluster: str,
    initial_cluster_token: str,
    initial_advertise_peer_urls: str,
    replace: bool,
    partial: bool,
    bump_revision: int | None,
    lease_ttl: str,
    endpoint: str,
    output_format: str,
) -> None:
    """Create a data directory from the newest full snapshot and the deltas after it. Needs no etcd.

    It works in DIR.part, which becomes DIR only on success; until then, DIR is unchanged.

    \b
    Example:
      espalier etcd-agent restore s3://backups/a --data-dir /var/lib/etcd
    """
    from espalier.cli.backups import etcd_agent_restore  # noqa: PLC0415  help need not load it

    await etcd_agent_restore.restore(
        etcd_agent_restore.RestoreFlags(
            store=store,
            endpoint=endpoint,
            data_dir=data_dir,
            name=name,
            initial_cluster=initial_cluster,
            token=initial_cluster_token,
            advertise_peer_urls=initial_advertise_peer_urls,
            replace=replace,
            partial=partial,
            bump=bump_revision,
            lease_ttl=lease_ttl,
        ),
        output_format,
    )


@etcd_agent.command(epilog=EXIT_CODES)
@click.argument("store", help=STORE)
@click.option(
    "--endpoints", "etcd", default="http://127.0.0.1:2379", metavar="URL", show_default=True,
    help="The etcd member to back up: http://, https:// or unix://.",
)  # fmt: skip
@click.option("--cacert", type=flags.FILE, metavar="FILE", help="CA of etcd's server certificate (PEM).")
@click.option("--cert", type=flags.FILE, metavar="FILE", help="Client certificate for etcd (PEM).")
@click.option("--key", type=flags.FILE, metavar="FILE", help="Key of --cert (PEM).")
@click.option(
    "--listen", default="127.0.0.1:8080", metavar="HOST:PORT", show_default=True,
    help="Listen address for HTTP; port 0 picks a free one.",
)  # fmt: skip
@_server_files
@click.option(
    "--schedule", default="0 */1 * * *", metavar="CRON", show_default=True, help="When to take full snapshots, in UTC."
)
@click.option(
    "--delta-snapshot-period", default="20s", metavar="DURATION", show_default=True,
    help="Interval of delta snapshots; below 1s disables them.",
)  # fmt: skip
@click.option(
    "--delta-snapshot-memory-limit", type=flags.Number(1, 2**31), default=10 << 20, metavar="BYTES", show_default=True,
    help="Size of pending events at which a delta snapshot is taken early.",
)  # fmt: skip
@click.option(
    "--defragmentation-schedule", default="0 0 */3 * *", metavar="CRON", show_default=True,
    help="When to defragment etcd, in UTC; empty disables it.",
)  # fmt: skip
@click.option(
    "--garbage-collection-policy", type=click.Choice(("exponential", "limit-based"), case_sensitive=False),
    default="exponential", show_default=True, help="Which full snapshots to keep.",
)  # fmt: skip
@click.option(
    "--max-backups", type=flags.Number(1, 10**6), default=7, metavar="N", show_default=True,
    help="Full snapshots to keep with limit-based.",
)  # fmt: skip
@click.option(
    "--garbage-collection-period", default="1m", metavar="DURATION", show_default=True,
    help="Interval of garbage collection; below 1s disables it.",
)  # fmt: skip
@click.option(
    "--delta-snapshot-retention-period", default="0s", metavar="DURATION", show_default=True,
    help="How long to keep deltas of earlier sets.",
)  # fmt: skip
@click.option(
    "--compression-policy", type=click.Choice(("gzip", "zlib", "none")), default="gzip", show_default=True,
    help="Compression of snapshots.",
)  # fmt: skip
@click.option(
    "--etcd-snapshot-timeout", default="15m", metavar="DURATION", show_default=True,
    help="Timeout of snapshots requested over HTTP.",
)  # fmt: skip
@click.option(
    "--store-endpoint", "endpoint", default="", metavar="URL",
    help="Endpoint of the store. Default: that of its credentials or provider.",
)  # fmt: skip
@etcd_election.epoch("Serve as the owner of epoch N. Default: only back up.")
@click.option("--founding", is_flag=True, help="The epoch is the first of a new cluster.")
@click.option("--data-dir", type=flags.FILE, metavar="DIR", help="etcd's --data-dir, which the agent restores.")
@click.option("--etcd-config", type=flags.FILE, metavar="FILE", help="Base of the etcd configuration at /config.")
@click.option("--guard", type=flags.FILE, metavar="PATH", help="Unix socket of `espalier etcd-guard --control`.")
@etcd_election.membership
@etcd_election.peers
@etcd_election.needs_data_directory
async def run(
    *,
    store: str,
    etcd: str,
    cacert: Path | None,
    cert: Path | None,
    key: Path | None,
    listen: str,
    server_cert: Path | None,
    server_key: Path | None,
    client_ca: Path | None,
    schedule: str,
    delta_snapshot_period: str,
    delta_snapshot_memory_limit: int,
    defragmentation_schedule: str,
    garbage_collection_policy: str,
    max_backups: int,
    garbage_collection_period: str,
    delta_snapshot_retention_period: str,
    compression_policy: str,
    etcd_snapshot_timeout: str,
    endpoint: str,
    epoch: int | None,
    cluster: str,
    timing: Path | None,
    founding: bool,
    data_dir: Path | None,
    etcd_config: Path | None,
    guard: Path | None,
    name: str,
    initial_cluster: str,
    initial_cluster_token: str,
    initial_advertise_peer_urls: str,
    member_clients: str,
    member_agents: str,
    member_config: Path | None,
) -> None:
    """Back up a running etcd: full snapshots on a schedule, and delta snapshots every few seconds.

    It serves /snapshot/full, /snapshot/delta, /snapshot/latest, /healthz and /metrics over HTTP, and runs until
    SIGTERM. With --epoch, it also restores etcd's data, starts etcd through its guard, and hands the data over in a
    migration.

    \b
    Example:
      espalier etcd-agent run s3://backups/a --schedule "0 * * * *"
    """
    from espalier.cli.backups import etcd_agent_run  # noqa: PLC0415  help need not load it

    await etcd_agent_run.run(
        etcd_agent_run.RunFlags(
            store=store,
            endpoint=endpoint,
            etcd=etcd,
            cacert=cacert,
            cert=cert,
            key=key,
            listen=listen,
            server_cert=server_cert,
            server_key=server_key,
            client_ca=client_ca,
            schedule=schedule,
            delta_period=delta_snapshot_period,
            delta_memory=delta_snapshot_memory_limit,
            defragmentation=defragmentation_schedule,
            policy=garbage_collection_policy,
            max_backups=max_backups,
            collection_period=garbage_collection_period,
            delta_retention=delta_snapshot_retention_period,
            compression=compression_policy,
            snapshot_timeout=etcd_snapshot_timeout,
            epoch=epoch,
            cluster=cluster,
            timing=timing,
            founding=founding,
            data_dir=data_dir,
            etcd_config=etcd_config,
            guard=guard,
            name=name,
            initial_cluster=initial_cluster,
            token=initial_cluster_token,
            advertise_peer_urls=initial_advertise_peer_urls,
            member_clients=member_clients,
            member_agents=member_agents,
            member_config=member_config,
        )
    )
