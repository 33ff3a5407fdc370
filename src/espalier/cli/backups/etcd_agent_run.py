"""The work of `espalier etcd-agent run`, apart from its flags."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from aiohttp import web

from espalier.api.etcd.timing import Timing
from espalier.cli.backups import etcd_election
from espalier.cli.backups.etcd_agent_work import opened
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output
from espalier.etcd.credentials import CertificateError, TlsFiles
from espalier.etcd.endpoints import endpoint
from espalier.etcdbackup.agent import process
from espalier.etcdbackup.agent.backups import Settings
from espalier.etcdbackup.agent.serving import ServerFiles
from espalier.etcdbackup.election import agent
from espalier.etcdbackup.restore.data_directory import check_is_of_etcd
from espalier.etcdbackup.restore.errors import RestoreError
from espalier.etcdbackup.restore.members import Membership, membership
from espalier.etcdbackup.running.data.initialization import Initialization, add_initialization
from espalier.etcdbackup.running.etcd_configuration import EtcdConfiguration, add_configuration
from espalier.etcdbackup.running.members import Members
from espalier.etcdbackup.running.process import Ownership, run_agent
from espalier.etcdbackup.snapshots.names import Compression
from espalier.etcdbackup.snapshots.retention import Exponential, Newest
from espalier.etcdbackup.snapshotter.collection import Retention
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.etcdbackup.stores.retries import Retries
from espalier.etcdbackup.stores.store import Store
from espalier.kube.transports.wire import in_url
from espalier.runtime.clock import SystemClock

COMPRESSIONS = {compression.word: compression for compression in Compression if compression is not Compression.LZW}
POLICIES = ("exponential", "limit-based")


@dataclass(frozen=True, slots=True)
class RunFlags:
    """The etcd to back up, and the schedule; as texts of the command line."""

    store: str
    endpoint: str
    etcd: str
    cacert: Path | None
    cert: Path | None
    key: Path | None
    listen: str
    server_cert: Path | None
    server_key: Path | None
    client_ca: Path | None
    schedule: str
    delta_period: str
    delta_memory: int
    defragmentation: str
    policy: str
    max_backups: int
    collection_period: str
    delta_retention: str
    compression: str
    snapshot_timeout: str
    epoch: int | None = None
    cluster: str = ""
    timing: Path | None = None
    founding: bool = False
    data_dir: Path | None = None
    etcd_config: Path | None = None
    guard: Path | None = None
    name: str = ""
    initial_cluster: str = ""
    token: str = ""
    advertise_peer_urls: str = ""
    member_clients: str = ""
    member_agents: str = ""
    member_config: Path | None = None


async def run(given: RunFlags) -> None:
    """Back up until SIGTERM or SIGINT."""
    options, ownership = _options(given), _ownership(given)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    retries = None if ownership is None else retries_within(ownership.settings.timing)
    store = opened(given.store, given.endpoint, retries=retries)

    def listening(port: int) -> None:
        scheme = "https" if options.server is not None else "http"
        output.say(f"backs up {options.etcd} to {store.where}; listens on {scheme}://{in_url(options.host)}:{port}")

    try:
        if options.tls is not None:
            options.tls.read()  # report unusable settings now instead of retrying forever
        if given.data_dir is not None:
            check_is_of_etcd(given.data_dir)
        if ownership is None:
            await process.run(options, store, SystemClock(), stop, listening)
        else:
            await run_agent(options, ownership, store, SystemClock(), stop, listening)
    except (OSError, ValueError, CertificateError, RestoreError) as error:
        raise Failure(str(error)) from None
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _options(given: RunFlags) -> process.Options:
    host, port = flags.address(given.listen, "--listen")
    server = server_files(given.server_cert, given.server_key, given.client_ca)
    try:
        if "," in given.etcd:
            raise Usage(f"--endpoints: found {given.etcd}, allowed is one: the member to back up")
        tls = TlsFiles(given.cacert, given.cert, given.key) if given.cacert or given.cert or given.key else None
        if not endpoint(given.etcd, tls=tls is not None).tls and tls is not None:
            flag = next(name for name in ("cacert", "cert", "key") if getattr(given, name))
            raise Usage(
                f"--{flag}: --endpoints {given.etcd} does not use TLS, so it would be ignored; "
                "use https:// or unixs://, or omit the flag"
            )
        return process.Options(
            given.etcd,
            tls,
            host,
            port,
            server,
            _settings(given),
            flags.seconds(given.snapshot_timeout, "--etcd-snapshot-timeout"),
            _initialization(given),
        )
    except ValueError as error:
        raise Usage(str(error)) from None


def _ownership(given: RunFlags) -> Ownership | None:
    """With `--epoch` the agent decides whether etcd serves."""
    if given.epoch is None:
        etcd_election.needs_epoch(
            cluster=given.cluster,
            timing=given.timing,
            founding=given.founding,
            guard=given.guard,
            member_clients=given.member_clients,
            member_agents=given.member_agents,
            member_config=given.member_config,
        )
        return None
    election = etcd_election.election(given.epoch, given.cluster, given.timing)
    if given.data_dir is None or given.guard is None:
        raise Usage(
            "--data-dir and --guard must be given with --epoch: etcd's data, and the control socket of its guard"
        )
    try:
        members = membership(given.name, given.initial_cluster, given.token, given.advertise_peer_urls)
    except ValueError as error:
        raise Usage(str(error)) from None
    peers = _peers(given, members)
    others = peers.others if peers is not None else ()
    settings = agent.Settings(election.epoch, election.cluster, election.timing, given.founding, others)
    if peers is not None:
        members = membership(given.name, "", given.token, given.advertise_peer_urls)
    return Ownership(settings, given.guard, given.data_dir, members, peers)


def _peers(given: RunFlags, members: Membership) -> Members | None:
    """With `--member-clients`, etcd has several members, and the agent writes its configuration. Raises `Usage`."""
    rest = {"member-agents": given.member_agents, "member-config": given.member_config}
    if not given.member_clients:
        for name, value in {**rest, "etcd-config": given.etcd_config}.items():
            if value:
                raise Usage(f"--{name} needs --member-clients with --epoch: otherwise the guard starts etcd with flags")
        return None
    for name, value in rest.items():
        if not value:
            raise Usage(f"--{name} must be given with --member-clients")
    assert given.member_config is not None and given.data_dir is not None  # noqa: S101, PT018 - checked
    alone = membership(given.name, "", given.token, given.advertise_peer_urls)
    clients = etcd_election.urls_of_members(given.member_clients, "--member-clients", members)
    agents = etcd_election.urls_of_members(given.member_agents, "--member-agents", members)
    return Members(
        members,
        clients,
        agents,
        EtcdConfiguration(alone, given.token, given.data_dir, given.etcd_config),
        given.member_config,
        _tls_of_agents(given, {"member-clients": clients.values(), "member-agents": agents.values()}),
    )


def _tls_of_agents(given: RunFlags, urls: Mapping[str, Iterable[str]]) -> TlsFiles | None:
    """The files with which agents call each other and the etcds of others, whose URLs are those of these flags: the
    files with which they serve. Raises `Usage`."""
    secure = [(flag, url) for flag, of_flag in urls.items() for url in of_flag if url.startswith("https://")]
    if not secure:
        return None
    if given.server_cert is None or given.client_ca is None:
        flag, url = secure[0]
        raise Usage(
            f"--{flag}: found {url}, which needs --server-cert, --server-key and --client-ca: agents "
            "call other members with the certificate with which they serve"
        )
    return TlsFiles(given.client_ca, given.server_cert, given.server_key)


def server_files(certificate: Path | None, key: Path | None, client_authority: Path | None) -> ServerFiles | None:
    """The files named by `--server-cert`, `--server-key` and `--client-ca`; None without them. Raises `Usage`."""
    if (certificate is None) is not (key is None):
        raise Usage("--server-cert and --server-key belong together: give both or none")
    if certificate is None or key is None:
        if client_authority is not None:
            raise Usage("--client-ca needs --server-cert and --server-key: without TLS, clients send no certificate")
        return None
    return ServerFiles(certificate, key, client_authority)


def retries_within(timing: Timing) -> Retries:
    """Limits of a store whose operations end within the times of the election: one attempt and one retry."""
    return Retries(attempt=timing.store_timeout * 0.45, retries=1, longest_wait=timing.store_timeout * 0.1)


def _initialization(given: RunFlags) -> Callable[[web.Application, Store], None]:
    """With a data directory and without an election, serve the requests of etcd-wrapper."""
    folder = given.data_dir
    if folder is None or given.epoch is not None:
        if given.etcd_config is not None and folder is None:
            raise ValueError("--etcd-config needs --data-dir")
        return lambda _application, _store: None
    members = membership(given.name, given.initial_cluster, given.token, given.advertise_peer_urls)
    configuration = EtcdConfiguration(members, given.token, folder, given.etcd_config)

    def added(application: web.Application, store: Store) -> None:
        add_initialization(application, Initialization(store, folder, members))
        add_configuration(application, configuration)

    return added


def _settings(given: RunFlags) -> Settings:
    schedule = Schedule(
        full=given.schedule,
        delta_period=flags.seconds(given.delta_period, "--delta-snapshot-period"),
        delta_memory=given.delta_memory,
        defragmentation=given.defragmentation,
        collection_period=flags.seconds(given.collection_period, "--garbage-collection-period"),
    )
    policy = Exponential() if given.policy == POLICIES[0] else Newest(given.max_backups)
    retention = timedelta(seconds=flags.seconds(given.delta_retention, "--delta-snapshot-retention-period"))
    return Settings(schedule, Retention(policy, retention), COMPRESSIONS[given.compression])
