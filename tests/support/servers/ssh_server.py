"""OpenSSH's own server with a host key, a user's key and nothing else, where Debian's package is installed."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_LIMIT = 120.0
_SEPARATION = Path("/run/sshd")
"""The folder that the server needs, as root."""


@dataclass(frozen=True)
class SshServer:
    """A running server; a path behind `url` is one of this machine."""

    url: str
    key: Path
    known_hosts: Path
    folder: Path

    def other_key(self) -> Path:
        """A key that it does not know."""
        return made_key(self.folder / "other")


def why_no_ssh_server() -> str:
    """Advice when it can't run here; empty when it can."""
    if not (shutil.which("sshd") or Path("/usr/sbin/sshd").exists()) or shutil.which("ssh") is None:
        return "sshd is not installed: apt-get install openssh-server"
    is_able = _SEPARATION.is_dir() or os.geteuid() == 0
    return "" if is_able else f"{_SEPARATION} does not exist, and only root can make it"


def made_key(path: Path) -> Path:
    """A new key pair without passphrase."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True, timeout=_LIMIT)
    return path


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Serve on a free port, for the present user."""
    if os.geteuid() == 0:
        _SEPARATION.mkdir(mode=0o755, exist_ok=True)
    host, user = made_key(folder / "host"), made_key(folder / "user")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "sshd_config"
    config.write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {host}\nAuthorizedKeysFile {user}.pub\nPidFile none\n"
        "StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
    known_hosts = folder / "known_hosts"
    public = host.with_suffix(".pub").read_text().split()
    known_hosts.write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
    program = shutil.which("sshd") or "/usr/sbin/sshd"
    log = (folder / "sshd.log").open("wb")
    with log, subprocess.Popen([program, "-D", "-e", "-f", str(config)], stdout=log, stderr=log) as process:
        try:
            _wait(port, process)
            yield SshServer(f"ssh://{getpass.getuser()}@127.0.0.1:{port}", user, known_hosts, folder)
        finally:
            process.terminate()
            process.wait(_LIMIT)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _LIMIT
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("sshd does not answer")
