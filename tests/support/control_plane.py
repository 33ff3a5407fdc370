"""A real control plane for tests: etcd, kube-apiserver and kube-controller-manager as processes of this machine.

Found, never fetched: `make real-assets` builds the programs, or `KUBEBUILDER_ASSETS` names them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import msgspec

from espalier.kube.errors import Unreachable
from espalier.kube.http import HttpTransport
from espalier.kube.kubeconfig import Kubeconfig
from espalier.kube.pki import Authority, KeyPair
from espalier.kube.wire import Request
from tests.support.child_process import ChildFailed, ChildProcess

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
START_SECONDS = 120.0
"""How long a control plane may take to get ready; it needs about five seconds on a machine with nothing else to do."""
POLL_SECONDS = 0.05
READING_VERBS = frozenset({"get", "list", "watch"})

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
)
"""What our controllers lean on in a management cluster; the others would only cost time."""

SERVICE_ACCOUNT_ISSUER = "https://kubernetes.default.svc.cluster.local"

# Files are named relative to the control plane's folder, in which the programs run: the path of a socket must be short.
ETCD = {
    "data-dir": "etcd",
    "listen-client-urls": "unix://etcd.sock:0",  # a folder that only we can enter: no port, no certificates
    "advertise-client-urls": "unix://etcd.sock:0",
    "listen-peer-urls": "unix://etcd-peer.sock:0",
    "initial-advertise-peer-urls": "unix://etcd-peer.sock:0",
    "initial-cluster": "default=unix://etcd-peer.sock:0",
    "unsafe-no-fsync": "true",  # the data need not survive the machine
    "logger": "zap",
    "log-level": "warn",
}
API_SERVER = {
    "etcd-servers": "unix://etcd.sock:0",
    "bind-address": "127.0.0.1",
    "advertise-address": "127.0.0.1",
    "endpoint-reconciler-type": "none",  # nothing reaches this server by its Service
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
    "audit-policy-file": "audit-policy.yaml",
    "audit-log-path": "audit.log",
    "audit-log-maxsize": "1000",  # MB, before a new file is begun
}
CONTROLLER_MANAGER = {
    "kubeconfig": "kube-controller-manager.kubeconfig",
    "controllers": ",".join(CONTROLLERS),
    "use-service-account-credentials": "true",  # each controller has the permissions of its own, as in a real cluster
    "service-account-private-key-file": "service-accounts.key",
    "root-ca-file": "authority.crt",
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


def find_assets() -> Path | None:
    """The folder that holds all of `PROGRAMS`: `KUBEBUILDER_ASSETS`, PATH, or what `make real-assets` built.

    When `KUBEBUILDER_ASSETS` is set, nothing else is looked at: tests never run on other programs than those named.
    """
    if named := os.environ.get("KUBEBUILDER_ASSETS"):
        candidates = [Path(named)]
    else:
        on_path = shutil.which("kube-apiserver")
        cache = os.environ.get("ESPALIER_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "espalier"
        built = (Path(cache).expanduser() / "assets").glob("envtest-*")
        candidates = [Path(on_path).parent] if on_path else []
        candidates += sorted(built, key=_version, reverse=True)
    return next((folder.absolute() for folder in candidates if not _lacking(folder)), None)


def why_no_assets() -> str:
    """What a person can do when `find_assets` found nothing."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    lacking = f"KUBEBUILDER_ASSETS names {named}, which lacks {', '.join(_lacking(Path(named)))}; " if named else ""
    return f"{lacking}run make real-assets"


def _lacking(folder: Path) -> list[str]:
    return [program for program in PROGRAMS if not os.access(folder / program, os.X_OK)]


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", folder.name))


class Account(msgspec.Struct):
    """Who made a request."""

    username: str


class AuditEvent(msgspec.Struct, rename="camel"):
    """One finished request, as the API server's audit log tells it."""

    verb: str
    request_uri: str = msgspec.field(name="requestURI")
    user: Account


