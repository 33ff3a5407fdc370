"""A private control plane on this machine: etcd, kube-apiserver and kube-controller-manager.

Every connection to the API server is TLS with certificates of an authority of its own; etcd is reached through a
socket in a folder that only its owner can enter. What was made in the folder is used again: a control plane that is
started there once more has the same authority, keys and objects.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType

from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.errors import Unreachable
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request
from espalier.realnodes.management.processes import Program, Supervisor
from espalier.runtime.clock import Clock

HOST = "127.0.0.1"
NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", HOST, "10.0.0.1")

CONTROLLERS = (
    "certificatesigningrequest-signing-controller",
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
)
"""Controllers that a management cluster needs; the others would only cost time."""

SERVICE_ACCOUNT_ISSUER = "https://kubernetes.default.svc.cluster.local"

# Files are named relative to the control plane's folder, in which the programs run: the path of a socket must be short.
ETCD = {
    "data-dir": "etcd",
    "listen-client-urls": "unix://etcd.sock:0",
    "advertise-client-urls": "unix://etcd.sock:0",
    "listen-peer-urls": "unix://etcd-peer.sock:0",
    "initial-advertise-peer-urls": "unix://etcd-peer.sock:0",
    "initial-cluster": "default=unix://etcd-peer.sock:0",
    "logger": "zap",
    "log-level": "warn",
}
API_SERVER = {
    "etcd-servers": "unix://etcd.sock:0",
    "bind-address": HOST,
    "advertise-address": HOST,
    "endpoint-reconciler-type": "none",  # no client uses the Service kubernetes
    "permit-port-sharing": "true",
    "tls-cert-file": "server.crt",
    "tls-private-key-file": "server.key",
    "client-ca-file": "authority.crt",
    "authorization-mode": "RBAC",
    "service-account-issuer": SERVICE_ACCOUNT_ISSUER,
    "service-account-key-file": "service-accounts.key",
    "service-account-signing-key-file": "service-accounts.key",
    "service-cluster-ip-range": "10.0.0.0/24",
    "allow-privileged": "true",
    "profiling": "false",
    # As clusters may have it: who makes an object block the deletion of another needs a right on that one.
    "enable-admission-plugins": "OwnerReferencesPermissionEnforcement",
}
AUDIT = {
    "audit-policy-file": "audit-policy.yaml",
    "audit-log-path": "audit.log",
    "audit-log-maxsize": "1000",  # MB, before a new file is begun
}
CONTROLLER_MANAGER = {
    "kubeconfig": "kube-controller-manager.kubeconfig",
    "controllers": ",".join(CONTROLLERS),
    "use-service-account-credentials": "true",  # each controller has its own permissions, as in a real cluster
    "service-account-private-key-file": "service-accounts.key",
    "root-ca-file": "authority.crt",
    "cluster-signing-cert-file": "authority.crt",
    "cluster-signing-key-file": "authority.key",
    "leader-elect": "false",
    "secure-port": "0",
}

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: Metadata
"""


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane.

    `kubeconfig` is an administrator's (group system:masters), with a client certificate of `authority`. `audit_log`
    is written only when that was asked for.
    """

    folder: Path
    url: str
    authority: Authority
    kubeconfig: Path
    kubectl: Path
    audit_log: Path

    @property
    def ca(self) -> bytes:
        """The certificate (PEM) that the server's is checked against."""
        return self.authority.certificate

    def kubeconfig_of(self, user: str, clock: Clock, groups: Sequence[str] = ()) -> Kubeconfig:
        """A kubeconfig for a user of this name, with a new client certificate."""
        return Kubeconfig.of_cluster(
            "management",
            server=self.url,
            certificate_authority=self.ca,
            user=user,
            credentials=self.authority.issue_client(user, groups=groups, now=clock.now()),
        )


