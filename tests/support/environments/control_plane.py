"""A real control plane for tests: etcd, kube-apiserver and kube-controller-manager as processes of this machine.

Found, never fetched: `make real-assets` builds the programs, or `KUBEBUILDER_ASSETS` names them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec

from espalier.cli.local.environment import programs
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.realnodes.management import control_plane, processes
from espalier.runtime.clock import SystemClock
from tests.support.child_process import ChildFailed

PATIENCE = 300.0
"""Seconds that anything may take; only a real control plane needs more than a moment. Its garbage collector looks for
new kinds every 30 s."""
READING_VERBS = frozenset({"get", "list", "watch"})

find_assets = programs.find_control_plane


def why_no_assets() -> str:
    """Advice when `find_assets` found nothing."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if not named:
        return "run make real-assets"
    lacking = programs.lacking(Path(named))
    return f"KUBEBUILDER_ASSETS names {named}, which lacks {', '.join(lacking)}; run make real-assets"


class Account(msgspec.Struct):
    """Who made a request."""

    username: str


class AuditEvent(msgspec.Struct, rename="camel"):
    """One finished request, as the API server's audit log tells it."""

    verb: str
    request_uri: str = msgspec.field(name="requestURI")
    user: Account


@dataclass(frozen=True)
class ControlPlane(control_plane.ControlPlane):
    """A running control plane that writes an audit log, with its administrator's kubectl."""

    supervisor: processes.Supervisor

    def client(self) -> Client:
        """One of the administrator, to be closed."""
        return Client(HttpTransport(Kubeconfig.load([self.kubeconfig]).context(), environment={}))

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        """A client of the administrator, closed whatever fails: an open connection fails a later test."""
        client = self.client()
        try:
            yield client
        finally:
            await client.close()

    def requests(self) -> list[AuditEvent]:
        """Every finished request from the start on, in the order of the audit log, which is written synchronously."""
        return [msgspec.json.decode(line, type=AuditEvent) for line in self.audit_log.read_bytes().splitlines()]

    def writes(self) -> list[AuditEvent]:
        """Those of them that ask for a change."""
        return [event for event in self.requests() if event.verb not in READING_VERBS]

    async def run_kubectl(self, *arguments: str, stdin: bytes = b"") -> str:
        """The output of kubectl as the administrator. Raises `ChildFailed` with its complaint."""
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


@contextlib.asynccontextmanager
async def real_control_plane(
    folder: Path, binaries: Path, flags: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[ControlPlane]:
    """A control plane that keeps everything in `folder` (empty, ours alone) and runs programs from a folder.

    `flags` are further ones of kube-apiserver. It is ready when it serves and its controllers work. Raises
    `ProgramFailed` when a program does not start.
    """
    clock = SystemClock()
    async with (
        processes.supervised(folder, clock) as supervisor,
        control_plane.control_plane(
            supervisor, binaries, folder, clock, durable=False, audited=True, flags=flags
        ) as made,
    ):
        yield ControlPlane(
            made.folder, made.url, made.authority, made.kubeconfig, made.kubectl, made.audit_log, supervisor
        )