@dataclass
class ControlPlane:
    """A running control plane.

    `kubeconfig` is an administrator's (group system:masters), with a client certificate of `authority`.
    """

    folder: Path
    url: str
    authority: Authority
    kubeconfig: Path
    kubectl: Path
    audit_log: Path
    processes: list[ChildProcess] = field(default_factory=list)

    @property
    def ca(self) -> bytes:
        """The certificate (PEM) that the server's is checked against."""
        return self.authority.certificate

    def requests(self) -> list[AuditEvent]:
        """Every finished request from the start on, in the order of the audit log, which is written synchronously."""
        return [msgspec.json.decode(line, type=AuditEvent) for line in self.audit_log.read_bytes().splitlines()]

    def writes(self) -> list[AuditEvent]:
        """Those of them that ask for a change."""
        return [event for event in self.requests() if event.verb not in READING_VERBS]

    async def run_kubectl(self, *arguments: str, stdin: bytes = b"") -> str:
        """What kubectl prints as the administrator. Raises `ChildFailed` with its complaint."""
        process = await asyncio.create_subprocess_exec(
            self.kubectl,
            *arguments,
            env={"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)},  # kubectl keeps a cache at home
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            output, complaint = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode != 0:
            raise ChildFailed(f"kubectl {' '.join(arguments)}: {complaint.decode().strip()}")
        return output.decode()

    async def stop(self) -> None:
        """End all processes, the last started first. The files stay."""
        while self.processes:
            await self.processes[-1].stop()
            self.processes.pop()


@contextlib.asynccontextmanager
async def real_control_plane(folder: Path, assets: Path) -> AsyncIterator[ControlPlane]:
    """A control plane that keeps everything in `folder` (empty, ours alone) and runs programs from `assets`.

    It is ready when it serves and its controllers work. Raises `ChildFailed` when a program does not start, and
    `TimeoutError` after `START_SECONDS`.
    """
    with _held_port() as port:
        control_plane = _prepare(folder, assets, f"https://127.0.0.1:{port}")
        try:
            await _start(control_plane, assets, port)
            yield control_plane
        finally:
            await control_plane.stop()


@contextlib.contextmanager
def _held_port() -> Iterator[int]:
    """A free port of the loopback interface that nobody else gets while this lasts.

    It stays bound here, without listening; the API server binds it as well, which the kernel grants to those who both
    ask for a shared port (SO_REUSEPORT) and belong to the same user.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def _prepare(folder: Path, assets: Path, url: str) -> ControlPlane:
    """Write every certificate, key and configuration file."""
    now = datetime.now(UTC)
    authority = Authority.create("espalier-test", now=now)
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1", "10.0.0.1"]
    folder.chmod(0o700)
    _write_pair(folder / "authority", authority)
    _write_pair(folder / "server", authority.issue_server("kube-apiserver", names=names, now=now))
    _write_pair(folder / "service-accounts", Authority.create("service-accounts", now=now))
    (folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
    for user, groups in (("admin", ["system:masters"]), ("system:kube-controller-manager", [])):
        kubeconfig = Kubeconfig.of_cluster(
            "test",
            server=url,
            certificate_authority=authority.certificate,
            user=user,
            credentials=authority.issue_client(user, groups=groups, now=now),
        )
        (folder / f"{user.removeprefix('system:')}.kubeconfig").write_bytes(kubeconfig.to_bytes())
    return ControlPlane(
        folder=folder,
        url=url,
        authority=authority,
        kubeconfig=folder / "admin.kubeconfig",
        kubectl=assets / "kubectl",
        audit_log=folder / "audit.log",
    )


def _write_pair(stem: Path, pair: KeyPair) -> None:
    stem.with_suffix(".crt").write_bytes(pair.certificate)
    stem.with_suffix(".key").write_bytes(pair.key)


async def _start(control_plane: ControlPlane, assets: Path, port: int) -> None:
    def run(program: str, options: Mapping[str, str]) -> None:
        arguments = [f"--{name}={value}" for name, value in options.items()]
        control_plane.processes.append(ChildProcess([assets / program, *arguments], folder=control_plane.folder))

    run("etcd", ETCD)
    run("kube-apiserver", API_SERVER | {"secure-port": str(port)})
    await _answers(control_plane, "/readyz")
    run("kube-controller-manager", CONTROLLER_MANAGER)
    # The controllers work when the first thing that they have to do in a new cluster is done.
    await _answers(control_plane, "/api/v1/namespaces/default/serviceaccounts/default")


async def _answers(control_plane: ControlPlane, path: str) -> None:
    """Return when the administrator gets status 200 for `path`."""
    transport = HttpTransport(Kubeconfig.load([control_plane.kubeconfig]).context(), environment={})
    answer = "nothing yet"
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                for process in control_plane.processes:
                    process.check()
                try:
                    response = await transport.request(Request("GET", path))
                except Unreachable as error:
                    answer = str(error)
                else:
                    if response.status == HTTPStatus.OK:
                        return
                    answer = f"{response.status} {response.body.decode(errors='replace')}"
                await asyncio.sleep(POLL_SECONDS)  # there is nothing to watch before the server serves
    except TimeoutError:
        raise TimeoutError(f"{control_plane.url}{path} after {START_SECONDS:g} s: {answer}") from None
    finally:
        await transport.close()
