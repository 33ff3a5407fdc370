"""Certificates of an agent's HTTPS and of a client that it answers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from espalier.etcdbackup.agent.serving import ServerFiles
from espalier.kube.connection.pki import Authority


def certificates(folder: Path) -> tuple[ServerFiles, Path]:
    """Files of a server that asks for certificates, and where those of a client are."""
    now = datetime.now(UTC)
    authority = Authority.create("agents", now=now)
    (folder / "ca.crt").write_bytes(authority.certificate)
    for name, pair in (
        ("server", authority.issue_server("agent", names=["127.0.0.1"], now=now)),
        ("client", authority.issue_client("gardenlet", now=now)),
    ):
        (folder / f"{name}.crt").write_bytes(pair.certificate)
        (folder / f"{name}.key").write_bytes(pair.key)
    return ServerFiles(folder / "server.crt", folder / "server.key", folder / "ca.crt"), folder