@contextlib.asynccontextmanager
async def control_plane(
    supervisor: Supervisor,
    programs: Path,
    folder: Path,
    clock: Clock,
    *,
    port: int = 0,
    durable: bool = True,
    audited: bool = False,
    flags: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[ControlPlane]:
    """Start a control plane that keeps everything in `folder` (ours alone), with programs from the folder `programs`.

    `flags` are further ones of kube-apiserver; names of files are relative to `folder`. It is ready when it serves and
    its controllers work; the supervisor stops it. `port` 0 takes a free one. Data survive a crash of the machine only
    when `durable`. Raises `ProgramFailed`, and `OSError` when the port is taken.
    """
    with held_port(port) as held:
        plane = _prepare(folder, programs, f"https://{HOST}:{held}", clock)
        etcd = ETCD if durable else ETCD | {"unsafe-no-fsync": "true"}
        server = API_SERVER | {"secure-port": str(held)} | (AUDIT if audited else {}) | dict(flags)
        await supervisor.start(
            _program(programs, "etcd", etcd, folder),
            _program(programs, "kube-apiserver", server, folder, answers(plane.kubeconfig, "/readyz")),
        )
        # The controllers work when the first thing that they have to do in a new cluster is done.
        works = answers(plane.kubeconfig, "/api/v1/namespaces/default/serviceaccounts/default")
        await supervisor.start(
            _program(programs, "kube-controller-manager", CONTROLLER_MANAGER, folder, works),
        )
        yield plane


@contextlib.contextmanager
def held_port(port: int = 0) -> Iterator[int]:
    """A port of the loopback interface (0: a free one) that nobody else gets while this lasts.

    It stays bound here, without listening; a server with a shared port (SO_REUSEPORT) binds it as well, which the
    kernel grants to those who both ask for it and belong to the same user. Raises `OSError` when it is taken.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind((HOST, port))
        yield holder.getsockname()[1]


def answers(kubeconfig: Path, path: str) -> Callable[[], Awaitable[bool]]:
    """A readiness check: a client with this kubeconfig gets status 200 for `path`."""

    async def ask() -> bool:
        transport = HttpTransport(Kubeconfig.load([kubeconfig]).context(), environment={})
        try:
            return (await transport.request(Request("GET", path))).status == HTTPStatus.OK
        except Unreachable:
            return False
        finally:
            await transport.close()

    return ask


def write_pair(stem: Path, pair: KeyPair) -> None:
    """Write `STEM.crt` and `STEM.key`, the key readable by its owner only."""
    stem.with_suffix(".crt").write_bytes(pair.certificate)
    write_private(stem.with_suffix(".key"), pair.key)


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only its owner can read."""
    file.touch(mode=0o600)
    file.write_bytes(content)


def stored_authority(stem: Path, common_name: str, clock: Clock) -> Authority:
    """The authority of `STEM.crt` and `STEM.key`, made when they are not there."""
    certificate, key = stem.with_suffix(".crt"), stem.with_suffix(".key")
    if certificate.exists() and key.exists():
        return Authority.load(certificate.read_bytes(), key.read_bytes())
    authority = Authority.create(common_name, now=clock.now())
    write_pair(stem, authority)
    return authority


def _prepare(folder: Path, programs: Path, url: str, clock: Clock) -> ControlPlane:
    """Write every certificate, key and configuration file."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    authority = stored_authority(folder / "authority", "espalier", clock)
    write_pair(folder / "server", authority.issue_server("kube-apiserver", names=NAMES, now=clock.now()))
    stored_authority(folder / "service-accounts", "service-accounts", clock)
    (folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
    plane = ControlPlane(
        folder=folder,
        url=url,
        authority=authority,
        kubeconfig=folder / "admin.kubeconfig",
        kubectl=programs / "kubectl",
        audit_log=folder / "audit.log",
    )
    for user, groups in (("admin", ["system:masters"]), ("system:kube-controller-manager", [])):
        file = folder / f"{user.removeprefix('system:')}.kubeconfig"
        write_private(file, plane.kubeconfig_of(user, clock, groups).to_bytes())
    for remains in ("etcd.sock:0", "etcd-peer.sock:0"):  # left over from a killed run
        (folder / remains).unlink(missing_ok=True)
    return plane


def _program(
    programs: Path,
    name: str,
    options: Mapping[str, str],
    folder: Path,
    is_ready: Callable[[], Awaitable[bool]] | None = None,
) -> Program:
    arguments: list[str | Path] = [programs / name]
    arguments += [f"--{option}={value}" for option, value in options.items()]
    return Program(name, arguments, folder, is_ready)
